// The properties of an instance: its orchestration, its times, its tags, and the room that it takes in the store.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { FactsAnswer, InstanceAnswer } from '../answers.ts';
import { useAnswer } from './api.ts';
import { ago, bytes, count, duration, time } from './format.ts';
import { useNow } from './now.ts';
import { linkTo, queryOf } from './route.ts';
import { hasEnded } from './status.tsx';

/** Mailboxes that are shown, the fullest first. */
const MAILBOXES_SHOWN = 5;

export function Facts({ instance }: { instance: InstanceAnswer }): JSX.Element {
  const now = useNow();
  const { id, name, version, createdAtMs, updatedAtMs, completedAtMs, executionId, priority, tags, status } = instance;
  const until = hasEnded(status) ? (completedAtMs ?? updatedAtMs) : now;
  return (
    <dl class="facts panel">
      <div>
        <dt>Orchestration</dt>
        <dd>
          <a href={linkTo('instances', { name })}>{name}</a> <span class="faint">{version}</span>
        </dd>
      </div>
      <div>
        <dt>Started</dt>
        <dd title={ago(createdAtMs, now)}>{time(createdAtMs)}</dd>
      </div>
      <div>
        <dt>{hasEnded(status) ? 'Ended' : 'Last change'}</dt>
        <dd title={ago(updatedAtMs, now)}>{time(completedAtMs ?? updatedAtMs)}</dd>
      </div>
      <div>
        <dt>{hasEnded(status) ? 'Took' : 'For'}</dt>
        <dd>{duration(Math.max(0, until - createdAtMs))}</dd>
      </div>
      <div>
        <dt>Execution</dt>
        <dd>{count(executionId)}</dd>
      </div>
      {priority === undefined ? null : (
        <div>
          <dt>Priority</dt>
          <dd>{priority}</dd>
        </div>
      )}
      <Room id={id} />
      {Object.keys(tags).length === 0 ? null : (
        <div>
          <dt>Tags</dt>
          <dd>
            {Object.entries(tags).map(([key, value]) => (
              <a key={key} class="tag" href={linkTo('instances', { tag: `${key}:${value}` })}>
                {key}:{value}
              </a>
            ))}
          </dd>
        </div>
      )}
    </dl>
  );
}

/** Counted on request, because the store reads every event of the instance for it. */
function Room({ id }: { id: string }): JSX.Element {
  const [isAsked, setAsked] = useState(false);
  const { answer, error, isLoading, reload } = useAnswer<FactsAnswer>(isAsked ? `facts?${queryOf({ id })}` : undefined);
  const isBusy = isAsked && isLoading;
  return (
    <>
      {answer === undefined ? null : <Counted facts={answer} />}
      <div>
        <dt>In the store</dt>
        <dd>
          <button
            type="button"
            class="link"
            disabled={isBusy}
            title="Events, bytes and unread messages"
            onClick={() => (isAsked ? reload() : setAsked(true))}
          >
            {isBusy ? 'Counting…' : answer === undefined ? 'Count events and bytes' : 'Count again'}
          </button>
          {error === undefined ? null : (
            <span role="alert" class="problem">
              {' '}
              {error.message}
            </span>
          )}
        </dd>
      </div>
    </>
  );
}

function Counted({ facts: { executions, events, historyBytes, unread } }: { facts: FactsAnswer }): JSX.Element {
  const { messages, mailboxes } = unread;
  const others = mailboxes.length - MAILBOXES_SHOWN;
  return (
    <>
      <div>
        <dt>Events</dt>
        <dd>
          {count(events)} {executions === 1 ? null : <span class="faint">in {count(executions)} executions</span>}
        </dd>
      </div>
      <div>
        <dt>Size of the history</dt>
        <dd title={`${count(historyBytes)} bytes`}>{bytes(historyBytes)}</dd>
      </div>
      <div>
        <dt>Unread messages</dt>
        <dd>
          {count(messages)}{' '}
          {mailboxes.slice(0, MAILBOXES_SHOWN).map(({ kind, name, messages }) => (
            <span key={`${kind} ${name}`} class="tag">
              {kind} {name}: {count(messages)}
            </span>
          ))}
          {others > 0 ? <span class="faint">and others</span> : null}
        </dd>
      </div>
    </>
  );
}

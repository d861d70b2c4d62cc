// The panel of the waits of an instance: open activities, timers, children, messages, and the fibers.

import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ActivityWait, PlaceRow, ValueText, WaitsAnswer } from '../answers.ts';
import type { Step } from '../steps.ts';
import { type AskedAction, LABELS } from './actions.tsx';
import { ago, count, countdown, time } from './format.ts';
import { useNow } from './now.ts';
import { linkTo } from './route.ts';
import { useServerInfo } from './server-info.ts';
import { dueText, Gutter } from './timeline-rows.tsx';
import { Value } from './value.tsx';

interface WaitsProps {
  readonly waits: WaitsAnswer;
  onSelect(event: number): void;
  ask(action: AskedAction): void;
}

/** Shows nothing if nothing is known to wait for. */
export function Waits({ waits, onSelect, ask }: WaitsProps): JSX.Element | null {
  const { openOperations, openFibers } = waits;
  const now = useNow();
  const [isUnfolded, setUnfolded] = useState(false);
  const rows = [...beginRows(waits, now), ...messageRows(waits, ask), ...operationRows(waits, now, onSelect)];
  const unnamed = openOperations - (rows.length - waits.messages.length);
  if (rows.length === 0 && openFibers < 2) return null;
  return (
    <section class="panel" aria-labelledby="waits">
      <h2 id="waits">Waiting for</h2>
      <ul class="waits">{isUnfolded ? rows : rows.slice(0, ROWS_SHOWN)}</ul>
      {isUnfolded || rows.length <= ROWS_SHOWN ? null : (
        <button type="button" class="quiet" onClick={() => setUnfolded(true)}>
          Show {count(rows.length - ROWS_SHOWN)} more
        </button>
      )}
      {unnamed <= 0 ? null : <p class="faint">and {count(unnamed)} operations that are not listed</p>}
      {openFibers < 2 ? null : <Fibers of={waits} />}
    </section>
  );
}

/** Rows that are shown before the user asks for the others. */
const ROWS_SHOWN = 12;

/** The row of an instance that has not begun: its start time, or its place in its queue. */
function beginRows({ queue, startsAtMs }: WaitsAnswer, now: number): JSX.Element[] {
  if (startsAtMs !== undefined && startsAtMs > now)
    return [
      <Row key="start" kind="timer" word="start" name={dueText(startsAtMs, now)}>
        <span>{time(startsAtMs)}</span>
      </Row>,
    ];
  if (queue === undefined) return [];
  return [
    <Row key="queue" kind="wait" word="queue" name={queue.name}>
      <Place of={queue} now={now} />
    </Row>,
  ];
}

function Place({ of: { key, state, sinceMs, pausedMs }, now }: { of: PlaceRow; now: number }): JSX.Element {
  return (
    <>
      <span class="badge">{PLACES[state]}</span>
      {pausedMs === undefined ? null : <span title={`since ${time(pausedMs)}`}>the queue is paused</span>}
      {key === undefined ? null : <span>key {key}</span>}
      <span title={time(sinceMs)}>
        {state === 'delayed' ? `comes into line in ${countdown(sinceMs, now)}` : `queued ${ago(sinceMs, now)}`}
      </span>
    </>
  );
}

/** Words for the places in a queue. */
const PLACES: Readonly<Record<PlaceRow['state'], string>> = {
  delayed: 'delayed',
  waiting: 'in line',
  held: 'its key has no slot or token',
  suspended: 'suspended',
  running: 'has a slot',
};

/** The awaited messages come first, because the user can send them. */
function messageRows({ messages }: WaitsAnswer, ask: WaitsProps['ask']): JSX.Element[] {
  return messages.map(({ kind, name, title, fiber }, i) => (
    <Row key={`message ${i}`} kind="wait" word={kind} name={title ?? name} fiber={fiber}>
      {title === undefined ? <SendButton kind={kind} name={name} ask={ask} /> : <span class="id faint">{name}</span>}
    </Row>
  ));
}

/** Order of the activities. */
const STATES: readonly ActivityWait['state'][] = ['retrying', 'running', 'queued'];

function operationRows(
  { activities, timers, children }: WaitsAnswer,
  now: number,
  onSelect: WaitsProps['onSelect'],
): JSX.Element[] {
  const ordered = STATES.flatMap((state) => activities.filter((activity) => activity.state === state));
  return [
    ...ordered.map((activity) => <Activity key={activity.eventId} activity={activity} now={now} onSelect={onSelect} />),
    ...timers.map(({ eventId, dueAtMs, fiber }) => (
      <Row key={eventId} kind="timer" name={dueText(dueAtMs, now)} fiber={fiber}>
        <span>{time(dueAtMs)}</span>
        <EventLink event={eventId} onSelect={onSelect} />
      </Row>
    )),
    ...children.map(({ eventId, name, instanceId, fiber }) => (
      <Row key={eventId} kind="child" name={name} fiber={fiber}>
        <a class="id" href={linkTo('instance', { id: instanceId })}>
          {instanceId}
        </a>
        <EventLink event={eventId} onSelect={onSelect} />
      </Row>
    )),
  ];
}

interface ActivityProps {
  readonly activity: ActivityWait;
  readonly now: number;
  onSelect(event: number): void;
}

function Activity({ activity, now, onSelect }: ActivityProps): JSX.Element {
  const { eventId, name, state, attempt, scheduledAtMs, retryAtMs, queue, place, worker, fiber } = activity;
  const { lastError, heartbeat } = activity;
  return (
    <Row
      kind="activity"
      name={name}
      fiber={fiber}
      more={
        <>
          {lastError === undefined ? null : <More title="Last error" of={lastError} />}
          {heartbeat?.details === undefined ? null : <More title="Heartbeat" of={heartbeat.details} />}
        </>
      }
    >
      <span class={`badge ${state === 'retrying' ? 'bad' : ''}`}>{state}</span>
      <span>attempt {attempt}</span>
      {state === 'retrying' && retryAtMs !== undefined ? (
        <span title={time(retryAtMs)}>next attempt in {countdown(retryAtMs, now)}</span>
      ) : null}
      <span title={time(scheduledAtMs)}>scheduled {ago(scheduledAtMs, now)}</span>
      {heartbeat === undefined ? null : <span title={time(heartbeat.atMs)}>heartbeat {ago(heartbeat.atMs, now)}</span>}
      {queue === undefined ? null : <span>queue {queue}</span>}
      {place === undefined ? null : <Place of={place} now={now} />}
      {worker === undefined ? null : <span title={worker.id}>worker {worker.name ?? worker.id}</span>}
      <EventLink event={eventId} onSelect={onSelect} />
    </Row>
  );
}

interface RowProps {
  readonly kind: Step['kind'];
  readonly word?: string;
  readonly name: string;
  readonly fiber?: number;
  readonly children: ComponentChildren;
  /** Stands below the row. */
  readonly more?: JSX.Element;
}

function Row({ kind, word = kind, name, fiber = 0, children, more }: RowProps): JSX.Element {
  return (
    <li>
      <Gutter kind={kind} word={word} name={name}>
        {fiber === 0 ? null : <span class="badge">fiber {fiber}</span>}
      </Gutter>
      <div class="wait-facts">{children}</div>
      {more}
    </li>
  );
}

/** A value of one line, which opens to show all of it. */
function More({ title, of }: { title: string; of: ValueText }): JSX.Element {
  const line = of.errors === undefined ? of.text.replaceAll(/\s+/g, ' ') : of.text.split('\n', 1)[0];
  return (
    <details class="attempt">
      <summary>
        {title}: <span class="mono">{line}</span>
      </summary>
      <Value label={title} shown={of} />
    </details>
  );
}

function EventLink({ event, onSelect }: { event: number; onSelect(event: number): void }): JSX.Element {
  return (
    <button type="button" class="link" title={`Event ${event} of the history`} onClick={() => onSelect(event)}>
      #{event}
    </button>
  );
}

interface SendButtonProps {
  readonly kind: 'event' | 'queue';
  readonly name: string;
  ask(action: AskedAction): void;
}

/** Opens the form that sends the message, with its name. Absent where the dashboard is read-only. */
function SendButton({ kind, name, ask }: SendButtonProps): JSX.Element | null {
  if (useServerInfo()?.readOnly) return null;
  const asked: AskedAction =
    kind === 'event' ? { action: 'raise', texts: { name } } : { action: 'enqueue', texts: { queue: name } };
  return (
    <button type="button" onClick={() => ask(asked)}>
      {LABELS[asked.action]}… <span class="unseen">{name}</span>
    </button>
  );
}

function Fibers({ of: { fibers, openFibers } }: { of: WaitsAnswer }): JSX.Element {
  return (
    <>
      <h3 id="fibers">Fibers ({count(openFibers)})</h3>
      <ul class="waits" aria-labelledby="fibers">
        {fibers.map(({ fiber, name = '', waitsFor }) => (
          <Row key={fiber} kind="execution" word="fiber" name={fiber === 0 ? 'main' : `${fiber} ${name}`}>
            {waitsFor.map((one, i) => (
              <span key={i}>{one}</span>
            ))}
          </Row>
        ))}
      </ul>
    </>
  );
}

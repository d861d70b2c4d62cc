// The executions of an instance: the steps from one to the next, and the list of all of them.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ExecutionRow, ExecutionsAnswer, InstanceAnswer } from '../answers.ts';
import { useAnswer } from './api.ts';
import { count, duration, time } from './format.ts';
import { useNow } from './now.ts';
import { Problem } from './problem.tsx';
import { linkTo, queryOf } from './route.ts';
import { Status } from './status.tsx';

interface ExecutionsProps {
  readonly instance: InstanceAnswer;
  /** Number of the shown execution. */
  readonly shown: number | undefined;
}

/** The instance whose list is open. The list stays open when its links lead to another execution. */
let opened: string | undefined;

export function Executions({ instance, shown }: ExecutionsProps): JSX.Element {
  const { id, executionId, status } = instance;
  const [isOpen, setOpen] = useState(opened === id);
  const toggle = (): void => {
    opened = isOpen ? undefined : id;
    setOpen(!isOpen);
  };
  return (
    <>
      <div class="head">
        <h2 id="timeline">Timeline</h2>
        {executionId === 1 ? null : (
          <nav class="pager" aria-label="Executions of this instance">
            {shown !== undefined && shown > 1 ? (
              <a href={linkTo('instance', { id, execution: shown - 1 })}>← {shown - 1}</a>
            ) : null}
            <span>
              execution {shown} of {executionId}
            </span>
            {shown !== undefined && shown < executionId ? (
              <a href={linkTo('instance', { id, execution: shown + 1 })}>{shown + 1} →</a>
            ) : null}
            {shown !== undefined && shown < executionId ? <a href={linkTo('instance', { id })}>latest</a> : null}
            <button type="button" aria-expanded={isOpen} onClick={toggle}>
              All executions
            </button>
          </nav>
        )}
      </div>
      {isOpen && executionId > 1 ? <List key={`${executionId} ${status}`} id={id} shown={shown} /> : null}
    </>
  );
}

/** The list, part by part. It is read again when an execution begins or the status changes. */
function List({ id, shown }: { id: string; shown: number | undefined }): JSX.Element {
  const [starts, setStarts] = useState<readonly (number | undefined)[]>([undefined]);
  return (
    <div class="scroll executions" tabIndex={0} role="group" aria-label="All executions">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Execution</th>
            <th scope="col">Status</th>
            <th scope="col">Started</th>
            <th scope="col">Ended</th>
            <th scope="col" class="right">
              Took
            </th>
            <th scope="col" class="right">
              Events
            </th>
            <th scope="col">Version</th>
          </tr>
        </thead>
        <tbody>
          {starts.map((from, at) => (
            <Part
              key={from ?? 0}
              id={id}
              from={from}
              shown={shown}
              onMore={at === starts.length - 1 ? (next) => setStarts([...starts, next]) : undefined}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface PartProps {
  readonly id: string;
  readonly from: number | undefined;
  readonly shown: number | undefined;
  readonly onMore: ((from: number) => void) | undefined;
}

function Part({ id, from, shown, onMore }: PartProps): JSX.Element {
  const { answer, error, reload } = useAnswer<ExecutionsAnswer>(`executions?${queryOf({ id, from })}`);
  if (answer === undefined)
    return (
      <tr>
        <td colSpan={COLUMNS} class="faint">
          {error === undefined ? 'Loading…' : <Problem error={error} again={reload} />}
        </td>
      </tr>
    );
  const { items, next } = answer;
  return (
    <>
      {items.map((one) => (
        <Row key={one.executionId} id={id} of={one} isShown={one.executionId === shown} />
      ))}
      {next === null || onMore === undefined ? null : (
        <tr>
          <td colSpan={COLUMNS}>
            <button type="button" onClick={() => onMore(next)}>
              Load more
            </button>
          </td>
        </tr>
      )}
    </>
  );
}

const COLUMNS = 7;

function Row({ id, of, isShown }: { id: string; of: ExecutionRow; isShown: boolean }): JSX.Element {
  const { executionId, version, status, startedAtMs, endedAtMs, events } = of;
  const now = useNow(endedAtMs === undefined);
  return (
    <tr class={isShown ? 'shown' : ''}>
      <th scope="row">
        <a href={linkTo('instance', { id, execution: executionId })} aria-current={isShown ? 'page' : undefined}>
          {count(executionId)}
        </a>
      </th>
      <td>
        <Status of={status} />
      </td>
      <td>{time(startedAtMs)}</td>
      <td>{endedAtMs === undefined ? '' : time(endedAtMs)}</td>
      <td class="right">{duration(Math.max(0, (endedAtMs ?? now) - startedAtMs))}</td>
      <td class="right">{count(events)}</td>
      <td>{version}</td>
    </tr>
  );
}

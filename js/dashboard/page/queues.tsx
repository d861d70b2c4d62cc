// The list of the queues.

import type { JSX } from 'preact';

import type { QueueRow, QueuesAnswer } from '../answers.ts';
import { useAnswer } from './api.ts';
import { ago, count, time } from './format.ts';
import { useNow } from './now.ts';
import { useRefresh } from './pager.tsx';
import { Problem } from './problem.tsx';

export function Queues(): JSX.Element {
  const { answer, error, reload } = useAnswer<QueuesAnswer>('queues');
  useRefresh(true, reload);
  return (
    <>
      <div class="head">
        <h1>Queues</h1>
        <button type="button" onClick={reload}>
          Refresh
        </button>
      </div>
      {error !== undefined ? (
        <Problem error={error} again={reload} />
      ) : answer === undefined ? (
        <p class="empty">Loading…</p>
      ) : (
        <Table rows={answer.items} />
      )}
    </>
  );
}

function Table({ rows }: { rows: readonly QueueRow[] }): JSX.Element {
  const now = useNow();
  if (rows.length === 0)
    return <p class="panel empty">No queues. A queue appears here when a client or a runtime sets its limits.</p>;
  return (
    <div class="scroll panel flush" tabIndex={0} role="group" aria-label="List of queues">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Queue</th>
            <th scope="col" class="right" title="Instances that have a slot">
              Running
            </th>
            <th scope="col" class="right" title="Instances that wait for a slot">
              Waiting
            </th>
            <th scope="col" class="right" title="Instances whose start time has not come">
              Delayed
            </th>
            <th scope="col" class="right" title="Instances that the rate of the queue lets begin now">
              Tokens
            </th>
            <th scope="col">Oldest wait</th>
            <th scope="col">Limits</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.name} row={row} now={now} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ row, now }: { row: QueueRow; now: number }): JSX.Element {
  const { name, limits, waiting, delayed, running, slots, tokens, oldestMs } = row;
  return (
    <tr>
      <th scope="row" class="id">
        {name}
      </th>
      <td class="right">
        {count(running)}
        {slots === undefined ? null : <span class="faint"> of {count(slots)}</span>}
      </td>
      <td class="right">{count(waiting)}</td>
      <td class="right">{count(delayed)}</td>
      <td class="right">{tokens === undefined ? <span class="faint">no rate</span> : count(tokens)}</td>
      {oldestMs === undefined ? <td class="faint">none</td> : <td title={time(oldestMs)}>{ago(oldestMs, now)}</td>}
      <td>{limits}</td>
    </tr>
  );
}

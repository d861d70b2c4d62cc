// The list of the locks with names: the blocks that hold each, and how many wait.

import type { JSX } from 'preact';

import type { LockRow, LocksAnswer } from '../answers.ts';
import { useAnswer } from './api.ts';
import { ago, count, time } from './format.ts';
import { useNow } from './now.ts';
import { Pager, ROWS, useRefresh } from './pager.tsx';
import { Problem } from './problem.tsx';
import { linkTo, queryOf } from './route.ts';

export function Locks({ params }: { params: URLSearchParams }): JSX.Element {
  const cursors = params.getAll('page');
  const path = `locks?${queryOf({ cursor: cursors.at(-1), limit: ROWS })}`;
  const { answer, error, reload } = useAnswer<LocksAnswer>(path);
  useRefresh(cursors.length === 0, reload);
  return (
    <>
      <div class="head">
        <h1>Locks</h1>
        <button type="button" onClick={reload}>
          Refresh
        </button>
      </div>
      <p class="sample">Locks with names. The page of an entity shows its own lock among the values of its state.</p>
      {error !== undefined ? (
        <Problem error={error} again={reload} />
      ) : answer === undefined ? (
        <p class="empty">Loading…</p>
      ) : (
        <Rows rows={answer.items} />
      )}
      <Pager
        cursors={cursors}
        of={answer}
        noun="locks"
        onPage={(page) => {
          location.hash = linkTo('locks', { page });
        }}
      />
    </>
  );
}

function Rows({ rows }: { rows: readonly LockRow[] }): JSX.Element {
  const now = useNow();
  if (rows.length === 0)
    return <p class="panel empty">No locks. A lock appears here when an orchestration asks for it.</p>;
  return (
    <div class="scroll panel flush" tabIndex={0} role="group" aria-label="List of locks">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Lock</th>
            <th scope="col">Permits taken</th>
            <th scope="col">Held by</th>
            <th scope="col" class="right">
              Waiting
            </th>
            <th scope="col">Last change</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.id} row={row} now={now} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ row, now }: { row: LockRow; now: number }): JSX.Element {
  const { id, name, holders, taken, permits, waiting, updatedAtMs } = row;
  const others = taken - holders.length;
  return (
    <tr>
      <th scope="row" class="id">
        <a href={linkTo('instance', { id })}>{name}</a>
      </th>
      <td>{permits === undefined ? <span class="faint">free</span> : `${count(taken)} of ${count(permits)}`}</td>
      <td class="holders">
        {holders.map((holder, i) => (
          <a key={i} class="id" href={linkTo('instance', { id: holder })}>
            {holder}
          </a>
        ))}
        {others > 0 ? <span class="faint">and {count(others)} more</span> : null}
      </td>
      <td class="right">{count(waiting)}</td>
      <td title={time(updatedAtMs)}>{ago(updatedAtMs, now)}</td>
    </tr>
  );
}

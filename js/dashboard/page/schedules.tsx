// The list of schedules. Each row has the actions that are taken most: pause, resume and run now.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ScheduleRow, SchedulesAnswer } from '../schedule-answers.ts';
import { useAnswer } from './api.ts';
import { ago, count, countdown, time } from './format.ts';
import { useNow } from './now.ts';
import { Pager, ROWS, useRefresh } from './pager.tsx';
import { Problem } from './problem.tsx';
import { linkTo, queryOf } from './route.ts';
import { ActionButton, ActionDialog, type AskedSchedule, runActions } from './schedule-actions.tsx';
import { NewScheduleButton } from './schedule-form.tsx';
import { useServerInfo } from './server-info.ts';
import { Status } from './status.tsx';

type ScheduleSet = NonNullable<ScheduleRow['set']>;

export function Schedules({ params }: { params: URLSearchParams }): JSX.Element {
  const cursors = params.getAll('page');
  const path = `schedules?${queryOf({ cursor: cursors.at(-1), limit: ROWS })}`;
  const { answer, error, reload } = useAnswer<SchedulesAnswer>(path);
  // The page of the list that the last action was taken on, and the words about it.
  const [done, setDone] = useState({ on: '', text: '' });
  useRefresh(cursors.length === 0, reload);
  return (
    <>
      <div class="head">
        <h1>Schedules</h1>
        <span role="status">{done.on === path ? done.text : ''}</span>
        <span class="tools">
          <button type="button" onClick={reload}>
            Refresh
          </button>
          <NewScheduleButton />
        </span>
      </div>
      {error !== undefined ? (
        <Problem error={error} again={reload} />
      ) : answer === undefined ? (
        <p class="empty">Loading…</p>
      ) : (
        <Rows
          rows={answer.items}
          onDone={(text) => {
            setDone({ on: path, text });
            reload();
          }}
        />
      )}
      <Pager
        cursors={cursors}
        of={answer}
        noun="schedules"
        onPage={(page) => {
          location.hash = linkTo('schedules', { page });
        }}
      />
    </>
  );
}

interface RowsProps {
  readonly rows: readonly ScheduleRow[];
  onDone(text: string): void;
}

function Rows({ rows, onDone }: RowsProps): JSX.Element {
  const now = useNow();
  const mayAct = useServerInfo()?.readOnly === false;
  const [asked, setAsked] = useState<AskedSchedule>();
  if (rows.length === 0)
    return <p class="panel empty">No schedules. A schedule appears here when code declares it or a client sets it.</p>;
  return (
    <div class="scroll panel flush" tabIndex={0} role="group" aria-label="List of schedules">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Schedule</th>
            <th scope="col">Times</th>
            <th scope="col">Starts</th>
            <th scope="col">Next</th>
            <th scope="col">Last run</th>
            <th scope="col">Runs</th>
            {mayAct ? <th scope="col">Actions</th> : null}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.id} row={row} now={now}>
              {mayAct ? (
                <td>
                  {runActions(row).map((action) => (
                    <ActionButton key={action} action={action} row={row} onAsk={setAsked} />
                  ))}
                </td>
              ) : null}
            </Row>
          ))}
        </tbody>
      </table>
      {asked === undefined ? null : (
        <ActionDialog
          {...asked}
          onClose={() => setAsked(undefined)}
          onDone={(_, text) => {
            setAsked(undefined);
            onDone(text);
          }}
        />
      )}
    </div>
  );
}

interface RowProps {
  readonly row: ScheduleRow;
  readonly now: number;
  readonly children: JSX.Element | null;
}

function Row({ row: { id, name, isSuspended, set }, now, children }: RowProps): JSX.Element {
  return (
    <tr>
      <th scope="row" class="id">
        <a href={linkTo('schedule', { id })}>{name}</a> {isSuspended ? <Status of="Suspended" /> : null}
      </th>
      {set === undefined ? (
        <td class="faint" colSpan={5}>
          No worker has set it yet.
        </td>
      ) : (
        <>
          <td class="mono">{set.times}</td>
          <td>
            {set.starts.name} <span class="faint">{set.starts.version}</span>
          </td>
          <td class="pause">
            <Next set={set} now={now} />
          </td>
          <LastCell last={set.last} now={now} />
          <td>{countsText(set.counts)}</td>
        </>
      )}
      {children}
    </tr>
  );
}

/** The reasons of pauses that have no note. */
const PAUSED_BY: Readonly<Record<NonNullable<ScheduleSet['paused']>['by'], string>> = {
  client: '',
  failure: 'a run failed',
  removal: 'no code declares it',
};

/** The time until the next due time, or the pause. */
export function Next({ set: { nextMs, paused }, now }: { set: ScheduleSet; now: number }): JSX.Element {
  if (paused !== undefined) {
    const { sinceMs, by, note = PAUSED_BY[by] } = paused;
    return (
      <span title={`since ${time(sinceMs)}`}>
        <span class={`badge ${by === 'client' ? '' : 'bad'}`}>paused</span> {note}
      </span>
    );
  }
  if (nextMs === undefined) return <span class="faint">none</span>;
  return <span title={time(nextMs)}>{nextMs > now ? `in ${countdown(nextMs, now)}` : 'now'}</span>;
}

type Outcome = NonNullable<ScheduleSet['last']>['outcome'];

const BAD: ReadonlySet<Outcome> = new Set(['failed', 'exists', 'missed']);

/** The outcome of a due time. */
export function OutcomeBadge({ of }: { of: Outcome }): JSX.Element {
  return <span class={`badge ${BAD.has(of) ? 'bad' : ''}`}>{of === 'exists' ? 'ID was in use' : of}</span>;
}

function LastCell({ last, now }: { last: ScheduleSet['last']; now: number }): JSX.Element {
  if (last === undefined) return <td class="faint">none</td>;
  const { id, dueMs, outcome } = last;
  return (
    <td title={`${id}: due at ${time(dueMs)}`}>
      <OutcomeBadge of={outcome} />{' '}
      <a href={linkTo('instance', { id })}>
        {ago(dueMs, now)} <span class="unseen">the run {id}</span>
      </a>
    </td>
  );
}

export function countsText({ started, skipped, missed }: ScheduleSet['counts']): string {
  const parts = [`${count(started)} started`];
  if (skipped > 0) parts.push(`${count(skipped)} skipped`);
  if (missed > 0) parts.push(`${count(missed)} missed`);
  return parts.join(', ');
}

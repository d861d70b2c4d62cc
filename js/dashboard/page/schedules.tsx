// The list of schedules, and the actions on one: pause, resume and run now.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ActionAnswer, ScheduleAction, ScheduleRow, SchedulesAnswer } from '../answers.ts';
import { act, useAnswer } from './api.ts';
import { Dialog } from './dialog.tsx';
import { type FieldDefinition, Fields, type Texts, valuesOf } from './fields.tsx';
import { ago, count, countdown, time } from './format.ts';
import { useNow } from './now.ts';
import { Pager, ROWS, useRefresh } from './pager.tsx';
import { Problem } from './problem.tsx';
import { linkTo, queryOf } from './route.ts';
import { useServerInfo } from './server-info.ts';
import { Status } from './status.tsx';

type ScheduleSet = NonNullable<ScheduleRow['set']>;
type Outcome = NonNullable<ScheduleSet['last']>['outcome'];

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
        <button type="button" onClick={reload}>
          Refresh
        </button>
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
  const [asked, setAsked] = useState<{ action: ScheduleAction; row: ScheduleRow }>();
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
              {mayAct ? <Buttons row={row} onAsk={(action) => setAsked({ action, row })} /> : null}
            </Row>
          ))}
        </tbody>
      </table>
      {asked === undefined ? null : (
        <ActionDialog
          {...asked}
          onClose={() => setAsked(undefined)}
          onDone={(text) => {
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
        <a href={linkTo('instance', { id })}>{name}</a> {isSuspended ? <Status of="Suspended" /> : null}
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
          <NextCell set={set} now={now} />
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
function NextCell({ set: { nextMs, paused }, now }: { set: ScheduleSet; now: number }): JSX.Element {
  if (paused !== undefined) {
    const { sinceMs, by, note = PAUSED_BY[by] } = paused;
    return (
      <td class="pause" title={`since ${time(sinceMs)}`}>
        <span class={`badge ${by === 'client' ? '' : 'bad'}`}>paused</span> {note}
      </td>
    );
  }
  if (nextMs === undefined) return <td class="faint">none</td>;
  return <td title={time(nextMs)}>{nextMs > now ? `in ${countdown(nextMs, now)}` : 'now'}</td>;
}

const BAD: ReadonlySet<Outcome> = new Set(['failed', 'exists']);

/** The words for the outcomes of due times that have a run. */
function outcomeText(outcome: Outcome): string {
  return outcome === 'exists' ? 'ID was in use' : outcome;
}

function LastCell({ last, now }: { last: ScheduleSet['last']; now: number }): JSX.Element {
  if (last === undefined) return <td class="faint">none</td>;
  const { id, dueMs, outcome } = last;
  return (
    <td title={`${id}: due at ${time(dueMs)}`}>
      <span class={`badge ${BAD.has(outcome) ? 'bad' : ''}`}>{outcomeText(outcome)}</span>{' '}
      <a href={linkTo('instance', { id })}>
        {ago(dueMs, now)} <span class="unseen">the run {id}</span>
      </a>
    </td>
  );
}

function countsText({ started, skipped, missed }: ScheduleSet['counts']): string {
  const parts = [`${count(started)} started`];
  if (skipped > 0) parts.push(`${count(skipped)} skipped`);
  if (missed > 0) parts.push(`${count(missed)} missed`);
  return parts.join(', ');
}

function Buttons({
  row: { name, set },
  onAsk,
}: {
  row: ScheduleRow;
  onAsk(action: ScheduleAction): void;
}): JSX.Element {
  const actions: readonly ScheduleAction[] =
    set === undefined ? [] : ['triggerSchedule', set.paused === undefined ? 'pauseSchedule' : 'resumeSchedule'];
  return (
    <td>
      {actions.map((action) => (
        <button key={action} type="button" onClick={() => onAsk(action)}>
          {KINDS[action].button}… <span class="unseen">the schedule {name}</span>
        </button>
      ))}
    </td>
  );
}

interface Kind {
  readonly title: string;
  readonly text: string;
  readonly button: string;
  readonly fields: readonly FieldDefinition[];
}

const KINDS: Readonly<Record<ScheduleAction, Kind>> = {
  pauseSchedule: {
    title: 'Pause this schedule?',
    text: 'Due times pass without a run until the schedule is resumed. Runs that go on are left alone.',
    button: 'Pause',
    fields: [{ name: 'note', label: 'Note', kind: 'text', note: 'The note is shown while the schedule is paused.' }],
  },
  resumeSchedule: {
    title: 'Resume this schedule?',
    text: 'The schedule is due again from now on. Due times that have passed are not made up for.',
    button: 'Resume',
    fields: [],
  },
  triggerSchedule: {
    title: 'Run this schedule now?',
    text: 'The schedule starts a run. If another run goes on, the overlap of the schedule decides.',
    button: 'Run now',
    fields: [],
  },
};

interface ActionDialogProps {
  readonly action: ScheduleAction;
  readonly row: ScheduleRow;
  onClose(): void;
  onDone(text: string): void;
}

function ActionDialog({ action, row: { id, name }, onClose, onDone }: ActionDialogProps): JSX.Element {
  const { title, text, button, fields } = KINDS[action];
  const [texts, setTexts] = useState<Texts>({});
  const submit = async (): Promise<void> => {
    const { note } = valuesOf(fields, texts);
    const body = { id, ...(note === undefined ? {} : { note: String(note) }) };
    onDone(doneText(action, name, await act(action, body)));
  };
  return (
    <Dialog title={title} button={button} onSubmit={submit} onClose={onClose}>
      <p>
        <code class="id">{name}</code>
      </p>
      <p>{text}</p>
      <Fields fields={fields} texts={texts} onTexts={setTexts} />
    </Dialog>
  );
}

function doneText(action: ScheduleAction, name: string, { run }: ActionAnswer): string {
  if (action === 'pauseSchedule') return `${name} is paused.`;
  if (action === 'resumeSchedule') return `${name} is resumed.`;
  if (run?.outcome === 'skipped') return `${name} starts no run, because another one goes on.`;
  if (run?.outcome === 'buffered') return `${name} starts a run when the present one has ended.`;
  return `${name} has started ${run?.id}.`;
}

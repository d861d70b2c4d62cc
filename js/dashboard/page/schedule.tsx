// One schedule: its options, its next due times, its recent ones with what became of each, and the actions on it.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { DueRow, ScheduleAnswer, ScheduleDetails } from '../schedule-answers.ts';
import { useAnswer } from './api.ts';
import { Fact } from './fact.tsx';
import { ago, count, countdown, duration, time } from './format.ts';
import { useNow } from './now.ts';
import { useRefresh } from './pager.tsx';
import { Problem } from './problem.tsx';
import { linkTo, queryOf } from './route.ts';
import { ActionButton, ActionDialog, type AskedAction, type AskedSchedule, runActions } from './schedule-actions.tsx';
import { ChangeScheduleButton } from './schedule-form.tsx';
import { countsText, Next, OutcomeBadge } from './schedules.tsx';
import { useServerInfo } from './server-info.ts';
import { Status } from './status.tsx';
import { Value } from './value.tsx';

/** Next due times that are shown at first, and on request. */
const NEXT_SHOWN = 5;
const NEXT_MAX = 100;

/** Recent due times that are shown at first. */
const RECENT_SHOWN = 20;

/** @param id - the instance that the schedule is */
export function Schedule({ id }: { id: string }): JSX.Element {
  const [next, setNext] = useState(NEXT_SHOWN);
  const [done, setDone] = useState('');
  const { answer, error, reload } = useAnswer<ScheduleAnswer>(`schedule?${queryOf({ id, next })}`);
  useRefresh(true, reload);
  if (error !== undefined) return <Problem error={error} again={reload} />;
  if (answer === undefined) return <p class="empty">Loading…</p>;
  const finished = (action: AskedAction | 'setSchedule', text: string): void => {
    if (action === 'deleteSchedule') location.hash = linkTo('schedules');
    setDone(text);
    reload();
  };
  const { name, isSuspended, details } = answer;
  return (
    <>
      <div class="head">
        <nav aria-label="Breadcrumb">
          <a href={linkTo('schedules')}>Schedules</a> /
        </nav>
        <h1 class="id">{name}</h1>
        {isSuspended ? <Status of="Suspended" /> : null}
      </div>
      <Actions schedule={answer} done={done} onDone={finished} />
      <Facts schedule={answer} />
      {details === undefined ? (
        <p class="panel empty">No worker has set this schedule yet.</p>
      ) : (
        <>
          <div class="values">
            <Options details={details} />
            <NextTimes details={details} onMore={next === NEXT_SHOWN ? () => setNext(NEXT_MAX) : undefined} />
          </div>
          <Recent rows={details.recent} />
        </>
      )}
    </>
  );
}

interface ActionsProps {
  readonly schedule: ScheduleAnswer;
  /** Words about the last action. */
  readonly done: string;
  onDone(action: AskedAction | 'setSchedule', text: string): void;
}

function Actions({ schedule, done, onDone }: ActionsProps): JSX.Element | null {
  const mayAct = useServerInfo()?.readOnly === false;
  const [asked, setAsked] = useState<AskedSchedule>();
  const { name, details } = schedule;
  if (!mayAct || details === undefined) return null;
  const button = (action: AskedAction): JSX.Element => (
    <ActionButton key={action} action={action} row={schedule} onAsk={setAsked} />
  );
  return (
    <div class="actions" role="group" aria-label="Actions">
      {runActions(schedule).map(button)}
      {button('backfillSchedule')}
      <ChangeScheduleButton
        schedule={{ ...schedule, details }}
        onDone={() => onDone('setSchedule', `${name} is changed.`)}
      />
      {button('deleteSchedule')}
      <span role="status" class="good">
        {done}
      </span>
      {asked === undefined ? null : (
        <ActionDialog
          {...asked}
          onClose={() => setAsked(undefined)}
          onDone={(action, text) => {
            setAsked(undefined);
            onDone(action, text);
          }}
        />
      )}
    </div>
  );
}

function Facts({ schedule: { id, set, details } }: { schedule: ScheduleAnswer }): JSX.Element {
  const now = useNow();
  return (
    <dl class="facts panel">
      {set === undefined ? null : (
        <>
          <Fact name="Times">
            <span class="mono">{set.times}</span>
          </Fact>
          <Fact name="Next">
            <Next set={set} now={now} />
          </Fact>
          <Fact name="Starts">
            <a href={linkTo('instances', { name: set.starts.name })}>{set.starts.name}</a>{' '}
            <span class="faint">{set.starts.version}</span>
          </Fact>
          <Fact name="Due times so far">{countsText(set.counts)}</Fact>
          <Fact name="Set by">
            {details?.declaredBy === undefined ? 'a client' : `the code of the workers ${details.declaredBy}`}
          </Fact>
        </>
      )}
      <Fact name="Instance">
        <a class="id" href={linkTo('instance', { id })}>
          {id}
        </a>
      </Fact>
    </dl>
  );
}

/** The labels of the options, in their order. */
const LABELS: Readonly<Record<string, string>> = {
  overlap: 'Overlap',
  catchUp: 'Catch up',
  jitter: 'Jitter',
  startAt: 'Not before',
  endAt: 'Not after',
  maxRuns: 'Runs at most',
  pauseOnFailure: 'Pause after a failed run',
  id: 'IDs of the runs begin with',
  priority: 'Priority',
  queue: 'Queue',
  key: 'Key',
  timeout: 'Time limit',
  gracePeriod: 'Grace period',
};

function Options({ details: { options, input } }: { details: ScheduleDetails }): JSX.Element {
  const { start, at, ...others } = options;
  const given: Readonly<Record<string, unknown>> = { ...others, ...start };
  const tags = Object.entries(start.tags ?? {});
  return (
    <section class="panel" aria-labelledby="options">
      <h2 id="options">Options</h2>
      <dl class="facts">
        {Object.entries(LABELS)
          .filter(([name]) => given[name] !== undefined)
          .map(([name, label]) => (
            <Fact key={name} name={label}>
              {textOf(name, given[name])}
            </Fact>
          ))}
        {tags.length === 0 ? null : (
          <Fact name="Tags">
            {tags.map(([key, value]) => (
              <a key={key} class="tag" href={linkTo('instances', { tag: `${key}:${value}` })}>
                {key}:{value}
              </a>
            ))}
          </Fact>
        )}
      </dl>
      {input === undefined ? null : <Value label="Input" title="Input of the runs" shown={input} />}
    </section>
  );
}

function textOf(name: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number' && (name === 'timeout' || name === 'gracePeriod')) return duration(value);
  return name === 'startAt' || name === 'endAt' ? time(Date.parse(String(value))) : String(value);
}

interface NextTimesProps {
  readonly details: ScheduleDetails;
  /** Shows more of them; absent when that was done. */
  readonly onMore: (() => void) | undefined;
}

function NextTimes({ details: { nextMs, hasMore }, onMore }: NextTimesProps): JSX.Element {
  const now = useNow();
  return (
    <section class="panel" aria-labelledby="next">
      <h2 id="next">Next due times</h2>
      {nextMs.length === 0 ? (
        <p class="faint none">There are none.</p>
      ) : (
        <div class="times" tabIndex={0} role="group" aria-labelledby="next">
          <ol class="lines">
            {nextMs.map((dueMs) => (
              <li key={dueMs}>
                <span>{time(dueMs)}</span>
                <span class="faint">{dueMs > now ? `in ${countdown(dueMs, now)}` : 'now'}</span>
              </li>
            ))}
          </ol>
        </div>
      )}
      {!hasMore ? null : onMore === undefined ? (
        <p class="faint none">Later ones are not listed.</p>
      ) : (
        <button type="button" class="quiet" onClick={onMore}>
          Show more
        </button>
      )}
    </section>
  );
}

function Recent({ rows }: { rows: readonly DueRow[] }): JSX.Element {
  const now = useNow();
  const [isUnfolded, setUnfolded] = useState(false);
  if (rows.length === 0) return <p class="panel empty">No due time has come yet.</p>;
  return (
    <section class="panel" aria-labelledby="recent">
      <h2 id="recent">Recent due times</h2>
      <div class="scroll" tabIndex={0} role="group" aria-labelledby="recent">
        <table>
          <thead>
            <tr>
              <th scope="col">Due</th>
              <th scope="col">Outcome</th>
              <th scope="col">Run</th>
              <th scope="col">Error</th>
            </tr>
          </thead>
          <tbody>
            {(isUnfolded ? rows : rows.slice(0, RECENT_SHOWN)).map(({ dueMs, outcome, runId, error }) => (
              <tr key={dueMs}>
                <td title={ago(dueMs, now)}>{time(dueMs)}</td>
                <td>
                  <OutcomeBadge of={outcome} />
                </td>
                <td class="id">
                  {runId === undefined ? null : <a href={linkTo('instance', { id: runId })}>{runId}</a>}
                </td>
                <td class="bad">{error}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {isUnfolded || rows.length <= RECENT_SHOWN ? null : (
        <button type="button" class="quiet" onClick={() => setUnfolded(true)}>
          Show all {count(rows.length)}
        </button>
      )}
    </section>
  );
}

// The schedules of the store: the list, which shows neither the inputs of runs nor their errors, and one schedule with
// its options, its next due times and its recent ones.

import { hasEnded, type InstanceStatus, LIVE_STATES } from '../client/instance-status.ts';
import {
  checkScheduleId,
  type DueRecord,
  recentDues,
  SCHEDULE,
  SCHEDULE_STATE,
  type ScheduleSpec,
  type ScheduleState,
  scheduleInstance,
} from '../schedules/schedule-data.ts';
import type { Times } from '../schedules/times.ts';
import { timesText } from '../schedules/times-text.ts';
import { durationText } from '../util/duration.ts';
import type { Presenter } from './presenter.ts';
import { SHOWN_MAX } from './presenter.ts';
import { publishedValues } from './published.ts';
import type { Query } from './query.ts';
import { Refusal } from './refusal.ts';
import type { RouteContext } from './route-context.ts';
import type {
  DueRow,
  ScheduleAnswer,
  ScheduleDetails,
  ScheduleForm,
  ScheduleRow,
  SchedulesAnswer,
} from './schedule-answers.ts';

/** The begin of the id of an instance that is a schedule. */
export const PREFIX = scheduleInstance('');

/** Next due times of an answer without `next`. */
const NEXT = 10;

/** Most next due times of an answer. */
const NEXT_MAX = 200;

export async function schedules({ client, presenter }: RouteContext, query: Query): Promise<SchedulesAnswer> {
  const page = query.only('cursor', 'limit').page();
  const { items, cursor } = await client.listInstances({ name: SCHEDULE, status: LIVE_STATES, ...page }).page();
  const states = await publishedValues(client, items, SCHEDULE_STATE);
  return { items: items.map((item, n) => rowOf(item, states[n] as ScheduleState | undefined, presenter)), cursor };
}

/** @param state - the value that the schedule publishes; `undefined` until a worker has set it */
function rowOf({ id, status }: InstanceStatus, state: ScheduleState | undefined, presenter: Presenter): ScheduleRow {
  const row = { id, name: id.startsWith(PREFIX) ? id.slice(PREFIX.length) : id, isSuspended: status === 'Suspended' };
  if (state === undefined) return row;
  const { spec, paused, nextMs, counts } = state;
  const { name, version } = spec.start;
  const last = recentDues(state).find(({ runId }) => runId !== undefined);
  return {
    ...row,
    set: {
      times: timesText(spec.times),
      starts: { name, ...(version === undefined ? {} : { version }) },
      ...(nextMs === null ? {} : { nextMs }),
      ...(paused === undefined ? {} : { paused: pausedOf(paused, id, presenter) }),
      ...(last?.runId === undefined ? {} : { last: { id: last.runId, dueMs: last.dueMs, outcome: last.outcome } }),
      counts,
    },
  };
}

type Pause = NonNullable<NonNullable<ScheduleRow['set']>['paused']>;

function pausedOf(
  { sinceMs, by, note }: NonNullable<ScheduleState['paused']>,
  instanceId: string,
  presenter: Presenter,
): Pause {
  const shown = presenter.note(note, { instanceId, orchestration: SCHEDULE, kind: 'reason' });
  return { sinceMs, by, ...(shown === undefined ? {} : { note: shown }) };
}

/** Returns the id of the schedule that an instance is; `undefined` if it can be none. */
export function nameOf(id: string): string | undefined {
  if (!id.startsWith(PREFIX)) return undefined;
  const name = id.slice(PREFIX.length);
  try {
    checkScheduleId(name);
    return name;
  } catch {
    return undefined;
  }
}

/** @throws Refusal when the id is that of no schedule */
export async function schedule({ client, presenter }: RouteContext, query: Query): Promise<ScheduleAnswer> {
  const id = query.only('id', 'next').id();
  const most = query.number('next', 1, NEXT_MAX) ?? NEXT;
  const name = nameOf(id);
  const status = name === undefined ? null : await client.getStatus(id);
  if (name === undefined || status?.name !== SCHEDULE || hasEnded(status.status))
    throw new Refusal(404, 'INSTANCE_NOT_FOUND', `there is no schedule '${name ?? id}'`);
  const state = (await client.getState(id, SCHEDULE_STATE))?.value as ScheduleState | undefined;
  const row = rowOf(status, state, presenter);
  if (state === undefined) return row;
  const dues = await client.schedules.next(name, most + 1);
  const nextMs = dues.slice(0, most).map((due) => due.getTime());
  return { ...row, details: { ...detailsOf(id, state, presenter), nextMs, hasMore: dues.length > most } };
}

function detailsOf(
  instanceId: string,
  state: ScheduleState,
  presenter: Presenter,
): Omit<ScheduleDetails, 'nextMs' | 'hasMore'> {
  const { spec } = state;
  const place = { instanceId, orchestration: spec.start.name, kind: 'input' } as const;
  const input = presenter.value(spec.start.input, place, SHOWN_MAX.page);
  return {
    options: formOf(spec),
    ...(input === undefined ? {} : { input }),
    ...(spec.declaredBy === undefined ? {} : { declaredBy: spec.declaredBy }),
    recent: recentDues(state).map((due) => dueOf(due, spec.start.name, instanceId, presenter)),
  };
}

function dueOf(
  { dueMs, outcome, runId, error }: DueRecord,
  orchestration: string,
  schedule: string,
  presenter: Presenter,
): DueRow {
  const place = { instanceId: runId ?? schedule, orchestration, kind: 'error' } as const;
  const line = error === undefined ? undefined : presenter.errorLine(new Error(error), place);
  return {
    dueMs,
    outcome,
    ...(runId === undefined ? {} : { runId }),
    ...(line === undefined ? {} : { error: line }),
  };
}

/** Returns the options that make the same schedule, without the input of its runs. */
function formOf(spec: ScheduleSpec): ScheduleForm {
  const { input: _, ...start } = spec.start;
  const { times, overlap, catchUpMs, jitterMs, startAtMs, endAtMs, maxRuns, pauseOnFailure } = spec;
  return {
    ...timesForm(times),
    start,
    overlap,
    catchUp: durationText(catchUpMs),
    ...(jitterMs === 0 ? {} : { jitter: durationText(jitterMs) }),
    ...(startAtMs === undefined ? {} : { startAt: timeText(startAtMs) }),
    ...(endAtMs === undefined ? {} : { endAt: timeText(endAtMs) }),
    ...(maxRuns === undefined ? {} : { maxRuns }),
    pauseOnFailure,
  };
}

function timesForm(times: Times): Pick<ScheduleForm, 'cron' | 'timeZone' | 'every' | 'offset' | 'at'> {
  switch (times.kind) {
    case 'cron':
      return { cron: times.cron, timeZone: times.timeZone };
    case 'every': {
      const offset = times.offsetMs === 0 ? {} : { offset: durationText(times.offsetMs) };
      return { every: durationText(times.everyMs), ...offset };
    }
    case 'at':
      return { at: times.atMs.map(timeText) };
    default:
      return times satisfies never;
  }
}

function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

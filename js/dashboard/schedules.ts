// The schedules of the store, and the actions that pause, resume and run one. The list shows neither the inputs of runs
// nor their errors.

import type { Client } from '../client/client.ts';
import { type InstanceStatus, LIVE_STATES } from '../client/instance-status.ts';
import { InstanceNotFoundError } from '../errors/errors.ts';
import {
  checkScheduleId,
  SCHEDULE,
  SCHEDULE_STATE,
  type ScheduleState,
  scheduleInstance,
} from '../schedules/schedule-data.ts';
import { timesText } from '../schedules/times-text.ts';
import type { ActionAnswer, ActionBodies, ScheduleRow, SchedulesAnswer } from './answers.ts';
import { untilTaken } from './deadline.ts';
import type { Presenter } from './presenter.ts';
import { publishedValues } from './published.ts';
import type { Query } from './query.ts';
import type { RouteContext } from './route-context.ts';

type Context = Pick<RouteContext, 'client'>;

/** The begin of the id of an instance that is a schedule. */
const PREFIX = scheduleInstance('');

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
  const { spec, paused, nextMs, recent, counts } = state;
  const { name, version } = spec.start;
  const last = recent.findLast(({ runId }) => runId !== undefined);
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

export async function pauseSchedule({ client }: Context, { id, note }: ActionBodies['pauseSchedule']): Promise<void> {
  const options = note === undefined ? {} : { note };
  await change(client, id, (name, signal) => client.schedules.pause(name, { ...options, signal }));
}

export async function resumeSchedule({ client }: Context, { id }: ActionBodies['resumeSchedule']): Promise<void> {
  await change(client, id, (name, signal) => client.schedules.resume(name, { signal }));
}

export async function triggerSchedule(
  { client }: Context,
  { id }: ActionBodies['triggerSchedule'],
): Promise<ActionAnswer> {
  const { outcome, runId } = await change(client, id, (name, signal) => client.schedules.trigger(name, { signal }));
  return { id, run: { outcome, ...(runId === undefined ? {} : { id: runId }) } };
}

/**
 * Changes a schedule.
 *
 * @param id - the instance that the schedule is
 * @throws InstanceNotFoundError when there is no such schedule, or no worker has set it so far
 */
async function change<T>(
  client: Client,
  id: string,
  by: (name: string, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const name = nameOf(id);
  if (name === undefined || (await client.schedules.get(name)) === null)
    throw new InstanceNotFoundError(`there is no schedule '${name ?? id}'`, { instanceId: id });
  return await untilTaken(`this change of schedule '${name}'`, 'takes effect', (signal) => by(name, signal));
}

/** Returns the id of the schedule that an instance is; `undefined` if it can be none. */
function nameOf(id: string): string | undefined {
  if (!id.startsWith(PREFIX)) return undefined;
  const name = id.slice(PREFIX.length);
  try {
    checkScheduleId(name);
    return name;
  } catch {
    return undefined;
  }
}

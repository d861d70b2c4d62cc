// The actions on a schedule: pause, resume, run now, backfill, create, change and delete. A worker takes each of them.

import type { Client } from '../client/client.ts';
import type { RunScheduleOptions } from '../client/schedules.ts';
import { InstanceNotFoundError } from '../errors/errors.ts';
import { checkScheduleId } from '../schedules/schedule-data.ts';
import { type ScheduleOptions, scheduleSpec } from '../schedules/schedule-options.ts';
import type { ActionAnswer, ActionBodies } from './answers.ts';
import { untilTaken } from './deadline.ts';
import { checked } from './query.ts';
import { badRequest, Refusal } from './refusal.ts';
import type { RouteContext } from './route-context.ts';
import type { DueCounts, ScheduleForm } from './schedule-answers.ts';
import { nameOf, PREFIX } from './schedules.ts';
import { checkInput } from './starting.ts';

type Context = Pick<RouteContext, 'client' | 'options'>;

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

export async function deleteSchedule({ client }: Context, { id }: ActionBodies['deleteSchedule']): Promise<void> {
  await change(client, id, (name, signal) => client.schedules.delete(name, { signal }));
}

export async function backfillSchedule(
  { client }: Context,
  { id, from, to, overlap }: ActionBodies['backfillSchedule'],
): Promise<ActionAnswer> {
  if (Date.parse(from) > Date.parse(to)) throw badRequest('backfillSchedule: from must not be after to');
  const options: RunScheduleOptions = overlap === undefined ? {} : { overlap };
  const runs = await change(client, id, (name, signal) =>
    client.schedules.backfill(name, from, to, { ...options, signal }),
  );
  const dues: { -readonly [Outcome in keyof DueCounts]: number } = {};
  for (const { outcome } of runs) dues[outcome] = (dues[outcome] ?? 0) + 1;
  return { id, dues };
}

/**
 * Creates or changes a schedule. Of two requests that create one at the same time, the later one changes it.
 *
 * @throws Refusal when an option is wrong, or the schedule is there or not, against the request
 */
export async function setSchedule(
  { client, options: { runtime } }: Context,
  { id, options, isNew = false, keepsInput = false }: ActionBodies['setSchedule'],
): Promise<void> {
  const name = isNew ? newName(id) : nameOf(id);
  const before = name === undefined ? null : await client.schedules.get(name);
  if (name === undefined || (before === null && !isNew)) throw notFound(name, id);
  if (before !== null && isNew) throw new Refusal(409, 'INSTANCE_EXISTS', `there is a schedule '${name}' already`);
  const wanted = (keepsInput ? withInput(options, before?.spec.start.input) : options) as ScheduleOptions;
  const { start } = checked(() => scheduleSpec(name, wanted, 'schedule'));
  await checkInput(runtime, start.name, start.version, start.input);
  await taken(name, (signal) => client.schedules.upsert(name, wanted, { signal }));
}

/** Returns the id of a schedule that is to be created. */
function newName(id: string): string {
  if (!id.startsWith(PREFIX)) throw badRequest(`setSchedule: id must begin with '${PREFIX}'`);
  const name = id.slice(PREFIX.length);
  checked(() => checkScheduleId(name));
  return name;
}

function withInput(options: ScheduleForm | null, input: unknown): ScheduleForm {
  const start = { ...options?.start, ...(input === undefined ? {} : { input }) };
  return { ...options, start: start as ScheduleForm['start'] };
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
  if (name === undefined || (await client.schedules.get(name)) === null) throw notFound(name, id);
  return await taken(name, (signal) => by(name, signal));
}

function taken<T>(name: string, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return untilTaken(`this change of schedule '${name}'`, 'takes effect', run);
}

function notFound(name: string | undefined, id: string): InstanceNotFoundError {
  return new InstanceNotFoundError(`there is no schedule '${name ?? id}'`, { instanceId: id });
}

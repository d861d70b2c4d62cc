// The reason for which an instance does not go on, as one line for people.

import { describeMessage } from '../driver/waits.ts';
import { NondeterminismError } from '../errors/errors.ts';
import { printable } from '../util/printable.ts';
import type { WorkerInfo } from './description.ts';
import type { InstanceDescription, OpenActivity, QueuePlace } from './instance-description.ts';
import type { InstanceStatus } from './instance-status.ts';
import { ServedWork } from './served-work.ts';

/** The most characters of a reason. */
const REASON_MAX = 500;
/** The most things that a reason names. */
const THINGS_MAX = 3;

/** Returns the reason of a suspension: `the code no longer fits (event 2: recorded activity 'a', attempted …)`. */
export function suspensionReason(error: Error | undefined): string {
  if (error === undefined) return 'it is suspended';
  if (!(error instanceof NondeterminismError)) return cut(error.message);
  const { eventId, field } = error.report;
  const [recorded, attempted] = [error.report.recorded, error.report.attempted].map(withoutVerb);
  const differs = recorded === attempted && field !== undefined ? `, with another ${field.name}` : '';
  return cut(`the code no longer fits (event ${eventId}: recorded ${recorded}, attempted ${attempted}${differs})`);
}

/** Returns `activity 'a'` for `activity 'a' is scheduled`. */
function withoutVerb(action: string): string {
  return action.replace(/ is scheduled$/, '');
}

/**
 * Returns the reason for which an instance that has not ended does not go on: `Suspended: …`, `Pending: no running
 * worker has registered orchestration 'ordr'`. `undefined` if none is known.
 */
export function waitReason(
  { status, name, version, error }: InstanceStatus,
  workers: readonly WorkerInfo[],
  description: InstanceDescription | null = null,
): string | undefined {
  switch (status) {
    case 'Suspended':
      return `Suspended: ${suspensionReason(error)}`;
    case 'Pending':
    case 'Running': {
      const waits = description === null ? undefined : waitsText(description);
      // Its worker has its orchestration.
      if (description?.worker !== undefined) return waits && `${status}: ${waits}`;
      const served = new ServedWork(workers);
      if (served.workers === 0) return `${status}: no runtime runs on its store`;
      const missing = served.missingOrchestration(name, version);
      if (missing !== undefined) return `${status}: ${missing}`;
      if (status === 'Pending') return description === null ? undefined : `Pending: ${beginReason(description)}`;
      return waits && `${status}: ${waits}`;
    }
    default:
      return undefined;
  }
}

/** Returns the reason for which no worker has taken an instance that has not begun: `it starts at 2030-…`. */
export function beginReason({ queue, dueAt }: InstanceDescription, nowMs = Date.now()): string {
  const startsAt = queue === undefined ? dueAt : queue.state === 'delayed' ? queue.since : undefined;
  if (startsAt !== undefined && startsAt.getTime() > nowMs) return `it starts at ${startsAt.toISOString()}`;
  if (queue === undefined) return 'it waits for a worker with room';
  return cut(lineReason(queue.name, queue));
}

/** Returns the reason for which an entry of a queue has no slot. */
function lineReason(queue: string, { key, state, since, paused }: QueuePlace): string {
  if (paused !== undefined) return `its queue '${queue}' is paused since ${paused.since.toISOString()}`;
  const what = state === 'held' ? `a slot or a token of its key '${key}' in` : 'a slot of';
  return `it waits for ${what} queue '${queue}' since ${since.toISOString()}`;
}

/** Returns `waits for event 'approve'`, or `undefined` if nothing is named. */
function waitsText({ activities, children, messages, timers }: InstanceDescription): string | undefined {
  const things = [
    ...messages.map(describeMessage),
    ...activities.map(activityText),
    ...children.map(({ instanceId }) => `child '${instanceId}'`),
    ...timers.map(({ dueAt }) => `a timer due at ${dueAt.toISOString()}`),
  ];
  if (things.length === 0) return undefined;
  const more = things.length > THINGS_MAX ? ` and ${things.length - THINGS_MAX} more` : '';
  return cut(`waits for ${things.slice(0, THINGS_MAX).join(', ')}${more}`);
}

function activityText({ name, state, attempt, lastError, retryAt, queue, place, worker }: OpenActivity): string {
  const facts: string[] = [];
  if (state === 'queued') facts.push(queuedReason(queue, place));
  else if (queue !== undefined && worker?.name !== undefined) facts.push(`on worker '${worker.name}'`);
  if (attempt > 1) facts.push(`attempt ${attempt}${state === 'retrying' ? ` at ${retryAt?.toISOString()}` : ''}`);
  if (lastError !== undefined) facts.push(`last error: ${lastError.message}`);
  return `activity '${name}'${facts.length === 0 ? '' : ` (${facts.join('; ')})`}`;
}

/** Returns the reason for which no worker has an attempt. */
function queuedReason(queue: string | undefined, place: QueuePlace | undefined): string {
  if (queue === undefined) return 'no worker has it';
  if (place === undefined || place.state === 'running') return `no worker takes it from queue '${queue}'`;
  return lineReason(queue, place);
}

function cut(message: string): string {
  const line = printable(message.split('\n', 1)[0] ?? '');
  return line.length > REASON_MAX ? `${line.slice(0, REASON_MAX)}…` : line;
}

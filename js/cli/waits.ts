// The waits of an instance, as lines for people.

import {
  describeMessage,
  type InstanceDescription,
  type OpenActivity,
  type OpenChild,
  type OpenTimer,
  type QueuePlace,
  type WorkerName,
} from '../client/instance-description.ts';
import { agoText, printable, sinceText, timeText, valueLine } from './text.ts';

/** The longest text of the details of a heartbeat, and of an error. */
const TEXT_MAX = 120;

/** Returns a line for each operation and message that an instance waits for, and for each of its fibers. */
export function waitLines(description: InstanceDescription): string[] {
  const { activities, timers, children, messages, fibers, openOperations, openFibers } = description;
  const named = activities.length + timers.length + children.length;
  return [
    ...messages.map((message) => printable(describeMessage(message))),
    ...activities.flatMap(activityLines),
    ...timers.map(timerLine),
    ...children.map(childLine),
    ...(openOperations > named ? [`and ${openOperations - named} more operations`] : []),
    ...(openFibers < 2
      ? []
      : [
          ...fibers.map(({ fiber, name, waitsFor }) => {
            const who =
              fiber === 0 ? 'main fiber' : `fiber ${fiber}${name === undefined ? '' : ` (${printable(name)})`}`;
            return `${who}: ${waitsFor.map(printable).join(', ') || 'nothing'}`;
          }),
          ...(openFibers > fibers.length ? [`and ${openFibers - fibers.length} more fibers`] : []),
        ]),
  ];
}

/** Returns the name of a worker, or its id if it has left. */
export function workerText({ id, name }: WorkerName): string {
  return printable(name ?? id);
}

/** Returns a queue, a key, and the place there: `emails, key ada: in line since …`. */
export function placeText(queue: string, { key, state, since, paused }: QueuePlace): string {
  const places = {
    delayed: `comes into line at ${timeText(since)}`,
    waiting: `in line since ${timeText(since)} (${agoText(since)})`,
    held: `waits for a slot or a token of its key since ${timeText(since)} (${agoText(since)})`,
    suspended: 'suspended before it had a slot',
    running: 'has a slot',
  };
  const pause = paused === undefined || state === 'running' ? '' : `; the queue is paused (${agoText(paused.since)})`;
  return `${printable(queue)}${key === undefined ? '' : `, key ${printable(key)}`}: ${places[state]}${pause}`;
}

function activityLines(activity: OpenActivity): string[] {
  const { name, state, scheduledAt, attempt, retryAt, queue, place, session, worker } = activity;
  const { heartbeat, lastError } = activity;
  const tries = attempt === 1 ? '' : `, attempt ${attempt}`;
  const where = [
    queue === undefined ? '' : ` in queue '${printable(queue)}'`,
    session === undefined ? '' : ` in session '${printable(session)}'`,
    worker === undefined || queue === undefined ? '' : ` on ${workerText(worker)}`,
  ].join('');
  const since = retryAt ?? scheduledAt;
  const when = state === 'retrying' ? `due ${agoText(since)}` : sinceText(since);
  return [
    `activity '${printable(name)}'${tries}, ${state}${where}, ${when}`,
    ...(queue === undefined || place === undefined ? [] : [`  queue ${placeText(queue, place)}`]),
    ...(lastError === undefined ? [] : [`  last error: ${printable(lastError.message).slice(0, TEXT_MAX)}`]),
    ...(heartbeat === undefined
      ? []
      : [`  last heartbeat ${agoText(heartbeat.at)}: ${valueLine(heartbeat.details, TEXT_MAX)}`]),
  ];
}

function timerLine({ dueAt }: OpenTimer): string {
  return `timer, due ${agoText(dueAt)}`;
}

function childLine({ name, instanceId, scheduledAt }: OpenChild): string {
  return `child '${printable(name)}' as ${printable(instanceId)}, ${sinceText(scheduledAt)}`;
}

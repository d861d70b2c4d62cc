// What an execution has asked for and has not been answered, by its history.

import type { Client } from '../client/client.ts';
import type { HistoryEvent } from '../client/history.ts';
import type { InstanceStatus } from '../client/instance-status.ts';

/** Something that an instance waits for, or has waited for: what it lost interest in leaves no trace in its history. */
export interface OpenWork {
  readonly kind: 'activity' | 'timer' | 'child';
  /** Event that asked for it. */
  readonly eventId: number;
  readonly name?: string;
  /** The child. */
  readonly instanceId?: string;
  readonly since: Date;
  /** Of an activity: which attempt runs, or is to come. */
  readonly attempt?: number;
  /** When the timer fires, or the next attempt begins. */
  readonly due?: Date;
}

/** In the order in which it was asked for: all of the history is read, and what is open of it kept. */
export async function openWork(client: Client, { id, executionId }: InstanceStatus): Promise<OpenWork[]> {
  const open = new Map<number, OpenWork>();
  for await (const event of client.historyEvents(id, executionId)) follow(open, event);
  return [...open.values()];
}

function follow(
  open: Map<number, OpenWork>,
  { kind, eventId, refId = 0, name, time: since, meta }: HistoryEvent,
): void {
  switch (kind) {
    case 'ActivityScheduled':
      open.set(eventId, { kind: 'activity', eventId, name: name ?? '', since, attempt: 1 });
      break;
    case 'TimerCreated':
      open.set(eventId, { kind: 'timer', eventId, since, due: new Date(Number(meta?.fireAtMs)) });
      break;
    case 'ChildScheduled':
      open.set(eventId, { kind: 'child', eventId, name: name ?? '', instanceId: String(meta?.id), since });
      break;
    case 'ActivityAttemptFailed': {
      const activity = open.get(refId);
      if (activity !== undefined)
        open.set(refId, { ...activity, attempt: Number(meta?.attempt) + 1, due: new Date(Number(meta?.retryAtMs)) });
      break;
    }
    case 'ActivityCompleted':
    case 'ActivityFailed':
    case 'TimerFired':
    case 'ChildCompleted':
    case 'ChildFailed':
    case 'OperationRefused':
    case 'OperationCancelled':
      open.delete(refId);
      break;
    default:
  }
}

// The open operations of an execution, by its history: requested and not answered.

import type { Client } from '../client/client.ts';
import type { HistoryEvent } from '../client/history.ts';
import type { InstanceStatus } from '../client/instance-status.ts';

/**
 * An operation that an instance waits for or has waited for. An operation that it no longer waits for leaves no trace
 * in the history.
 */
export interface OpenWork {
  readonly kind: 'activity' | 'timer' | 'child';
  /** Number of the event that requested the operation. */
  readonly eventId: number;
  readonly name?: string;
  /** Id of the child. */
  readonly instanceId?: string;
  readonly since: Date;
  /** For an activity: number of the attempt that runs or comes next. */
  readonly attempt?: number;
  /** Time at which the timer fires, or the next attempt begins. */
  readonly due?: Date;
}

/**
 * Returns the open operations in the order of their requests. The whole history is read; only open operations are kept.
 */
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

// The open operations of an execution, by its history: requested and not answered.

import type { HistoryEvent } from '../client/history.ts';
import { agoText, printable, sinceText } from './text.ts';

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

/** The open operations of an execution, while its events come one after the other. */
export class OpenOperations {
  readonly #open = new Map<number, OpenWork>();

  /** The open operations in the order of their requests. */
  get all(): OpenWork[] {
    return [...this.#open.values()];
  }

  /** Takes the next event. Returns the operation that the event requests or answers, as it was at this event. */
  follow({ kind, eventId, refId = 0, name = '', time: since, meta }: HistoryEvent): OpenWork | undefined {
    switch (kind) {
      case 'ActivityScheduled':
        return this.#add({ kind: 'activity', eventId, name, since, attempt: 1 });
      case 'TimerCreated':
        return this.#add({ kind: 'timer', eventId, since, due: new Date(Number(meta?.fireAtMs)) });
      case 'ChildScheduled':
        return this.#add({ kind: 'child', eventId, name, instanceId: String(meta?.id), since });
      case 'ActivityAttemptFailed': {
        const activity = this.#open.get(refId);
        const [attempt, due] = [Number(meta?.attempt) + 1, new Date(Number(meta?.retryAtMs))];
        if (activity !== undefined) this.#add({ ...activity, attempt, due });
        return activity;
      }
      case 'ActivityCompleted':
      case 'ActivityFailed':
      case 'TimerFired':
      case 'ChildCompleted':
      case 'ChildFailed':
      case 'OperationRefused':
      case 'OperationCancelled': {
        const answered = this.#open.get(refId);
        this.#open.delete(refId);
        return answered;
      }
      default:
        return undefined;
    }
  }

  #add(work: OpenWork): OpenWork {
    this.#open.set(work.eventId, work);
    return work;
  }
}

/** Describes an open operation in one line. */
export function openText({ kind, name, instanceId, since, attempt, due }: OpenWork): string {
  const what =
    kind === 'timer'
      ? 'timer'
      : `${kind} '${printable(name ?? '')}'${instanceId === undefined ? '' : ` as ${printable(instanceId)}`}`;
  const tries = attempt === undefined || attempt === 1 ? '' : `, attempt ${attempt}`;
  // An attempt runs from the time at which it was due.
  const isLate = kind === 'activity' && due !== undefined && due.getTime() <= Date.now();
  const begin = isLate ? due : since;
  const when = due === undefined || isLate ? sinceText(begin) : `due ${agoText(due)}`;
  return `${what}${tries}, ${when}`;
}

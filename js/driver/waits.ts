// What the code waits for, as the engine is told it: mailboxes, and operations that settle only while they are awaited.

/** A mailbox of an instance: its events of one name, or one of its FIFO queues. */
export interface Mailbox {
  readonly kind: 'event' | 'queue';
  readonly name: string;
}

/** Name of the queue of asks. Part of the format. */
export const ASKS = 'perdure.asks';

/** Describes a message of a mailbox for people: `event 'approve'`. */
export function describeMessage({ kind, name }: Mailbox): string {
  return `${kind === 'event' ? 'event' : 'a message of queue'} '${name}'`;
}

/** Changes to what the code waits for, since the engine was told last. `null` stands for no change. */
export interface WaitChanges {
  /** Names of events that are awaited from now on. */
  readonly events: string[] | null;
  /** Names of queues that are awaited from now on. */
  readonly queues: string[] | null;
  /** Operations that are awaited from now on: timers, detached starts and sent messages. */
  readonly operations: number[] | null;
  /** Names of events that are no longer awaited. */
  readonly eventsGone: string[] | null;
  /** Names of queues that are no longer awaited. */
  readonly queuesGone: string[] | null;
  /** Operations that are no longer awaited. They may have settled. */
  readonly operationsGone: number[] | null;
}

// Deliveries: what the engine hands to the code, in history's order.

import type { Mailbox } from './waits.ts';

/** Kinds of {@link Delivery}. */
export const SUCCEEDED = 0;
export const ACTIVITY_FAILED = 1;
export const MESSAGE = 2;
export const CANCEL = 3;
export const CHILD_FAILED = 4;
export const REFUSED = 5;
export const MAILBOX_EMPTY = 6;
export const ASKED = 7;

/** The detail of a {@link Delivery} of kind `CHILD_FAILED`. */
export const CHILD_THREW = 0;
export const CHILD_CANCELLED = 1;
export const CHILD_TERMINATED = 2;

/** The detail of a {@link Delivery} of kind `REFUSED`. */
export const INSTANCE_EXISTS = 0;
export const INSTANCE_NOT_FOUND = 1;
export const INSTANCE_ENDED = 2;
/** The value is the number of messages that may wait. */
export const MAILBOX_FULL = 3;
export const QUEUE_NOT_FOUND = 4;

/** One occurrence outside of the code. */
export interface Delivery {
  readonly kind:
    | typeof SUCCEEDED
    | typeof ACTIVITY_FAILED
    | typeof MESSAGE
    | typeof CANCEL
    | typeof CHILD_FAILED
    | typeof REFUSED
    | typeof MAILBOX_EMPTY
    | typeof ASKED;
  /** The operation that settled; without meaning for a message, an ask, the answer of a poll, or a cancellation. */
  readonly operation: number;
  /**
   * Codec text of the value, or of the reason of a cancellation or termination. For a failure: JSON of an `ErrorData`.
   */
  readonly value: string | null;
  /**
   * The number of the attempt that failed last, the way in which a child ended, the reason of a refusal, or for a
   * cancellation the time limit that is over, in ms; 0: it was requested.
   */
  readonly detail: number;
  /** The mailbox of a message, or the polled mailbox that holds none; `null` for any other delivery. */
  readonly mailbox: Mailbox | null;
  /** The deterministic time from here on, in ms since 1970. */
  readonly timeMs: number;
}

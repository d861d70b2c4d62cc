// The part of the replay engine that the driver needs, and nothing more. The native addon provides it, and tests script
// it.

import type { TraceLevel } from '../logging/fields.ts';

/** Kinds of {@link Delivery}. */
export const SUCCEEDED = 0;
export const ACTIVITY_FAILED = 1;
export const MESSAGE = 2;
export const CANCEL = 3;
export const CHILD_FAILED = 4;
export const REFUSED = 5;

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

/** The ways in which an execution ends. */
export const COMPLETED = 0;
export const FAILED_FOR_GOOD = 1;
export const CANCELLED = 2;
export type EndKind = typeof COMPLETED | typeof FAILED_FOR_GOOD | typeof CANCELLED;

/** One occurrence outside of the code, delivered in history's order. */
export interface Delivery {
  readonly kind:
    | typeof SUCCEEDED
    | typeof ACTIVITY_FAILED
    | typeof MESSAGE
    | typeof CANCEL
    | typeof CHILD_FAILED
    | typeof REFUSED;
  /** The operation that settled; without meaning for a message or a cancellation. */
  readonly operation: number;
  /**
   * Codec text of the value, or of the reason of a cancellation or termination. For a failure: JSON of an `ErrorData`.
   */
  readonly value: string | null;
  /** The number of the attempt that failed last, the way in which a child ended, or the reason of a refusal. */
  readonly detail: number;
  /** The mailbox of a message, under the name that was given to `next`. */
  readonly mailbox: string | null;
  /** The deterministic time from here on, in ms since 1970. */
  readonly timeMs: number;
}

/**
 * The engine of one execution, as the driver sees it. All calls are synchronous.
 *
 * A call may be refused: with a `NondeterminismError` when history holds something else in its place, with a
 * `LimitError`, or with a `PayloadError` when the store's codec fails. After that the only sensible call is `suspend`.
 */
export interface EnginePort {
  /** Schedules an activity. Returns the operation's id. `options` is JSON, `null` for the defaults. */
  scheduleActivity(name: string, input: string | null, options: string | null): number;
  /** Creates a timer that is due `delayMs` after the current deterministic time. */
  createTimer(delayMs: number): number;
  /** Creates a timer that is due at a time, in ms since 1970. */
  createTimerAt(atMs: number): number;
  /**
   * Starts another instance: a child, which is an operation until it ends, or a detached instance. A `version` of
   * `null` stands for the version that a client's start would give it. `tags` is JSON.
   */
  startInstance(
    isChild: boolean,
    name: string,
    id: string,
    version: string | null,
    input: string | null,
    tags: string | null,
    priority: number,
  ): number;
  /** Sends a message to another instance. Mailboxes are named as in `next`. */
  sendMessage(receiver: string, mailbox: string, payload: string | null): number;
  /**
   * Names the fiber of the last command or delivery, for readers of the history. Without this call it is the main
   * fiber.
   */
  ofFiber(fiber: number): void;
  /**
   * Creates the timer that limits how long an execution may go on after it is cancelled: for `delayMs`, or without a
   * limit if that is `null`. Returns `null` if there is no timer. A replay has the timer that was recorded.
   */
  graceTimer(delayMs: number | null): number | null;
  /** Called right after an operation was issued. True if history says next that the operation succeeded. */
  succeedsNext(): boolean;
  /** Cancels an operation that has not settled. */
  cancelOperation(operation: number): void;

  /**
   * Asks for the next delivery when all fibers wait. Returns `null` when the turn is over.
   *
   * The arguments tell what has changed since the last call; `null` stands for no change. `mailboxes` and `timers` are
   * awaited from now on, those in `…Gone` no longer. Mailboxes are `'e' + name` (events) and `'q' + name` (queues).
   * `timers` are the operations that settle only while they are awaited (timers, detached starts, sent messages). Those
   * in `timersGone` may have settled.
   */
  next(
    mailboxes: string[] | null,
    timers: number[] | null,
    mailboxesGone: string[] | null,
    timersGone: number[] | null,
  ): Delivery | null;
  /**
   * Returns a request to cancel that has come although the code does not wait, or `null`. Asked before the first step
   * of an execution that continues another one, and after every `INTERRUPT_EVERY` commands without a wait. Asked in a
   * replay too, because history tells where there was a request.
   */
  interrupt(): Delivery | null;
  /** Ends the execution after its code returned or threw. The turn is over. */
  finish(kind: EndKind, payload: string | null): void;
  /**
   * Ends the execution and begins the next one of its instance. The turn is over. A `version` of `null` stands for the
   * same version.
   */
  continueAsNew(input: string | null, version: string | null): void;
  /**
   * Suspends the instance because a call was refused. The turn is over. `source` holds the lines of user code that led
   * to it. `report` is JSON of the reason; `null` for a mismatch, which the engine knows.
   */
  suspend(source: string, report: string | null): void;

  isReplaying(): boolean;
  /** Returns the number of events recorded up to this point of the code, the same in a replay. */
  historyLength(): number;
  /** Logs a line; dropped while replaying. `fields` is JSON. */
  trace(level: TraceLevel, message: string, fields: string | null): void;
  /** Sets the custom status to codec text; `null` resets it. Stored with the turn, unless this is a replay. */
  setCustomStatus(text: string | null): void;
  random(): number;
  randomUuid(): string;
  /**
   * True if the instance was asked to cancel, even if the request is not delivered yet. The instance may exceed its
   * limits then.
   */
  isCancelling(): boolean;
  /** True if the execution has a patch of its code. Recorded when the execution gets the patch. */
  patched(id: string): boolean;
}

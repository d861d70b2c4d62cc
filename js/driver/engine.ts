// What the driver needs of the replay engine, and nothing more: the native addon provides it, and tests script it.

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

/** How an execution ends. */
export const COMPLETED = 0;
export const FAILED_FOR_GOOD = 1;
export const CANCELLED = 2;
export type EndKind = typeof COMPLETED | typeof FAILED_FOR_GOOD | typeof CANCELLED;

/** One thing that happened outside, handed over in history's order. */
export interface Delivery {
  readonly kind:
    | typeof SUCCEEDED
    | typeof ACTIVITY_FAILED
    | typeof MESSAGE
    | typeof CANCEL
    | typeof CHILD_FAILED
    | typeof REFUSED;
  /** The operation that settled, unless it is a message or a cancellation. */
  readonly operation: number;
  /** Codec text of the value, or of the reason of a cancellation or termination; JSON of an `ErrorData` for a failure. */
  readonly value: string | null;
  /** The attempt that failed last; how a child ended; why something was refused. */
  readonly detail: number;
  /** The mailbox of a message, as it was named to `next`. */
  readonly mailbox: string | null;
  /** The deterministic time from here on, ms since 1970. */
  readonly timeMs: number;
}

/**
 * The engine of one execution, as the driver sees it. All calls are synchronous.
 *
 * A call may be refused: with a `NondeterminismError` when history holds something else in its place, with a `LimitError`, or with
 * a `PayloadError` when the store's codec fails. After that the only sensible call is `suspend`.
 */
export interface EnginePort {
  /** Returns the operation's id. `options` is JSON, `null` for the defaults. */
  scheduleActivity(name: string, input: string | null, options: string | null): number;
  /** A timer that is due `delayMs` after the deterministic time of now. */
  createTimer(delayMs: number): number;
  /** A timer that is due at a time, ms since 1970. */
  createTimerAt(atMs: number): number;
  /**
   * Start another instance: a child, which is an operation until it ends, or one that goes its own way. `version`: `null` for the
   * one that a client's start would give it. `tags` is JSON.
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
  /** Send to another instance. Mailboxes are named as in `next`. */
  sendMessage(receiver: string, mailbox: string, payload: string | null): number;
  /** The fiber of what was asked for or delivered last, for those who look at the history; without it, the main one. */
  ofFiber(fiber: number): void;
  /**
   * A timer that limits how long an execution may go on once it is cancelled: in `delayMs`, `null` for no limit. `null`: there is none; a replay has
   * the one that was recorded.
   */
  graceTimer(delayMs: number | null): number | null;
  /** Right after an operation was issued: whether history says next that it succeeded. */
  succeedsNext(): boolean;
  /** Give up an operation that has not settled. */
  cancelOperation(operation: number): void;

  /**
   * All fibers wait: what is next? Told is what has changed since the last call, where `null` stands for nothing: `mailboxes` and `timers` are
   * waited for from now on, those `…Gone` no longer. Mailboxes are `'e' + name` (events) and `'q' + name` (queues); `timers` are those operations
   * that settle only while they are waited for (timers, detached starts, sent messages), and those gone may have settled.
   * Returns `null` when the turn is over.
   */
  next(
    mailboxes: string[] | null,
    timers: number[] | null,
    mailboxesGone: string[] | null,
    timersGone: number[] | null,
  ): Delivery | null;
  /**
   * The code does not wait: a request to cancel that has come, if one has. Asked before the first step of an execution that continues
   * another one, and after every `INTERRUPT_EVERY` commands without a wait, in a replay too: history tells where there was one.
   */
  interrupt(): Delivery | null;
  /** The code returned or threw; the turn is over. */
  finish(kind: EndKind, payload: string | null): void;
  /** The code has ended and the next execution of its instance begins; the turn is over. `version`: `null` for the same. */
  continueAsNew(input: string | null, version: string | null): void;
  /**
   * The code is not to go on, because a call was refused; the turn is over. `source` holds the lines of user code that showed it,
   * `report` is JSON of why, unless that is a mismatch, which the engine knows.
   */
  suspend(source: string, report: string | null): void;

  isReplaying(): boolean;
  /** Events recorded so far at this point of the code, the same in a replay. */
  historyLength(): number;
  /** Dropped while replaying. `fields` is JSON. */
  trace(level: TraceLevel, message: string, fields: string | null): void;
  /** Codec text; `null` resets. Stored with the turn, unless this is a replay. */
  setCustomStatus(text: string | null): void;
  random(): number;
  randomUuid(): string;
  /** Whether the instance was asked to cancel, delivered or not: it may exceed its limits then. */
  isCancelling(): boolean;
  /** Whether the execution has a patch of its code; recorded when it gets it. */
  patched(id: string): boolean;
}

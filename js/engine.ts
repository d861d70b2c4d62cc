// What the driver needs of the replay engine, and nothing more: the native addon provides it, and tests script it.

/** Kinds of {@link Delivery}. */
export const SUCCEEDED = 0;
export const ACTIVITY_FAILED = 1;
export const MESSAGE = 2;
export const CANCEL = 3;

/** How an execution ends. */
export const COMPLETED = 0;
export const FAILED_FOR_GOOD = 1;
export const CANCELLED = 2;
export type EndKind = typeof COMPLETED | typeof FAILED_FOR_GOOD | typeof CANCELLED;

/** One thing that happened outside, handed over in history's order. */
export interface Delivery {
  readonly kind: typeof SUCCEEDED | typeof ACTIVITY_FAILED | typeof MESSAGE | typeof CANCEL;
  /** The operation that settled, for the first two kinds. */
  readonly operation: number;
  /** Codec text of the value, or of the reason of a cancellation; JSON of an `ErrorData` for a failure. */
  readonly value: string | null;
  /** The attempt that failed last. */
  readonly attempt: number;
  /** The mailbox of a message, as it was named to `next`. */
  readonly mailbox: string | null;
  /** The deterministic time from here on, ms since 1970. */
  readonly timeMs: number;
}

export type TraceLevel = 'debug' | 'info' | 'warn' | 'error';

/**
 * The engine of one execution, as the driver sees it. All calls are synchronous.
 *
 * The four commands throw a `NondeterminismError` when history holds something else in their place; so do `next`,
 * `finish` and `continueAsNew`. After that the only sensible call is `suspend`.
 */
export interface EnginePort {
  /** Returns the operation's id. `options` is JSON, `null` for the defaults. */
  scheduleActivity(name: string, input: string | null, options: string | null): number;
  /** A timer that is due `delayMs` after the deterministic time of now. */
  createTimer(delayMs: number): number;
  /** A timer that is due at a time, ms since 1970. */
  createTimerAt(atMs: number): number;
  /** Give up an operation that has not settled. */
  cancelOperation(operation: number): void;

  /**
   * All fibers wait: what is next? Mailboxes are `'e' + name` (events) and `'q' + name` (queues); `null` stands for none.
   * Returns `null` when the turn is over.
   */
  next(mailboxes: string[] | null, timers: number[] | null): Delivery | null;
  /** The code returned or threw; the turn is over. */
  finish(kind: EndKind, payload: string | null): void;
  /** The code has ended and the next execution of its instance begins; the turn is over. `version`: `null` for the same. */
  continueAsNew(input: string | null, version: string | null): void;
  /** The code does not fit its history; the turn is over. `source` holds the lines of user code that showed it. */
  suspend(source: string): void;

  isReplaying(): boolean;
  /** Events recorded so far at this point of the code, the same in a replay. */
  historyLength(): number;
  /** Dropped while replaying. `fields` is JSON. */
  trace(level: TraceLevel, message: string, fields: string | null): void;
  /** Codec text; `null` resets. Stored with the turn, unless this is a replay. */
  setCustomStatus(text: string | null): void;
  random(): number;
  randomUuid(): string;
}

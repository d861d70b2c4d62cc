// Commands: what the code asks the engine to do, and the ways in which the code ends.

import type { TraceContext } from '../tracing/telemetry-hooks.ts';
import type { OnConflict } from '../values/conflicts.ts';
import type { Mailbox } from './waits.ts';

/** Kinds of {@link Command}, as `crates/node/src/command.rs` numbers them. */
export const SCHEDULE_ACTIVITY = 0;
export const CREATE_TIMER = 1;
export const CREATE_TIMER_AT = 2;
export const START_CHILD = 3;
export const START_INSTANCE = 4;
export const SEND_MESSAGE = 5;
export const CANCEL_OPERATION = 6;

/** Schedules an activity. */
export interface ScheduleActivity {
  readonly kind: typeof SCHEDULE_ACTIVITY;
  readonly name: string;
  /** Codec text. */
  readonly input: string | null;
  /** JSON of the effective options; `null` for the defaults. */
  readonly options: string | null;
}

/** Starts another instance: a child, which is an operation until it ends, or a detached instance. */
export interface StartInstance {
  readonly kind: typeof START_CHILD | typeof START_INSTANCE;
  readonly name: string;
  readonly id: string;
  /** `null`: the version that a client's start would give it. */
  readonly version: string | null;
  /** Codec text. */
  readonly input: string | null;
  /** JSON of an object of strings. */
  readonly tags: string | null;
  readonly priority: number;
  readonly onConflict: OnConflict;
  /** JSON of the queue, the key and the start time; `null`: the instance runs at once, and is in no queue. */
  readonly admission: string | null;
  /** Context below which the instance is traced; `null` if it is not traced. */
  readonly trace: TraceContext | null;
}

/** Sends a message to another instance. */
export interface SendMessage {
  readonly kind: typeof SEND_MESSAGE;
  readonly receiver: string;
  readonly mailbox: Mailbox;
  /** Codec text. */
  readonly payload: string | null;
}

/** A command of the code. */
export type Command =
  | ScheduleActivity
  /** Creates a timer that is due `delayMs` after the current deterministic time. */
  | { readonly kind: typeof CREATE_TIMER; readonly delayMs: number }
  /** Creates a timer that is due at a time, in ms since 1970. */
  | { readonly kind: typeof CREATE_TIMER_AT; readonly atMs: number }
  | StartInstance
  | SendMessage
  /** Cancels an operation that has not settled. */
  | { readonly kind: typeof CANCEL_OPERATION; readonly operation: number };

/** An operation that was issued. */
export interface Issued {
  /** The id that the engine gave it. */
  readonly operation: number;
  /** True if history says next that the operation succeeded. */
  readonly succeedsNext: boolean;
}

/** Kinds of {@link Outcome}, as `crates/node/src/command.rs` numbers them. */
export const COMPLETED = 0;
export const FAILED_FOR_GOOD = 1;
export const CANCELLED = 2;
export const CONTINUED_AS_NEW = 3;

/** The way in which an execution ends. */
export type Outcome =
  | {
      readonly kind: typeof COMPLETED | typeof FAILED_FOR_GOOD | typeof CANCELLED;
      /** Codec text of the output, or JSON of an `ErrorData`. */
      readonly payload: string | null;
    }
  /** The next execution of the instance follows. */
  | {
      readonly kind: typeof CONTINUED_AS_NEW;
      /** Codec text. */
      readonly input: string | null;
      /** `null`: the same version. */
      readonly version: string | null;
    };

// Jobs for a lane, decoded. `crates/node/src/job.rs` encodes them.

import type { AbortReason, AttemptExtras } from '../activity/activity-job.ts';
import type { TraceLevel } from '../logging/fields.ts';
import type { Frame } from './frame.ts';

export const TURN = 0;
export const ACTIVITY = 1;
export const ABORT = 2;
export const DROP = 3;
export const LOG = 4;
export const ENDED = 5;

/** A job for a lane. */
export type NativeJob =
  | { readonly kind: typeof TURN; readonly token: number }
  | {
      readonly kind: typeof ACTIVITY;
      readonly token: number;
      readonly name: string;
      readonly input: string | null;
      readonly attempt: number;
      /** Longest time of the attempt, ms; `Infinity`: any. */
      readonly timeoutMs: number;
      readonly instanceId: string;
      readonly executionId: number;
      readonly orchestrationName: string;
      readonly operation: number;
      readonly incarnationHigh: number;
      readonly incarnationLow: number;
      readonly isUntried: boolean;
      readonly version: string;
      readonly tags: string | null;
      readonly extras: AttemptExtras | null;
    }
  | { readonly kind: typeof ABORT; readonly token: number; readonly reason: AbortReason }
  | { readonly kind: typeof DROP; readonly token: number }
  | LogJob
  | {
      readonly kind: typeof ENDED;
      readonly instanceId: string;
      readonly executionId: number;
      readonly name: string;
      readonly version: string;
      readonly status: EndState;
    };

/** A line for the log. */
export interface LogJob {
  readonly kind: typeof LOG;
  readonly level: TraceLevel;
  readonly message: string;
  /** JSON of an object. */
  readonly fields: string | null;
  /** True for a problem of the runtime itself, and not of user code. */
  readonly isInternal: boolean;
  /** Stored text of the error that the line is about. */
  readonly error: string | null;
  /** The event that scheduled the activity whose error it is; 0 for the error of the instance. */
  readonly operation: number;
}

/** State of an instance after its last turn here. */
export type EndState = 'Completed' | 'Failed' | 'Cancelled' | 'Suspended';

export function decodeJob(text: string, frame: Frame): NativeJob {
  const kind = frame.kind as NativeJob['kind'];
  const first = frame.fact(0);
  switch (kind) {
    case TURN:
    case DROP:
      return { kind, token: first };
    case ACTIVITY: {
      const extras = frame.text(text, 3);
      return {
        kind,
        token: first,
        attempt: frame.fact(1),
        timeoutMs: frame.fact(2),
        executionId: frame.fact(3),
        operation: frame.fact(4),
        incarnationHigh: frame.fact(5),
        incarnationLow: frame.fact(6),
        isUntried: frame.fact(7) === 1,
        instanceId: frame.required(text, 0),
        orchestrationName: frame.required(text, 1),
        name: frame.required(text, 2),
        extras: extras === null ? null : (JSON.parse(extras) as AttemptExtras),
        input: frame.text(text, 4),
        version: frame.required(text, 5),
        tags: frame.text(text, 6),
      };
    }
    case ABORT:
      return { kind, token: first, reason: text as AbortReason };
    case ENDED:
      return {
        kind,
        executionId: first,
        instanceId: frame.required(text, 0),
        name: frame.required(text, 1),
        version: frame.required(text, 2),
        status: frame.required(text, 3) as EndState,
      };
    case LOG:
      return {
        kind,
        isInternal: first === 1,
        level: frame.required(text, 0) as TraceLevel,
        message: frame.required(text, 1),
        fields: frame.text(text, 2),
        error: frame.text(text, 3),
        operation: frame.fact(1),
      };
    default:
      return kind satisfies never;
  }
}

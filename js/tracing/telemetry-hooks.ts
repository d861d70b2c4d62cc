// The calls that clients and runtimes make to be traced. Clients and runtimes know these and no tracing library:
// `perdure/telemetry` is the implementation.
//
// Without an implementation none of this is called, and none of it is stored.

import { property } from '../util/show.ts';

/**
 * Position of an operation in a trace, as text. It crosses processes through the store, beside the record it belongs
 * to.
 */
export type TraceContext = string;

/** An operation of a client. */
export interface ClientCall {
  /** Name of the operation, such as `start` or `raise`. */
  readonly operation: string;
  /** Target of the operation: the name of an orchestration, an event or a queue. */
  readonly target?: string;
  readonly instanceId?: string;
  /** True if the operation makes an instance go on; false if it only returns information to the client. */
  readonly isProducer: boolean;
}

/** An execution that is in memory. */
export interface TracedExecution {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  /** True if the execution was in memory before, here or elsewhere. */
  readonly isResumed: boolean;
}

/** An attempt of an activity. */
export interface TracedAttempt {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
  readonly activityName: string;
  readonly attempt: number;
  readonly queue: string;
  readonly isInline: boolean;
  /** True if the instance belongs to another worker. */
  readonly isBorrowed: boolean;
}

/** Reason for the end of a segment: the execution ended, or it is no longer in memory. */
export type SegmentEnd = 'completed' | 'failed' | 'cancelled' | 'continued' | 'suspended' | 'sleeping' | 'dropped';

/** Known facts about a failure. */
export interface TracedError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
}

/**
 * The time from the first turn that an execution has in memory to the last one. Between two segments no worker has the
 * execution.
 */
export interface Segment {
  /** Context for operations that are scheduled in the segment; `null` if it is not traced. */
  readonly context: TraceContext | null;
  /** Begins a turn of the code, or a replay. */
  turn(isReplay: boolean): TracedTurn;
  end(how: SegmentEnd, error?: TracedError): void;
}

export interface TracedTurn {
  /** Ends the turn. `deliveries` is the number of events handed to the code, `commands` the number of its commands. */
  end(deliveries: number, commands: number): void;
}

export interface AttemptSpan {
  /** Calls the function of the activity, so that spans made in it nest below this one. */
  run<T>(fn: () => T): T;
  /** Ends the span. Later calls of `completed` and `failed` do nothing. */
  completed(): void;
  failed(error: unknown): void;
}

/** Traces clients and runtimes. Made by `openTelemetry` of `perdure/telemetry`, and passed on unchanged. */
export interface Telemetry {
  /** @internal Calls `run`, before it returns, with the context for the work that it starts. */
  call<T>(call: ClientCall, run: (context: TraceContext | null) => Promise<T>): Promise<T>;
  /** @internal Begins a segment. `context` is that of the execution's start. */
  segment(execution: TracedExecution, context: TraceContext | null): Segment;
  /**
   * @internal Begins an attempt. `below` is the segment that scheduled it, if that is in memory here, or else the
   *   context of the schedule.
   */
  attempt(attempt: TracedAttempt, below: Segment | TraceContext | null): AttemptSpan;
  /** @internal Runs code of orchestrations below no span, regardless of the caller's span. */
  outside<T>(fn: () => T): T;
}

/** @throws TypeError when `value` is no `Telemetry` */
export function checkTelemetry(value: unknown, path: string): void {
  for (const method of ['call', 'segment', 'attempt', 'outside'] satisfies (keyof Telemetry)[]) {
    if (typeof property(value, method) !== 'function')
      throw new TypeError(`${path} must be the result of openTelemetry of perdure/telemetry`);
  }
}

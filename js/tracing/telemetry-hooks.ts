// What clients and runtimes tell those who trace them. They know this and nothing of any tracing library: `perdure/telemetry` is the implementation.
//
// Without one nothing of this is called, and nothing of it is stored.

import { property } from '../util/show.ts';

/** Where something belongs in a trace, as text: it crosses processes through the store, beside what it belongs to. */
export type TraceContext = string;

/** Something that a client does. */
export interface ClientCall {
  /** What: `start`, `raise`. */
  readonly operation: string;
  /** To what: the name of an orchestration, an event or a queue. */
  readonly target?: string;
  readonly instanceId?: string;
  /** Whether an instance goes on because of it, rather than that the client learns something. */
  readonly isProducer: boolean;
}

/** An execution that is in memory. */
export interface TracedExecution {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  /** Whether it was in memory before, here or elsewhere. */
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
  /** Whether the instance is another worker's. */
  readonly isBorrowed: boolean;
}

/** How a stretch ended: as its execution did, or because nothing is in memory of it any more. */
export type StretchEnd = 'completed' | 'failed' | 'cancelled' | 'continued' | 'suspended' | 'sleeping' | 'dropped';

/** What went wrong, as far as it is known. */
export interface TracedError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
}

/** The time from the first turn that an execution has in memory to the last one: what lies between two stretches is no worker's. */
export interface Stretch {
  /** For what is scheduled in it; `null`: it is traced by nobody. */
  readonly context: TraceContext | null;
  /** The code runs, or is replayed. */
  turn(isReplay: boolean): TracedTurn;
  end(how: StretchEnd, error?: TracedError): void;
}

export interface TracedTurn {
  /** How many events the code was handed, and how many commands it gave. */
  end(deliveries: number, commands: number): void;
}

export interface AttemptSpan {
  /** Call the function of the activity, so that what it does nests below. */
  run<T>(fn: () => T): T;
  /** It is over; what is told of it after that does nothing. */
  completed(): void;
  failed(error: unknown): void;
}

/** Traces clients and runtimes. Made by `openTelemetry` of `perdure/telemetry`, and handed over as it is. */
export interface Telemetry {
  /** @internal `run` is given the context for what it starts. */
  call<T>(call: ClientCall, run: (context: TraceContext | null) => Promise<T>): Promise<T>;
  /** @internal `context`: of its start. */
  stretch(execution: TracedExecution, context: TraceContext | null): Stretch;
  /** @internal `below`: the stretch that scheduled it, where that is in memory here, or what it was scheduled in. */
  attempt(attempt: TracedAttempt, below: Stretch | TraceContext | null): AttemptSpan;
  /** @internal Run code of orchestrations: below no span, whatever calls. */
  outside<T>(fn: () => T): T;
}

/** @throws TypeError when `value` does not trace */
export function checkTelemetry(value: unknown, path: string): void {
  for (const method of ['call', 'stretch', 'attempt', 'outside'] satisfies (keyof Telemetry)[]) {
    if (typeof property(value, method) !== 'function')
      throw new TypeError(`${path} must be what openTelemetry of perdure/telemetry returned`);
  }
}

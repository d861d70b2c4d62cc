// What an activity is given: its context, which is also found below it, across `await`.

import { AsyncLocalStorage } from 'node:async_hooks';

import type { Client } from '../client/client.ts';
import { CancelledError, RuntimeStateError, TimeoutError } from '../errors/errors.ts';
import { lineText, readFields, type TraceFields, type TraceLevel } from '../logging/fields.ts';
import type { TraceContext } from '../tracing/telemetry-hooks.ts';
import { Place } from '../values/codec-context.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import { fromPayload, toPayload } from '../values/payload.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import type { ActivityFunction } from './activity.ts';
import type { AttemptLimits } from './attempt.ts';

/** Why the addon tells an attempt to stop. */
export type AbortReason = 'cancelled' | 'shutdown' | 'leaseLost';

/** Which of its times was up when an attempt did not settle. */
export type TimeoutReason = 'timeout' | 'totalTimeout' | 'heartbeatTimeout';

/** One attempt to be made, as the runtime hands it over. */
export interface ActivityJob {
  readonly token: number;
  readonly name: string;
  readonly input: string | null;
  readonly attempt: number;
  /** How long it may take, ms; -1: as long as it likes. */
  readonly timeoutMs: number;
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
  readonly operation: number;
  /**
   * Which start of its id the instance comes from: a number of 64 bits as two signed ones of 32, which are read without an allocation. Both are 0 when
   * its history is older than that.
   */
  readonly incarnationHigh: number;
  readonly incarnationLow: number;
  /** `null` for most attempts. */
  readonly extras: AttemptExtras | null;
}

/** What only some attempts have. */
export interface AttemptExtras {
  /** How long all attempts and the waits between them may take, ms. */
  readonly totalTimeoutMs?: number;
  /** What is left of that; there is nothing to run when it is not positive. */
  readonly totalLeftMs?: number;
  /** How long it may be silent, ms. */
  readonly heartbeatTimeoutMs?: number;
  /** Codec text of the details that an earlier attempt told last. */
  readonly lastHeartbeat?: string;
  /** The instance whose code holds its function, when it is inline. */
  readonly inline?: number;
  /** What it was scheduled in. */
  readonly trace?: TraceContext;
  /** Of one with a trace: the instance that scheduled it, when that is this worker's. */
  readonly owner?: number;
  /** Of one with a trace: its queue, when it is not the default one. */
  readonly queue?: string;
}

/** What attempts need of their runtime. */
export interface ActivityHost {
  readonly workerId: string;
  readonly client: Client;
  log(level: TraceLevel, message: string, fields: TraceFields): void;
  /** Something that user code left behind went wrong; `what` says where. */
  warn(what: string, fields: TraceFields, error: unknown): void;
}

/** Where an attempt tells of its progress. */
export interface HeartbeatSink {
  /** What comes from the store comes through it, and what goes there goes through it. */
  readonly texts: StoredTexts;
  readonly limits: Required<RuntimeLimits>;
  heartbeat(activity: number, details: string): void;
}

/** Whose value a text of an attempt is. */
export function placeOf(
  { instanceId, executionId, operation }: ActivityJob,
  what: 'input' | 'output' | 'error' | 'heartbeat',
): Place {
  return Place.activity(instanceId, executionId, operation, what);
}

/** A number of 32 bits as eight digits, as a history has it. */
function hexOf(half: number): string {
  return (half >>> 0).toString(16).padStart(8, '0');
}

const contexts = new AsyncLocalStorage<ActivityContext>();

/**
 * The context of the activity that is running, anywhere below its function, across `await`.
 *
 * @throws RuntimeStateError outside an activity
 *
 * @example
 * ```ts
 * async function get(url: string) {
 *   return fetch(url, { signal: activityContext().signal });   // no need to hand the context down
 * }
 * ```
 */
export function activityContext(): ActivityContext {
  const context = contexts.getStore();
  if (context === undefined) throw new RuntimeStateError('activityContext() was called outside an activity');
  return context;
}

/** The context of the activity that this code is below of, if it is. */
export function currentActivity(): ActivityContext | undefined {
  return contexts.getStore();
}

/** Call the function of an activity. */
export function callBelow(context: ActivityContext, fn: ActivityFunction, input: unknown): unknown {
  return contexts.run(context, fn, context, input);
}

/** What an activity is given besides its input. */
export class ActivityContext {
  readonly #job: ActivityJob;
  readonly #host: ActivityHost;
  readonly #sink: HeartbeatSink;
  #controller: AbortController | null = null;
  #reason: AbortReason | TimeoutReason | null = null;
  #limits: AttemptLimits | null = null;

  /** @internal */
  constructor(job: ActivityJob, host: ActivityHost, sink: HeartbeatSink) {
    this.#job = job;
    this.#host = host;
    this.#sink = sink;
  }

  /** Id of the orchestration instance that scheduled it. */
  get instanceId(): string {
    return this.#job.instanceId;
  }

  /** Execution of that instance, from 1. */
  get executionId(): number {
    return this.#job.executionId;
  }

  /** Name of that orchestration. */
  get orchestrationName(): string {
    return this.#job.orchestrationName;
  }

  /** Name under which it was scheduled. */
  get activityName(): string {
    return this.#job.name;
  }

  /** Number of this attempt, from 1. */
  get attempt(): number {
    return this.#job.attempt;
  }

  /** The worker that runs it: a new one with each start of a runtime. */
  get workerId(): string {
    return this.#host.workerId;
  }

  /**
   * A key of this call: the same in every attempt and replay, and of no other call, also not of an instance that is started under the same
   * id later. It is `instanceId/incarnation/executionId/operation`: the incarnation is drawn at random when an id is started and kept over
   * `continueAsNew` (an instance whose history is older than that has keys without it).
   * Give it to systems that can tell repeated requests, since an activity may run more than once.
   */
  get idempotencyKey(): string {
    const { instanceId, executionId, operation, incarnationHigh, incarnationLow } = this.#job;
    const isTold = incarnationHigh !== 0 || incarnationLow !== 0;
    const started = isTold ? `${instanceId}/${hexOf(incarnationHigh)}${hexOf(incarnationLow)}` : instanceId;
    return `${started}/${executionId}/${operation}`;
  }

  /**
   * Aborted when the attempt should stop; nobody waits for its result then. `signal.reason` is a `CancelledError` (the
   * operation or the instance was cancelled, or has ended), a `TimeoutError` (its `timeout`, `totalTimeout` or
   * `heartbeatTimeout` is over; the message says which) or a `RuntimeStateError` (the runtime shuts down or has lost its lease).
   */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#reason !== null) this.#controller.abort(this.#abortError(this.#reason));
    }
    return this.#controller.signal;
  }

  /**
   * Say that the attempt is alive, and how far it has come. Synchronous, and cheap enough for a tight loop: the time of
   * `heartbeatTimeout` begins anew, and the latest details are stored at most once a second. They are handed to the next attempt
   * as {@link lastHeartbeat}: after a failure the latest ones, after a crash of the process the latest that were stored.
   * Once the attempt is over it does nothing. `details` is any value that can be stored; without it, what was told before stays.
   *
   * @throws PayloadError when the details cannot be stored
   *
   * @example
   * ```ts
   * for (let row = ctx.lastHeartbeat ?? 0; row < rows.length; row += 1) {
   *   await copy(rows[row]);
   *   ctx.heartbeat(row + 1);
   * }
   * ```
   */
  get heartbeat(): (details?: unknown) => void {
    // Bound, so that it may be taken out of the context as everything else: `async ({ signal, heartbeat }) => …`.
    return (details) => this.#heartbeat(details);
  }

  /** The details of the last {@link heartbeat} of an earlier attempt; a copy, `undefined` when there were none. */
  get lastHeartbeat(): any {
    const { texts } = this.#sink;
    return fromPayload(
      texts.read(this.#job.extras?.lastHeartbeat ?? null, 'lastHeartbeat', placeOf(this.#job, 'heartbeat')),
      'lastHeartbeat',
    );
  }

  /** A client of the same store. */
  get client(): Client {
    return this.#host.client;
  }

  /** Log a line at level debug, with the activity's instance and attempt beside it. */
  traceDebug(message: string, fields?: TraceFields): void {
    this.#trace('debug', message, fields);
  }

  /** Log a line at level info. */
  traceInfo(message: string, fields?: TraceFields): void {
    this.#trace('info', message, fields);
  }

  /** Log a line at level warn. */
  traceWarn(message: string, fields?: TraceFields): void {
    this.#trace('warn', message, fields);
  }

  /** Log a line at level error. */
  traceError(message: string, fields?: TraceFields): void {
    this.#trace('error', message, fields);
  }

  /** @internal */
  abort(reason: AbortReason | TimeoutReason): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.end();
    this.#controller?.abort(this.#abortError(reason));
  }

  /** @internal It has been called and may take its time; `limits` hold until it ends. */
  begin(limits: AttemptLimits): void {
    // It may have been told to stop before it had returned its promise.
    if (this.#reason === null) this.#limits = limits;
    else limits.clear();
  }

  /** @internal It has settled, or nobody waits for it any more. */
  end(): void {
    this.#limits?.clear();
    this.#limits = null;
  }

  /** @internal A promise that it left behind was rejected, and nobody handles that. */
  leftRejected(reason: unknown): void {
    const what = `activity '${this.activityName}' left a promise behind that was rejected, and nobody handles that`;
    this.#host.warn(what, this.#facts(), reason);
  }

  #heartbeat(details: unknown): void {
    const payload = toPayload(details, 'details', this.#sink.limits);
    if (this.#reason !== null) return;
    this.#limits?.beat();
    const { texts } = this.#sink;
    if (payload !== null)
      this.#sink.heartbeat(this.#job.token, texts.write(payload, 'details', placeOf(this.#job, 'heartbeat')) as string);
  }

  #trace(level: TraceLevel, message: string, fields: TraceFields | undefined): void {
    this.#host.log(level, lineText(message), { ...this.#facts(), ...readFields(fields) });
  }

  #facts(): TraceFields {
    const { instanceId, executionId, orchestrationName, name, attempt } = this.#job;
    return { instanceId, executionId, orchestrationName, activityName: name, attempt };
  }

  #abortError(reason: AbortReason | TimeoutReason): Error {
    const { timeoutMs, extras } = this.#job;
    const activity = `activity '${this.activityName}'`;
    const what = `attempt ${this.attempt} of ${activity}`;
    const timedOut = (message: string, ms = 0): TimeoutError =>
      new TimeoutError(`${message} ${reason} of ${ms} ms`, { timeoutMs: ms });
    switch (reason) {
      case 'cancelled':
        return new CancelledError('nobody waits for this activity any more');
      case 'timeout':
        return timedOut(`${what} took longer than its`, timeoutMs);
      case 'totalTimeout':
        return timedOut(`${activity} took longer, with all its attempts, than its`, extras?.totalTimeoutMs);
      case 'heartbeatTimeout':
        return timedOut(`${what} was silent for longer than its`, extras?.heartbeatTimeoutMs);
      case 'shutdown':
        return new RuntimeStateError(`${what} was aborted: the runtime shuts down`);
      case 'leaseLost':
        return new RuntimeStateError(`${what} was aborted: the runtime has lost its lease`);
      default:
        return reason satisfies never;
    }
  }
}

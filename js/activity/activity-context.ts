// The context of an activity. Code below the activity's function also finds it, across `await`.

import { AsyncLocalStorage } from 'node:async_hooks';

import type { Client } from '../client/client.ts';
import { CancelledError, RuntimeStateError, TimeoutError } from '../errors/errors.ts';
import { lineText, readFields, type TraceFields, type TraceLevel } from '../logging/fields.ts';
import { Place } from '../values/codec-context.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import { fromPayload, toPayload } from '../values/payload.ts';
import { DEFAULT_QUEUE } from '../values/queue.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import type { StreamOptions } from '../values/stream-options.ts';
import type { TypeRegistry } from '../values/value-types.ts';
import type { ActivityFunction } from './activity.ts';
import type { AbortReason, ActivityJob, TimeoutReason } from './activity-job.ts';
import type { AttemptLimits } from './attempt-limits.ts';
import { type ActivityStream, type Appended, AttemptStreams, type StreamAppend } from './attempt-streams.ts';

/** The parts of a runtime that attempts use. */
export interface ActivityHost {
  readonly workerId: string;
  readonly client: Client;
  log(level: TraceLevel, message: string, fields: TraceFields): void;
  /** Logs an error of something that user code left behind. `what` describes it. */
  warn(what: string, fields: TraceFields, error: unknown): void;
}

/** Receiver of the heartbeats of attempts, and of the entries that they write to streams. */
export interface ProgressSink {
  /** Encodes and decodes the texts that are stored. */
  readonly texts: StoredTexts;
  readonly limits: Required<RuntimeLimits>;
  heartbeat(activity: number, details: string): void;
  append(activity: number, append: StreamAppend): Promise<Appended>;
}

/** Returns the codec place of a text of an attempt. */
export function placeOf(
  { instanceId, executionId, operation }: ActivityJob,
  what: 'input' | 'output' | 'error' | 'heartbeat',
): Place {
  return Place.activity(instanceId, executionId, operation, what);
}

/** Formats a number of 32 bits as eight hexadecimal digits, as a history has it. */
function hexOf(half: number): string {
  return (half >>> 0).toString(16).padStart(8, '0');
}

const contexts = new AsyncLocalStorage<ActivityContext>();

/**
 * Returns the context of the running activity, anywhere below its function, across `await`.
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

/** Returns the context of the activity that this code runs in, if there is one. */
export function currentActivity(): ActivityContext | undefined {
  return contexts.getStore();
}

/** Calls the function of an activity with its context. */
export function callBelow(context: ActivityContext, fn: ActivityFunction, input: unknown): unknown {
  return contexts.run(context, fn, context, input);
}

/** The context of one attempt: facts about the activity, its signal, its heartbeat and its log. */
export class ActivityContext {
  readonly #job: ActivityJob;
  readonly #host: ActivityHost;
  readonly #sink: ProgressSink;
  #controller: AbortController | null = null;
  #reason: AbortReason | TimeoutReason | null = null;
  #limits: AttemptLimits | null = null;
  #tags: Readonly<Record<string, string>> | null = null;
  #streams: AttemptStreams | null = null;

  /** @internal */
  constructor(job: ActivityJob, host: ActivityHost, sink: ProgressSink) {
    this.#job = job;
    this.#host = host;
    this.#sink = sink;
  }

  /** Id of the orchestration instance that scheduled the activity. */
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

  /** Version of that orchestration: of the code that scheduled the activity. */
  get orchestrationVersion(): string {
    return this.#job.version;
  }

  /**
   * Tags that the instance was started with: `{}` if it has none. The object is the same in each read of this attempt
   * and cannot be changed.
   */
  get tags(): Readonly<Record<string, string>> {
    this.#tags ??= Object.freeze(JSON.parse(this.#job.tags ?? '{}') as Record<string, string>);
    return this.#tags;
  }

  /**
   * Queue that the activity was scheduled in: `'default'` if its options name none. An inline activity runs with its
   * orchestration and has the default queue, too.
   */
  get queue(): string {
    return this.#job.extras?.queue ?? DEFAULT_QUEUE;
  }

  /** Name under which it was scheduled. */
  get activityName(): string {
    return this.#job.name;
  }

  /** Number of this attempt, from 1. */
  get attempt(): number {
    return this.#job.attempt;
  }

  /** Session of the activity: see {@link ActivityOptions.session}. `undefined` if it has none. */
  get session(): string | undefined {
    return this.#job.extras?.session;
  }

  /** Id of the worker that runs the attempt; each start of a runtime has a new one. */
  get workerId(): string {
    return this.#host.workerId;
  }

  /**
   * An idempotency key of this call: the same in every attempt and replay. No other call has it, not even one of an
   * instance that is started under the same id later. The key is `instanceId/incarnation/executionId/operation`. The
   * incarnation is drawn at random when an id is started, and kept over `continueAsNew` (an instance whose history is
   * older than incarnations has keys without it). Pass the key to systems that recognize repeated requests, since an
   * activity may run more than once.
   */
  get idempotencyKey(): string {
    const { instanceId, executionId, operation, incarnationHigh, incarnationLow } = this.#job;
    const isTold = incarnationHigh !== 0 || incarnationLow !== 0;
    const started = isTold ? `${instanceId}/${hexOf(incarnationHigh)}${hexOf(incarnationLow)}` : instanceId;
    return `${started}/${executionId}/${operation}`;
  }

  /**
   * Aborted when the attempt should stop; its result is not used then. `signal.reason` is a `CancelledError` (the
   * operation or the instance was cancelled, or has ended), a `TimeoutError` (its `timeout`, `totalTimeout` or
   * `heartbeatTimeout` is over; the message says which) or a `RuntimeStateError` (the runtime shuts down or has lost
   * its lease).
   */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#reason !== null) this.#controller.abort(this.#abortError(this.#reason));
    }
    return this.#controller.signal;
  }

  /**
   * Sends a heartbeat: the attempt is alive, and `details` say how far it has come. Synchronous, and cheap enough for a
   * tight loop: the time of `heartbeatTimeout` begins anew, and the latest details are stored at most once a second.
   * The next attempt gets them as {@link lastHeartbeat}: after a failure the latest details, after a crash of the
   * process the latest that were stored. A heartbeat after the end of the attempt does nothing. `details` is any value
   * that can be stored; without it, the earlier details stay.
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
    // Bound, so that it can be destructured from the context: `async ({ signal, heartbeat }) => …`.
    return (details) => this.#heartbeat(details);
  }

  /** The details of the last {@link heartbeat} of an earlier attempt; a copy, `undefined` when there were none. */
  get lastHeartbeat(): any {
    const { texts } = this.#sink;
    return fromPayload(
      texts.read(this.#job.extras?.lastHeartbeat ?? null, 'lastHeartbeat', placeOf(this.#job, 'heartbeat')),
      'lastHeartbeat',
      texts.types,
    );
  }

  /**
   * Returns a stream of the instance, to write to. Any client reads it from any index on, live. A later attempt of the
   * activity appends after what an earlier one has left, and readers are told to drop that. The name has 1 to 256
   * characters. The options say which entries stay: all of them by default.
   *
   * @throws TypeError when an argument is wrong
   * @throws LimitError (`streamNames`) when the attempt writes more than 1 000 streams
   *
   * @example
   * ```ts
   * const tokens = ctx.stream('tokens');
   * for await (const token of model.stream(prompt, ctx.signal)) tokens.write(token);
   * ```
   */
  get stream(): (name: string, options?: StreamOptions) => ActivityStream {
    return (name, options) => this.#attemptStreams().get(name, options);
  }

  /** A client of the same store. */
  get client(): Client {
    return this.#host.client;
  }

  /** Logs a line at level debug, with the activity's instance and attempt beside it. */
  traceDebug(message: string, fields?: TraceFields): void {
    this.#trace('debug', message, fields);
  }

  /** Logs a line at level info. */
  traceInfo(message: string, fields?: TraceFields): void {
    this.#trace('info', message, fields);
  }

  /** Logs a line at level warn. */
  traceWarn(message: string, fields?: TraceFields): void {
    this.#trace('warn', message, fields);
  }

  /** Logs a line at level error. */
  traceError(message: string, fields?: TraceFields): void {
    this.#trace('error', message, fields);
  }

  /** @internal The limits and the registered classes of values. */
  get values(): { readonly limits: Required<RuntimeLimits>; readonly types: TypeRegistry } {
    return { limits: this.#sink.limits, types: this.#sink.texts.types };
  }

  /** @internal The streams that the attempt has written; `null`: none. */
  get streams(): AttemptStreams | null {
    return this.#streams;
  }

  /**
   * @internal True if no other attempt follows: no time is left after the total timeout, and a further attempt would
   * wait in the same queue.
   */
  get isOutOfTime(): boolean {
    return this.#reason === 'totalTimeout' || this.#reason === 'scheduleToStartTimeout';
  }

  /** @internal See {@link ActivityJob.isUntried}. */
  get isUntried(): boolean {
    return this.#job.isUntried;
  }

  /** @internal */
  abort(reason: AbortReason | TimeoutReason): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.end();
    void this.#streams?.stop();
    this.#controller?.abort(this.#abortError(reason));
  }

  /** @internal The function was called and returned a promise; `limits` apply until the attempt ends. */
  begin(limits: AttemptLimits): void {
    // The attempt may have been aborted before the function returned its promise.
    if (this.#reason === null) this.#limits = limits;
    else limits.clear();
  }

  /** @internal The attempt has settled, or its result is not used any more. */
  end(): void {
    this.#limits?.clear();
    this.#limits = null;
  }

  /** @internal The activity left a promise behind that was rejected without a handler. */
  leftRejected(reason: unknown): void {
    const what = `activity '${this.activityName}' left behind a rejected promise that no code handles`;
    this.#host.warn(what, this.#facts(), reason);
  }

  #heartbeat(details: unknown): void {
    const payload = toPayload(details, 'details', this.#sink.limits, this.#sink.texts.types);
    if (this.#reason !== null) return;
    this.#limits?.beat();
    const { texts } = this.#sink;
    if (payload !== null)
      this.#sink.heartbeat(this.#job.token, texts.write(payload, 'details', placeOf(this.#job, 'heartbeat')) as string);
  }

  #attemptStreams(): AttemptStreams {
    const { instanceId, token } = this.#job;
    const { texts, limits } = this.#sink;
    this.#streams ??= new AttemptStreams({
      instanceId,
      texts,
      limits,
      append: (append) => this.#sink.append(token, append),
      lost: () => this.abort('leaseLost'),
    });
    return this.#streams;
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
        return new CancelledError('the orchestration no longer waits for this activity');
      case 'timeout':
        return timedOut(`${what} took longer than its`, timeoutMs);
      case 'totalTimeout':
        return timedOut(`${activity} took longer, with all its attempts, than its`, extras?.totalTimeoutMs);
      case 'scheduleToStartTimeout':
        return timedOut(
          `${what} waited in queue '${this.queue}' for longer than its`,
          extras?.scheduleToStartTimeoutMs,
        );
      case 'heartbeatTimeout':
        return timedOut(`${what} sent no heartbeat for longer than its`, extras?.heartbeatTimeoutMs);
      case 'shutdown':
        return new RuntimeStateError(`${what} was aborted: the runtime is shutting down`);
      case 'leaseLost':
        return new RuntimeStateError(`${what} was aborted: the runtime has lost its lease`);
      default:
        return reason satisfies never;
    }
  }
}

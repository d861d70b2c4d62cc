// Activities: how they are defined, what they are given, and one attempt on its way.

import { AsyncLocalStorage } from 'node:async_hooks';

import { type ActivityOptions, checkActivityOptions } from './activity-options.ts';
import type { Client } from './client.ts';
import type { TraceLevel } from './engine.ts';
import { CancelledError, NonRetryableError, PayloadError, RetryAfterError, RuntimeStateError, TimeoutError } from './errors.ts';
import { checkName } from './options.ts';
import { fromPayload, toErrorPayload, toPayload } from './payload.ts';
import { checkSchema, parse, type SchemaInput, type SchemaOutput, type StandardSchema } from './schema.ts';
import type { TraceFields } from './trace.ts';

/** The function of an activity. It may be `async`, and may do what an orchestration may not: IO, clocks, randomness. */
export type ActivityFunction<I = any, O = any> = (ctx: ActivityContext, input: I) => O | PromiseLike<O>;

/** An activity with its name, as {@link defineActivity} makes it. */
export interface ActivityDefinition<I = any, O = any> {
  readonly kind: 'activity';
  readonly name: string;
  readonly fn: ActivityFunction<I, O>;
  readonly options: ActivityOptions | undefined;
  /** What its input is checked by, if anything. */
  readonly input?: StandardSchema | undefined;
}

/**
 * Define an activity: register it with `runtime.register`, call it with `ctx.call`.
 *
 * @param name - 1 to 256 characters; what is recorded in histories, so it must stay the same over versions
 * @param fn - runs at least once per call, and its result is recorded once
 * @param options - defaults for all calls, and `input`: a Standard Schema (Zod, Valibot, ArkType …). `ctx.call` throws
 *   `PayloadError` for an input that does not fit it, and so does the attempt, which is then not repeated; `fn` gets what
 *   the schema makes of the input. Where the schema answers with a promise, only calls by name (`scheduleActivity`) are possible
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const charge = defineActivity('charge', async (ctx, order: Order): Promise<Receipt> => pay(order, { signal: ctx.signal }), {
 *   retry: { maxAttempts: 5 },
 * });
 * runtime.register(charge);
 * // in an orchestration:
 * const receipt = yield* ctx.call(charge, order);   // Receipt
 * ```
 */
export function defineActivity<S extends StandardSchema, O = unknown>(
  name: string,
  fn: (ctx: ActivityContext, input: SchemaOutput<S>) => O | PromiseLike<O>,
  options: ActivityOptions & { input: S },
): ActivityDefinition<SchemaInput<S>, O>;
export function defineActivity<I = undefined, O = unknown>(
  name: string,
  fn: (ctx: ActivityContext, input: I) => O | PromiseLike<O>,
  options?: ActivityOptions,
): ActivityDefinition<I, O>;
export function defineActivity(
  name: string,
  fn: ActivityFunction,
  options?: ActivityOptions & { input?: StandardSchema | undefined },
): ActivityDefinition {
  checkName(name, 'activity name');
  if (typeof fn !== 'function') throw new TypeError(`defineActivity '${name}': the second argument must be a function`);
  const { input: schema, ...others } = options ?? {};
  const own = options === undefined || schema === undefined ? options : others;
  checkActivityOptions(own, `activity '${name}'`);
  if (schema === undefined) return Object.freeze({ kind: 'activity', name, fn, options: own });
  checkSchema(schema, `activity '${name}': input`);
  return Object.freeze({ kind: 'activity', name, fn: checked(fn, schema), options: own, input: schema });
}

/** Why attempts were refused before their function was called: the next one would be given the same input. */
const refusals = new WeakSet<object>();

/** An activity's function behind its schema. */
function checked(fn: ActivityFunction, schema: StandardSchema): ActivityFunction {
  const refuse = (error: unknown): never => {
    if (error instanceof PayloadError) refusals.add(error);
    throw error;
  };
  return (ctx, input) => {
    let value: unknown;
    try {
      value = parse(schema, input, 'input');
    } catch (error) {
      return refuse(error);
    }
    return value instanceof Promise ? value.catch(refuse).then((parsed) => fn(ctx, parsed)) : fn(ctx, value);
  };
}

/** Why an attempt is told to stop. */
export type AbortReason = 'cancelled' | 'timeout' | 'shutdown' | 'leaseLost';

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
}

/** What attempts need of their runtime. */
export interface ActivityHost {
  readonly workerId: string;
  readonly client: Client;
  log(level: TraceLevel, message: string, fields: TraceFields): void;
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

/** What an activity is given besides its input. */
export class ActivityContext {
  readonly #job: ActivityJob;
  readonly #host: ActivityHost;
  #controller: AbortController | null = null;
  #reason: AbortReason | null = null;

  /** @internal */
  constructor(job: ActivityJob, host: ActivityHost) {
    this.#job = job;
    this.#host = host;
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
   * A key of this call: the same in every attempt and replay, and of no other call. It is `instanceId/executionId/operation`.
   * Give it to systems that can tell repeated requests, since an activity may run more than once.
   */
  get idempotencyKey(): string {
    const { instanceId, executionId, operation } = this.#job;
    return `${instanceId}/${executionId}/${operation}`;
  }

  /**
   * Aborted when the attempt should stop; nobody waits for its result then. `signal.reason` is a `CancelledError` (the
   * operation or the instance was cancelled, or has ended), a `TimeoutError` (the attempt took longer than its
   * `timeout`) or a `RuntimeStateError` (the runtime shuts down or has lost its lease).
   */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#reason !== null) this.#controller.abort(this.#abortError(this.#reason));
    }
    return this.#controller.signal;
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
  abort(reason: AbortReason): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#controller?.abort(this.#abortError(reason));
  }

  #trace(level: TraceLevel, message: string, fields: TraceFields | undefined): void {
    const { instanceId, executionId, orchestrationName, name, attempt } = this.#job;
    this.#host.log(level, message, { instanceId, executionId, orchestrationName, activityName: name, attempt, ...fields });
  }

  #abortError(reason: AbortReason): Error {
    const what = `attempt ${this.attempt} of activity '${this.activityName}'`;
    switch (reason) {
      case 'cancelled':
        return new CancelledError('nobody waits for this activity any more');
      case 'timeout':
        return new TimeoutError(`${what} took longer than its timeout of ${this.#job.timeoutMs} ms`, { timeoutMs: this.#job.timeoutMs });
      case 'shutdown':
        return new RuntimeStateError(`${what} was aborted: the runtime shuts down`);
      case 'leaseLost':
        return new RuntimeStateError(`${what} was aborted: the runtime has lost its lease`);
      default:
        return reason satisfies never;
    }
  }
}

/** Where an attempt reports to. */
export interface ActivitySink {
  completeActivity(activity: number, output: string | null): void;
  failActivity(activity: number, error: string, errorName: string, nonRetryable: boolean, retryAfterMs: number): void;
}

/** Run one attempt. Never throws; reports to `sink`, at once if the function is not asynchronous. */
export function runActivity(fn: ActivityFunction, job: ActivityJob, context: ActivityContext, sink: ActivitySink): void {
  let result: unknown;
  try {
    result = contexts.run(context, fn, context, fromPayload(job.input, 'input'));
  } catch (error) {
    failActivity(job.token, error, sink);
    return;
  }
  if (!isThenable(result)) {
    completeActivity(job.token, result, sink);
    return;
  }
  const timer = job.timeoutMs < 0 ? undefined : limitAttempt(job, context, sink);
  // Through a promise of our own: a thenable that throws or settles twice cannot do harm.
  Promise.resolve(result).then(
    (output: unknown) => {
      if (timer !== undefined) clearTimeout(timer);
      completeActivity(job.token, output, sink);
    },
    (error: unknown) => {
      if (timer !== undefined) clearTimeout(timer);
      failActivity(job.token, error, sink);
    },
  );
}

/** Longest delay of `setTimeout`, ms; a longer one would fire at once. An attempt of more than 24 days ends with its process. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Fail the attempt when its time is up. Its slot is free from then on, and what the function still returns is ignored. */
function limitAttempt(job: ActivityJob, context: ActivityContext, sink: ActivitySink): NodeJS.Timeout {
  const timer = setTimeout(() => {
    context.abort('timeout');
    failActivity(job.token, context.signal.reason, sink);
  }, Math.min(job.timeoutMs, TIMER_MAX_MS));
  // A started runtime keeps the process alive; what outlives it must not.
  return timer.unref();
}

/** Report that an attempt failed with `error`, whatever was thrown. */
export function failActivity(token: number, error: unknown, sink: ActivitySink, useless = false): void {
  const nonRetryable = useless || error instanceof NonRetryableError || (error instanceof PayloadError && refusals.has(error));
  const retryAfterMs = error instanceof RetryAfterError ? error.retryAfterMs : -1;
  const payload = toErrorPayload(error);
  sink.failActivity(token, payload, (JSON.parse(payload) as { name: string }).name, nonRetryable, retryAfterMs);
}

function completeActivity(token: number, output: unknown, sink: ActivitySink): void {
  let payload: string | null;
  try {
    payload = toPayload(output, 'output');
  } catch (error) {
    // The next attempt would return the same kind of thing.
    failActivity(token, error, sink, true);
    return;
  }
  sink.completeActivity(token, payload);
}

function isThenable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  try {
    return typeof (value as { then?: unknown }).then === 'function';
  } catch {
    // A getter that throws: resolving a promise with the value reports it as a failure.
    return true;
  }
}

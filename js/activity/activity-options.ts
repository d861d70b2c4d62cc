// Options of activities: validation, and the JSON that the engine records with a schedule.

import { type Duration, parseDuration } from '../util/duration.ts';
import {
  checkOptions,
  duration,
  finite,
  listOfTexts,
  named,
  nested,
  type OptionTable,
  priority,
  whole,
} from '../util/options.ts';
import { show } from '../util/show.ts';
import { DEFAULT_QUEUE } from '../values/queue.ts';

/** Retry policy: decides when a failed attempt is followed by another. */
export interface RetryOptions {
  /** Attempts in all; 1 means no retry. Default 3. */
  maxAttempts?: number;
  /** Delay before the second attempt. Default 200 ms. */
  initialInterval?: Duration;
  /**
   * Factor from one delay to the next, at least 1. With `'linear'`, the delay after attempt n is n times
   * `initialInterval`. Default 2.
   */
  backoff?: number | 'linear';
  /** Largest delay. Default 60 s. */
  maxInterval?: Duration;
  /** Share of a delay by which it is spread at random, 0 to 1. Default 0.2. */
  jitter?: number;
  /**
   * Names and codes of errors that are never retried. An item is compared with the error's `name` and `code`, and with
   * the `code` of its direct `cause`, where `fetch` keeps `'ECONNRESET'` and the like. A numeric code is compared as
   * text: `'503'`. An attempt that exceeds its `timeout` or `heartbeatTimeout` fails with the name `'TimeoutError'`.
   * Default none.
   */
  nonRetryable?: readonly string[];
  /**
   * Names and codes of the only errors that are retried, compared as those of `nonRetryable`, which takes precedence:
   * an error that is in both lists is not retried. At least one item. Default: all errors are retried.
   */
  retryOn?: readonly string[];
}

/**
 * Key of the attempts of an activity in the limits of its queue: 1 to 256 characters, or a function that returns them
 * for the input of a call. The function runs in the orchestration, so it must return the same for the same input.
 *
 * @example
 * ```ts
 * const key: ActivityKey<Request> = (request) => request.tenant;
 * ```
 */
export type ActivityKey<Input = any> = string | ((input: Input) => string);

/**
 * Options of an activity, from its registration or from one call; the call takes precedence, option by option. The
 * `key` of a registration may be a function, {@link ActivityKey}.
 *
 * @example
 * ```ts
 * yield ctx.scheduleActivity('charge', order, { retry: { maxAttempts: 5, initialInterval: '1s' }, timeout: '30s' });
 * ```
 */
export interface ActivityOptions<Key = string> {
  /** Retry policy. The delays are durable: they survive a restart. */
  retry?: RetryOptions;
  /** Longest time of one attempt; an attempt that takes longer is aborted and counts as failed. Default none. */
  timeout?: Duration;
  /**
   * Longest time of all attempts and the waits between them, counted from the schedule of the activity; a restart does
   * not reset it. No attempt begins after it, an attempt that runs then is aborted, and one that waits in a queue then
   * fails. Default none.
   */
  totalTimeout?: Duration;
  /**
   * Longest time for which each attempt waits to begin, counted from the schedule of the activity, or from the end of
   * the delay of a retry. An attempt waits for a runtime that serves its queue, for a slot of its queue, and for a free
   * place in its runtime. When the time is over, the activity fails with a `TimeoutError` and is not tried again.
   * If the process that runs an attempt dies, the attempt may wait as long anew. Default none.
   *
   * @example
   * ```ts
   * yield* ctx.call(render, scene, { queue: 'gpu', scheduleToStartTimeout: '10m' });
   * ```
   */
  scheduleToStartTimeout?: Duration;
  /** An attempt that calls `ctx.heartbeat()` less often than this is aborted and counts as failed. Default none. */
  heartbeatTimeout?: Duration;
  /**
   * Queue of the activity. Only runtimes that serve this queue (`new Runtime(provider, { queues })`) run it, in this
   * process or another. If limits are set for the queue, they hold for its attempts: see `QueueLimits`. An activity in
   * any queue but the default one is always stored as a task, which costs two commits more than an activity that the
   * owner of the instance runs. Default `'default'`, which limits no activity.
   */
  queue?: string;
  /**
   * Key of the attempts in the limits of the queue, such as the name of a customer. Attempts of one key share the
   * limits `perKey`, and with `fairness: 'key'` the keys take turns. It needs the option `queue`, of the call or of the
   * definition that is called; a call by name (`scheduleActivity`) with a key names the queue, too. Default: none.
   *
   * @example
   * ```ts
   * const callApi = defineActivity('callApi', call, { queue: 'api', key: (input) => input.tenant });
   * yield* ctx.call(callApi, input, { key: 'batch' });   // over the key of the definition
   * ```
   */
  key?: Key;
  /**
   * Session of the activity: a name of 1 to 256 characters. All activities with the same session and queue, of any
   * instance, run on one runtime while it lives, so that they find what an earlier one left there: files in a temporary
   * folder, a loaded model, a cursor. The runtime that takes the first of them holds the session (see
   * `sessions` of the runtime). Such an activity is always stored as a task, which costs two commits more than an
   * activity that the owner of the instance runs. Default none.
   *
   * @example
   * ```ts
   * const session = ctx.instanceId;
   * yield ctx.scheduleActivity('download', url, { session });
   * yield ctx.scheduleActivity('transcode', 'mp4', { session });   // on the same runtime
   * ```
   */
  session?: string;
  /**
   * Attempts that wait for a slot of their runtime, or in a queue, are taken in order of priority, highest first.
   * Default 0.
   */
  priority?: number;
}

/** A call of an activity, as its options are made for it. */
export interface ActivityCall {
  readonly name: string;
  readonly input: unknown;
}

/** Options of an inline activity. */
export type InlineOptions = Omit<ActivityOptions, 'queue' | 'key' | 'session'>;

/** Checks the growth of the delays. */
function backoff(value: unknown, path: string): void {
  if (value === 'linear' || (typeof value === 'number' && value >= 1 && value <= Number.MAX_VALUE)) return;
  throw new TypeError(`${path} must be a number >= 1 or 'linear', got ${show(value)}`);
}

/** Checks the list of the only errors that are retried. An empty list is a mistake: `maxAttempts: 1` says that. */
function retryOn(value: unknown, path: string): void {
  listOfTexts(value, path);
  if ((value as readonly string[]).length > 0) return;
  throw new TypeError(`${path} must name at least one error; maxAttempts: 1 retries none`);
}

const RETRY: OptionTable = {
  maxAttempts: whole(1, 0xffff_ffff),
  initialInterval: duration(),
  backoff,
  maxInterval: duration(),
  jitter: finite(0, 1),
  nonRetryable: listOfTexts,
  retryOn,
};

/** The check of {@link RetryOptions}. */
export const retry = nested(RETRY);

/** Checks a key of a registration. The one that a function returns is checked when it is called. */
function registeredKey(value: unknown, path: string): void {
  if (typeof value !== 'function') named(value, path);
}

/** The checks of {@link ActivityOptions} of a call. */
const CALL_OPTIONS: OptionTable = {
  retry,
  timeout: duration(1),
  totalTimeout: duration(1),
  scheduleToStartTimeout: duration(1),
  heartbeatTimeout: duration(1),
  queue: named,
  key: named,
  session: named,
  priority,
};

/** The checks of {@link ActivityOptions} of a registration. */
export const ACTIVITY_OPTIONS: OptionTable = { ...CALL_OPTIONS, key: registeredKey };

const { queue: _queue, key: _key, session: _session, ...INLINE_OPTIONS } = CALL_OPTIONS;

/**
 * Checks the options of a registration.
 *
 * @throws TypeError naming the option that is wrong; `where` begins its message
 */
export function checkActivityOptions<T extends ActivityOptions<ActivityKey> | undefined>(options: T, where: string): T {
  const checked = checkOptions(options, ACTIVITY_OPTIONS, where);
  checkKeyed(checked?.queue, checked?.key, where);
  return checked;
}

/**
 * Checks the options of a call, over those of the definition, if the call has one. Those of the registration do not
 * count: a worker that replays the call need not have it.
 *
 * @throws TypeError naming the option that is wrong; `where` begins its message
 */
export function checkCallOptions(
  options: ActivityOptions,
  defined: ActivityOptions<ActivityKey> | undefined,
  where: string,
): ActivityOptions {
  const checked = checkOptions(options, CALL_OPTIONS, where);
  checkKeyed(checked.queue ?? defined?.queue, checked.key, where);
  return checked;
}

/** @throws TypeError when there is a key without a queue that can have limits */
export function checkKeyed(queue: string | undefined, key: unknown, where: string): void {
  if (key === undefined || isLimited(queue)) return;
  throw new TypeError(
    `${where}: the option key needs the option queue, with another queue than '${DEFAULT_QUEUE}', ` +
      'because a key counts within its queue',
  );
}

/** True if the queue can have limits for activities. */
function isLimited(queue: string | undefined): boolean {
  return queue !== undefined && queue !== DEFAULT_QUEUE;
}

/**
 * Checks the options of an inline activity, as {@link checkCallOptions} does. They have no queue, no key and no
 * session: an inline activity runs with its orchestration.
 */
export function checkInlineOptions<T extends InlineOptions | undefined>(options: T, where: string): T {
  return checkOptions(options, INLINE_OPTIONS, where);
}

/**
 * Returns the engine's JSON of checked options, those of the call over those of the registration; `null` when there are
 * none.
 *
 * @throws TypeError when the function of the key throws, or returns no key
 */
export function recordedOptions(
  registered: ActivityOptions<ActivityKey> | undefined,
  called: ActivityOptions | undefined,
  call: ActivityCall,
): string | null {
  if (registered === undefined && called === undefined) return null;
  return JSON.stringify({ ...effective(registered, called), key: keyOf(registered, called, call) });
}

/** Returns the engine's JSON of checked options of an inline activity, which has no registration. */
export function recordedInline(called: InlineOptions | undefined): string {
  return JSON.stringify({ ...effective(undefined, called), inline: true });
}

function effective(registered: ActivityOptions<ActivityKey> | undefined, called: ActivityOptions | undefined): object {
  const retry = { ...registered?.retry, ...defined(called?.retry) };
  return {
    retry: {
      maxAttempts: retry.maxAttempts,
      initialIntervalMs: ms(retry.initialInterval),
      backoff: retry.backoff,
      maxIntervalMs: ms(retry.maxInterval),
      jitter: retry.jitter,
      nonRetryable: retry.nonRetryable,
      retryOn: retry.retryOn,
    },
    timeoutMs: ms(called?.timeout ?? registered?.timeout),
    totalTimeoutMs: ms(called?.totalTimeout ?? registered?.totalTimeout),
    scheduleToStartTimeoutMs: ms(called?.scheduleToStartTimeout ?? registered?.scheduleToStartTimeout),
    heartbeatTimeoutMs: ms(called?.heartbeatTimeout ?? registered?.heartbeatTimeout),
    queue: called?.queue ?? registered?.queue,
    session: called?.session ?? registered?.session,
    priority: called?.priority ?? registered?.priority,
  };
}

/** Returns the key of a call. There is none in the default queue. */
function keyOf(
  registered: ActivityOptions<ActivityKey> | undefined,
  called: ActivityOptions | undefined,
  { name, input }: ActivityCall,
): string | undefined {
  if (!isLimited(called?.queue ?? registered?.queue)) return undefined;
  const key = called?.key ?? registered?.key;
  return typeof key === 'function' ? keyFrom(key, input, `activity '${name}'`) : key;
}

function keyFrom(key: (input: any) => string, input: unknown, where: string): string {
  let returned: unknown;
  try {
    returned = key(input);
  } catch (cause) {
    throw new TypeError(`${where}: the function of the option key has thrown for the input of the call`, { cause });
  }
  named(returned, `${where}: the result of the function of the option key`);
  return returned as string;
}

function ms(value: Duration | undefined): number | undefined {
  return value === undefined ? undefined : parseDuration(value, 'duration');
}

/** Returns the options without `undefined` properties, which must not hide those of the registration. */
function defined<T extends object>(options: T | undefined): Partial<T> {
  return Object.fromEntries(Object.entries(options ?? {}).filter(([, value]) => value !== undefined)) as Partial<T>;
}

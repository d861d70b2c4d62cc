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
 * Options of an activity, from its registration or from one call; the call takes precedence, option by option.
 *
 * @example
 * ```ts
 * yield ctx.scheduleActivity('charge', order, { retry: { maxAttempts: 5, initialInterval: '1s' }, timeout: '30s' });
 * ```
 */
export interface ActivityOptions {
  /** Retry policy. The delays are durable: they survive a restart. */
  retry?: RetryOptions;
  /** Longest time of one attempt; an attempt that takes longer is aborted and counts as failed. Default none. */
  timeout?: Duration;
  /**
   * Longest time of all attempts and the waits between them, counted from the schedule of the activity; a restart does
   * not reset it. No attempt begins after it, and an attempt that runs then is aborted. Default none.
   */
  totalTimeout?: Duration;
  /** An attempt that calls `ctx.heartbeat()` less often than this is aborted and counts as failed. Default none. */
  heartbeatTimeout?: Duration;
  /**
   * Queue of the activity. Only runtimes that serve this queue (`new Runtime(provider, { queues })`) run it, in this
   * process or another. Default `'default'`.
   */
  queue?: string;
  /**
   * Session of the activity: a name of 1 to 256 characters. All activities with the same session and queue, of any
   * instance, run on one runtime while it lives, so that they find what an earlier one left there: files in a temporary
   * folder, a loaded model, a cursor. The runtime that takes the first of them holds the session (see
   * `sessions` of the runtime). Such an activity is always stored as a task, which costs a commit more than an
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

/** Options of an inline activity. */
export type InlineOptions = Omit<ActivityOptions, 'queue' | 'session'>;

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

/** The checks of {@link ActivityOptions}. */
export const ACTIVITY_OPTIONS: OptionTable = {
  retry,
  timeout: duration(1),
  totalTimeout: duration(1),
  heartbeatTimeout: duration(1),
  queue: named,
  session: named,
  priority,
};

const { queue: _queue, session: _session, ...INLINE_OPTIONS } = ACTIVITY_OPTIONS;

/** @throws TypeError naming the option that is wrong; `where` begins its message */
export function checkActivityOptions<T extends ActivityOptions | undefined>(options: T, where: string): T {
  return checkOptions(options, ACTIVITY_OPTIONS, where);
}

/**
 * Checks the options of an inline activity, as {@link checkActivityOptions} does. They have no queue and no session: an
 * inline activity runs with its orchestration.
 */
export function checkInlineOptions<T extends InlineOptions | undefined>(options: T, where: string): T {
  return checkOptions(options, INLINE_OPTIONS, where);
}

/**
 * Returns the engine's JSON of checked options, those of the call over those of the registration; `null` when there are
 * none.
 */
export function recordedOptions(
  registered: ActivityOptions | undefined,
  called: ActivityOptions | undefined,
): string | null {
  if (registered === undefined && called === undefined) return null;
  return JSON.stringify(effective(registered, called));
}

/** Returns the engine's JSON of checked options of an inline activity, which has no registration. */
export function recordedInline(called: InlineOptions | undefined): string {
  return JSON.stringify({ ...effective(undefined, called), inline: true });
}

function effective(registered: ActivityOptions | undefined, called: ActivityOptions | undefined): object {
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
    heartbeatTimeoutMs: ms(called?.heartbeatTimeout ?? registered?.heartbeatTimeout),
    queue: called?.queue ?? registered?.queue,
    session: called?.session ?? registered?.session,
    priority: called?.priority ?? registered?.priority,
  };
}

function ms(value: Duration | undefined): number | undefined {
  return value === undefined ? undefined : parseDuration(value, 'duration');
}

/** Returns the options without `undefined` properties, which must not hide those of the registration. */
function defined<T extends object>(options: T | undefined): Partial<T> {
  return Object.fromEntries(Object.entries(options ?? {}).filter(([, value]) => value !== undefined)) as Partial<T>;
}

// The queue, the start time and the time limit of an instance, as options of its start.

import { type Duration, parseDuration } from '../util/duration.ts';
import { duration, named, type OptionTable, time, timeOf } from '../util/options.ts';
import type { Admission } from '../values/admission.ts';

/** The queue of an instance that is started. */
export interface QueuedOptions {
  /**
   * Queue that the instance waits in until it has a slot: see {@link QueueLimits}. The queue must have been set, with
   * `client.queues.set`. Default: none, so the instance runs at once.
   */
  queue?: string;
  /**
   * Key of the instance in its queue, 1 to 256 characters, such as the name of a customer. Instances of one key share
   * the limits `perKey`, and with `fairness: 'key'` the keys take turns. Default: none.
   */
  key?: string;
}

/** The time limit of an instance that is started. */
export interface TimeLimitOptions {
  /**
   * Time for which the instance may run, over all its executions, from its first turn on. Once it is over, the instance
   * is cancelled, with the reason `timed out after … ms`. Time in a queue, and before a later start, does not count.
   * Default: no limit.
   */
  timeout?: Duration;
  /**
   * Time for which the cleanup of the instance may last after the `timeout`. What is left of the cleanup is then
   * dropped, and the instance ends. Default: the `cancelGrace` of its definition, or no limit.
   */
  gracePeriod?: Duration;
}

/** When, through which queue, and for how long an instance that is started comes to run. */
export interface AdmissionOptions extends QueuedOptions, TimeLimitOptions {
  /** Time until the instance runs, from its start on, by the clock of the store. Not together with `startAt`. */
  delay?: Duration;
  /** Time at which the instance runs, or comes into line in its queue. A time in the past is now. */
  startAt?: Date | string;
}

/** The checks of {@link QueuedOptions}. */
export const QUEUED_OPTIONS = { queue: named, key: named } satisfies OptionTable;

/** The checks of {@link TimeLimitOptions}. */
export const TIME_LIMIT_OPTIONS = { timeout: duration(1), gracePeriod: duration() } satisfies OptionTable;

/** The checks of {@link AdmissionOptions}. */
export const ADMISSION_OPTIONS = {
  ...QUEUED_OPTIONS,
  ...TIME_LIMIT_OPTIONS,
  delay: duration(),
  startAt: time,
} satisfies OptionTable;

/** Options that are left out, or are `undefined`. */
export type Maybe<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/**
 * @param where - the begin of the error
 * @throws TypeError when there is a key without a queue
 */
export function checkQueued({ queue, key }: Maybe<QueuedOptions>, where: string): void {
  if (key !== undefined && queue === undefined)
    throw new TypeError(`${where}: the option key needs the option queue, because a key counts within its queue`);
}

/**
 * @param where - the begin of the error
 * @throws TypeError when there is a grace period without a timeout
 */
export function checkTimeLimit({ timeout, gracePeriod }: Maybe<TimeLimitOptions>, where: string): void {
  if (gracePeriod !== undefined && timeout === undefined)
    throw new TypeError(
      `${where}: the option gracePeriod needs the option timeout, because it begins when that is over`,
    );
}

/**
 * Returns the queue, the start time and the time limit that checked options name; `undefined` if the instance runs at
 * once and has no limit.
 *
 * @param where - the begin of the error
 * @throws TypeError when the options do not fit together
 */
export function admissionOf(options: Maybe<AdmissionOptions>, where: string): Admission | undefined {
  const { queue, key, delay, startAt, timeout, gracePeriod } = options;
  checkQueued(options, where);
  checkTimeLimit(options, where);
  if (delay !== undefined && startAt !== undefined)
    throw new TypeError(`${where}: takes one of the options delay and startAt, not both`);
  const delayMs = delay === undefined ? 0 : parseDuration(delay, `${where}: delay`);
  if ([queue, startAt, timeout].every((option) => option === undefined) && delayMs === 0) return undefined;
  return {
    ...(queue === undefined ? {} : { queue }),
    ...(key === undefined ? {} : { key }),
    ...(delayMs === 0 ? {} : { delayMs }),
    ...(startAt === undefined ? {} : { startAtMs: timeOf(startAt, `${where}: startAt`) }),
    ...(timeout === undefined ? {} : { timeoutMs: parseDuration(timeout, `${where}: timeout`) }),
    ...(gracePeriod === undefined ? {} : { graceMs: parseDuration(gracePeriod, `${where}: gracePeriod`) }),
  };
}

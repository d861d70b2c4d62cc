// The queue and the start time of an instance, as options of its start.

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

/** When, and through which queue, an instance that is started comes to run. */
export interface AdmissionOptions extends QueuedOptions {
  /** Time until the instance runs, from its start on, by the clock of the store. Not together with `startAt`. */
  delay?: Duration;
  /** Time at which the instance runs, or comes into line in its queue. A time in the past is now. */
  startAt?: Date | string;
}

/** The checks of {@link QueuedOptions}. */
export const QUEUED_OPTIONS = { queue: named, key: named } satisfies OptionTable;

/** The checks of {@link AdmissionOptions}. */
export const ADMISSION_OPTIONS = { ...QUEUED_OPTIONS, delay: duration(), startAt: time } satisfies OptionTable;

/** Options that are left out, or are `undefined`. */
type Maybe<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/**
 * @param where - the begin of the error
 * @throws TypeError when there is a key without a queue
 */
export function checkQueued({ queue, key }: Maybe<QueuedOptions>, where: string): void {
  if (key !== undefined && queue === undefined)
    throw new TypeError(`${where}: the option key needs the option queue, because a key counts within its queue`);
}

/**
 * Returns the queue and the start time that checked options name; `undefined` if the instance runs at once.
 *
 * @param where - the begin of the error
 * @throws TypeError when the options do not fit together
 */
export function admissionOf(options: Maybe<AdmissionOptions>, where: string): Admission | undefined {
  const { queue, key, delay, startAt } = options;
  checkQueued(options, where);
  if (delay !== undefined && startAt !== undefined)
    throw new TypeError(`${where}: takes one of the options delay and startAt, not both`);
  const delayMs = delay === undefined ? 0 : parseDuration(delay, `${where}: delay`);
  if (queue === undefined && startAt === undefined && delayMs === 0) return undefined;
  return {
    ...(queue === undefined ? {} : { queue }),
    ...(key === undefined ? {} : { key }),
    ...(delayMs === 0 ? {} : { delayMs }),
    ...(startAt === undefined ? {} : { startAtMs: timeOf(startAt, `${where}: startAt`) }),
  };
}

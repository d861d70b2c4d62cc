// The options and last arguments of calls that start an instance.

import { type RetryOptions, retry } from '../activity/activity-options.ts';
import { named, type OptionTable, oneOf, priority, textsByName } from '../util/options.ts';
import { CHILD_CONFLICTS, CONFLICTS, type OnConflict } from '../values/conflicts.ts';
import { ADMISSION_OPTIONS, type AdmissionOptions } from './admission.ts';

/** Options of an instance that is started. */
export interface InstanceOptions extends AdmissionOptions {
  /**
   * Version of its orchestration. Default: the highest version that a runtime of this process has registered. If no
   * such runtime has that orchestration, the default is the newest version that any live worker of the store has. That
   * version is settled when a worker comes by the instance, and the worker may be started later.
   */
  version?: string;
  /** Instances of higher priority are taken first. Default 0. */
  priority?: number;
  /** Texts to find the instance by. */
  tags?: Readonly<Record<string, string>>;
}

/** The checks of {@link InstanceOptions}. */
export const INSTANCE_OPTIONS = {
  version: named,
  priority,
  tags: textsByName,
  ...ADMISSION_OPTIONS,
} satisfies OptionTable;

/** Options of a detached instance. */
export interface DetachedOptions extends InstanceOptions {
  /** Behaviour when the id is in use. Default `'error'`. An instance never replaces itself: that is an error. */
  onConflict?: OnConflict;
}

export const DETACHED_OPTIONS: OptionTable = { ...INSTANCE_OPTIONS, onConflict: oneOf(...CONFLICTS) };

/** Options of a detached instance that is started by its definition. */
export interface TypedDetachedOptions extends DetachedOptions {
  /** Its id. Default: a UUID. */
  id?: string;
}

export const TYPED_DETACHED_OPTIONS: OptionTable = { ...DETACHED_OPTIONS, id: named };

/** Options of a child. */
export interface ChildOptions extends InstanceOptions {
  /** The child's id. Default: the id of the parent, a slash, and a UUID. */
  id?: string;
  /**
   * Behaviour when the id is in use: see {@link OnConflict}. Default `'error'`. A child is always a new instance of its
   * parent, so an existing instance cannot be returned.
   */
  onConflict?: (typeof CHILD_CONFLICTS)[number];
  /**
   * Starts a child that failed again, with the same input, after a durable delay, until one completes or the attempts
   * are used up. The error of the last attempt is then thrown. `nonRetryable` and `retryOn` are compared with the error
   * of the child, which is the `cause` of the `SubOrchestrationError`. If that error reports a failed step of the
   * child, such as an `ActivityError`, they are compared with the error of the step, too. `NonRetryableError` and
   * `RetryAfterError` count as in an activity. A child that was cancelled, terminated or could not be started is not
   * retried, and neither is a child whose future or parent is being cancelled.
   *
   * Each attempt is an instance of its own, with its own history. With the id `x` of the first attempt, the next ones
   * have the ids `x~2`, `x~3` and so on: `~` is rare in ids, and needs no escape in a URL. The child starts when the
   * code waits next, in a fiber of its own, which counts towards `limits.fibers`. Each attempt is started in the
   * `queue` of the child. `delay` and `startAt` are those of the first attempt.
   *
   * Default: a child is not retried.
   */
  retry?: RetryOptions;
}

export const CHILD_OPTIONS: OptionTable = {
  ...INSTANCE_OPTIONS,
  id: named,
  onConflict: oneOf(...CHILD_CONFLICTS),
  retry,
};

/** The last arguments of a call. The input may be left out where it may be `undefined`. */
export type InputArguments<I, Options> = undefined extends I
  ? [input?: I, options?: Options]
  : [input: I, options?: Options];

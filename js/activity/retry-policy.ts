// Retry policies that the driver applies itself: those of children. The engine applies those of activities, in the same
// way (`crates/engine/src/activity.rs`).

import { kindOfError } from '../errors/errors.ts';
import { parseDuration } from '../util/duration.ts';
import { isInstance, property } from '../util/show.ts';
import { codesOf } from '../values/error-codes.ts';
import type { RetryOptions } from './activity-options.ts';

/** The defaults, which are those of the engine. */
const DEFAULTS = { maxAttempts: 3, initialInterval: 200, backoff: 2, maxInterval: 60_000, jitter: 0.2 } as const;

/** Longest delay that is ever computed, ms: a year, as in the engine. */
const DELAY_MAX_MS = 365 * 24 * 3_600_000;

/** The errors by which Perdure reports the failure of a step. Their cause is the error of the step itself. */
const STEP_ERRORS: readonly unknown[] = ['ActivityError', 'SubOrchestrationError', 'MapItemError', 'CompensationError'];

/** The policy of checked options. */
export class RetryPolicy {
  readonly maxAttempts: number;
  private readonly initialMs: number;
  private readonly backoff: number | 'linear';
  private readonly maxMs: number;
  private readonly jitter: number;
  private readonly nonRetryable: readonly string[];
  private readonly retryOn: readonly string[] | undefined;

  constructor(options: RetryOptions) {
    this.maxAttempts = options.maxAttempts ?? DEFAULTS.maxAttempts;
    this.initialMs = parseDuration(options.initialInterval ?? DEFAULTS.initialInterval, 'initialInterval');
    this.backoff = options.backoff ?? DEFAULTS.backoff;
    this.maxMs = parseDuration(options.maxInterval ?? DEFAULTS.maxInterval, 'maxInterval');
    this.jitter = options.jitter ?? DEFAULTS.jitter;
    this.nonRetryable = [...(options.nonRetryable ?? [])];
    this.retryOn = options.retryOn === undefined ? undefined : [...options.retryOn];
  }

  /**
   * Returns the delay in ms before the attempt that follows attempt number `attempt` (from 1), which failed with
   * `error`; `undefined` if no attempt follows.
   *
   * @param random - the random numbers of the instance; called only if there is jitter
   */
  delayAfter(attempt: number, error: Error, random: () => number): number | undefined {
    if (attempt >= this.maxAttempts) return undefined;
    const errors = errorsOfStep(error);
    if (errors.some((one) => kindOfError(one) === 'NonRetryableError') || !this.retries(errors)) return undefined;
    const told = errors.find((one) => kindOfError(one) === 'RetryAfterError');
    const toldMs = told === undefined ? undefined : property(told, 'retryAfterMs');
    if (typeof toldMs === 'number') return Math.min(Math.max(toldMs, 0), DELAY_MAX_MS);
    const { initialMs, backoff } = this;
    const grown = initialMs === 0 ? 0 : initialMs * (backoff === 'linear' ? attempt : backoff ** (attempt - 1));
    const spread = this.jitter === 0 ? 1 : 1 + this.jitter * (2 * random() - 1);
    return Math.round(Math.min(Math.min(grown, this.maxMs) * spread, DELAY_MAX_MS));
  }

  private retries(errors: readonly Error[]): boolean {
    const names = new Set(errors.flatMap((error) => [error.name, ...codesOf(error)]));
    if (this.nonRetryable.some((name) => names.has(name))) return false;
    return this.retryOn === undefined || this.retryOn.some((name) => names.has(name));
  }
}

/** Returns an error and, if it reports the failure of a step, the errors of that step. */
function errorsOfStep(error: Error): Error[] {
  const errors = [error];
  for (let at = error; STEP_ERRORS.includes(kindOfError(at)); ) {
    const { cause } = at;
    if (!isInstance(cause, Error)) break;
    errors.push(cause);
    at = cause;
  }
  return errors;
}

// One attempt of an activity: calls the function, applies the timeouts, reports the result.

import { NonRetryableError, RetryAfterError } from '../errors/errors.ts';
import type { Timer, Timers } from '../util/timers.ts';
import { fromPayload, toErrorPayload, toPayload } from '../values/payload.ts';
import { type ActivityFunction, isRefusal } from './activity.ts';
import {
  type ActivityContext,
  type ActivityJob,
  callBelow,
  type HeartbeatSink,
  placeOf,
  type TimeoutReason,
} from './activity-context.ts';

/** Receiver of the results of attempts. */
export interface ActivitySink extends HeartbeatSink {
  readonly timers: Timers;
  completeActivity(activity: number, output: string | null): void;
  /** `cause` is the value that was thrown. */
  failActivity(activity: number, failure: AttemptFailure, cause: unknown): void;
}

/** The failure of an attempt, as the engine takes it. */
export interface AttemptFailure {
  /** JSON of an `ErrorData`. */
  readonly error: string;
  /** The error's `name`. */
  readonly errorName: string;
  /** True if no other attempt follows. */
  readonly isNonRetryable: boolean;
  /** The delay before the next attempt, ms; `null`: as the retry policy says. */
  readonly retryAfterMs: number | null;
}

/** Runs one attempt. Never throws. Reports to `sink`, at once if the function is not asynchronous. */
export function runActivity(
  fn: ActivityFunction,
  job: ActivityJob,
  context: ActivityContext,
  sink: ActivitySink,
): void {
  if ((job.extras?.totalLeftMs ?? 1) <= 0) {
    timeOut(job, context, sink, 'totalTimeout');
    return;
  }
  let result: unknown;
  try {
    const { texts } = sink;
    const input = texts.isPlain(job.input) ? job.input : texts.read(job.input, 'input', placeOf(job, 'input'));
    result = callBelow(context, fn, fromPayload(input, 'input'));
  } catch (error) {
    failActivity(job, error, sink);
    return;
  }
  if (!isThenable(result)) {
    completeActivity(job, result, sink);
    return;
  }
  const limits = AttemptLimits.of(job, sink.timers, (reason) => timeOut(job, context, sink, reason));
  if (limits !== null) context.begin(limits);
  // Wrapped in a promise of our own: a thenable that throws or settles twice can do no harm.
  Promise.resolve(result).then(
    (output: unknown) => {
      context.end();
      completeActivity(job, output, sink);
    },
    (error: unknown) => {
      context.end();
      failActivity(job, error, sink);
    },
  );
}

/**
 * The timeouts of an attempt. An attempt that has not settled in time fails; its slot is free from then on, and its
 * later result is ignored.
 */
export class AttemptLimits {
  private readonly timer: Timer | undefined;
  private readonly silence: Timer | undefined;

  private constructor(job: ActivityJob, timers: Timers, onTimeout: (reason: TimeoutReason) => void) {
    const { timeoutMs, extras } = job;
    // Started runtimes keep the process alive. A timer that outlives them must not.
    const limit = (ms: number, reason: TimeoutReason): Timer => timers.after(ms, () => onTimeout(reason), false);
    const totalLeftMs = extras?.totalLeftMs ?? Number.POSITIVE_INFINITY;
    if (timeoutMs < totalLeftMs) this.timer = limit(timeoutMs, 'timeout');
    else if (extras?.totalLeftMs !== undefined) this.timer = limit(totalLeftMs, 'totalTimeout');
    if (extras?.heartbeatTimeoutMs !== undefined) this.silence = limit(extras.heartbeatTimeoutMs, 'heartbeatTimeout');
  }

  /** Returns `null` when the attempt has no time limit. */
  static of(job: ActivityJob, timers: Timers, onTimeout: (reason: TimeoutReason) => void): AttemptLimits | null {
    const { timeoutMs, extras } = job;
    const hasNone =
      timeoutMs === Number.POSITIVE_INFINITY &&
      extras?.totalLeftMs === undefined &&
      extras?.heartbeatTimeoutMs === undefined;
    return hasNone ? null : new AttemptLimits(job, timers, onTimeout);
  }

  /** Restarts the heartbeat timeout. */
  beat(): void {
    this.silence?.refresh();
  }

  clear(): void {
    this.timer?.clear();
    this.silence?.clear();
  }
}

/** Fails an attempt because a timeout is over. */
function timeOut(job: ActivityJob, context: ActivityContext, sink: ActivitySink, reason: TimeoutReason): void {
  context.abort(reason);
  // After the total timeout there is no time left for another attempt.
  failActivity(job, context.signal.reason, sink, reason === 'totalTimeout');
}

/** Reports that an attempt failed with `error`, which may be any thrown value. */
export function failActivity(job: ActivityJob, error: unknown, sink: ActivitySink, useless = false): void {
  const payload = toErrorPayload(error);
  const failure = {
    error: sink.texts.writeError(payload, placeOf(job, 'error')),
    errorName: (JSON.parse(payload) as { name: string }).name,
    isNonRetryable: useless || error instanceof NonRetryableError || isRefusal(error),
    retryAfterMs: error instanceof RetryAfterError ? error.retryAfterMs : null,
  };
  sink.failActivity(job.token, failure, error);
}

function completeActivity(job: ActivityJob, output: unknown, sink: ActivitySink): void {
  let payload: string | null;
  try {
    payload = toPayload(output, 'output', sink.limits);
  } catch (error) {
    // Not retried: the next attempt would return the same kind of value.
    failActivity(job, error, sink, true);
    return;
  }
  try {
    if (sink.texts.hasCodec) payload = sink.texts.write(payload, 'output', placeOf(job, 'output'));
  } catch (error) {
    failActivity(job, error, sink);
    return;
  }
  sink.completeActivity(job.token, payload);
}

function isThenable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  try {
    return typeof (value as { then?: unknown }).then === 'function';
  } catch {
    // The getter threw. Resolving a promise with the value reports that as a failure.
    return true;
  }
}

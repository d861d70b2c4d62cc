// One attempt of an activity: calls the function, applies the timeouts, reports the result.

import { kindOfError, PayloadError } from '../errors/errors.ts';
import { isInstance, property } from '../util/show.ts';
import type { Timers } from '../util/timers.ts';
import { codesOf } from '../values/error-codes.ts';
import type { ErrorData } from '../values/error-data.ts';
import { fromPayload, toErrorPayload, toPayload } from '../values/payload.ts';
import { type ActivityFunction, isRefusal, settlesLate } from './activity.ts';
import { type ActivityContext, callBelow, type ProgressSink, placeOf } from './activity-context.ts';
import type { ActivityJob, TimeoutReason } from './activity-job.ts';
import { AttemptLimits } from './attempt-limits.ts';

/** Receiver of the results of attempts. */
export interface ActivitySink extends ProgressSink {
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
  /** The codes of the error, for the retry policy. */
  readonly errorCodes: readonly string[];
  /** True if no other attempt follows. */
  readonly isNonRetryable: boolean;
  /** The delay before the next attempt, ms; `null`: as the retry policy says. */
  readonly retryAfterMs: number | null;
}

/** Returns the timeout that was over before the attempt could begin. */
export function timeoutBefore({ extras }: ActivityJob): TimeoutReason | null {
  if (extras?.scheduleToStartTimeoutMs !== undefined) return 'scheduleToStartTimeout';
  return (extras?.totalLeftMs ?? 1) <= 0 ? 'totalTimeout' : null;
}

/** Runs one attempt. Never throws. Reports to `sink`, at once if the function is not asynchronous. */
export function runActivity(
  fn: ActivityFunction,
  job: ActivityJob,
  context: ActivityContext,
  sink: ActivitySink,
): void {
  const isLate = settlesLate(fn);
  const onTimeout = (reason: TimeoutReason): void => {
    if (isLate) context.abort(reason);
    else timeOut(job, context, sink, reason);
  };
  const over = timeoutBefore(job);
  if (over !== null) {
    onTimeout(over);
    if (!isLate) return;
  }
  let result: unknown;
  try {
    const { texts } = sink;
    const input = texts.isPlain(job.input) ? job.input : texts.read(job.input, 'input', placeOf(job, 'input'));
    result = callBelow(context, fn, fromPayload(input, 'input', texts.types));
  } catch (error) {
    settle(job, context, sink, () => failActivity(job, error, sink), false);
    return;
  }
  if (!isThenable(result)) {
    settle(job, context, sink, () => completeActivity(job, result, sink));
    return;
  }
  const limits = AttemptLimits.of(job, sink.timers, onTimeout);
  if (limits !== null) context.begin(limits);
  // Wrapped in a promise of our own: a thenable that throws or settles twice can do no harm.
  Promise.resolve(result).then(
    (output: unknown) => {
      context.end();
      settle(job, context, sink, () => completeActivity(job, output, sink));
    },
    (error: unknown) => {
      context.end();
      settle(job, context, sink, () => failActivity(job, error, sink, context.isOutOfTime), false);
    },
  );
}

/**
 * Reports the end of an attempt after the last of its entries is stored. An attempt that `succeeded` fails if its
 * entries could not be stored, and its code was not told.
 */
function settle(
  job: ActivityJob,
  context: ActivityContext,
  sink: ActivitySink,
  report: () => void,
  succeeded = true,
): void {
  if (context.streams === null) return report();
  context.streams.finish().then((error) => {
    if (error === undefined || !succeeded) report();
    else failActivity(job, error, sink, kindOfError(error) === 'StreamClosedError');
  });
}

/** Fails an attempt because a timeout is over. */
function timeOut(job: ActivityJob, context: ActivityContext, sink: ActivitySink, reason: TimeoutReason): void {
  context.abort(reason);
  const fail = (): void => failActivity(job, context.signal.reason, sink, context.isOutOfTime);
  if (context.streams === null) fail();
  else context.streams.stop().then(fail);
}

/** Reports that an attempt failed with `error`, which may be any thrown value. */
export function failActivity(job: ActivityJob, error: unknown, sink: ActivitySink, useless = false): void {
  const payload = toErrorPayload(error, sink.texts.types);
  const data = JSON.parse(payload) as ErrorData;
  const failure = {
    error: sink.texts.writeError(payload, placeOf(job, 'error')),
    errorName: data.name,
    errorCodes: codesOf(data),
    isNonRetryable: useless || kindOfError(error) === 'NonRetryableError' || isRefusal(error),
    retryAfterMs: retryAfterOf(error),
  };
  sink.failActivity(job.token, failure, error);
}

function retryAfterOf(error: unknown): number | null {
  const ms = kindOfError(error) === 'RetryAfterError' ? property(error, 'retryAfterMs') : null;
  return typeof ms === 'number' ? ms : null;
}

function completeActivity(job: ActivityJob, output: unknown, sink: ActivitySink): void {
  let payload: string | null;
  try {
    payload = toPayload(output, 'output', sink.limits, sink.texts.types);
  } catch (error) {
    // Not retried: the function has run, and the next attempt would return the same kind of value.
    failActivity(job, afterEffects(error), sink, true);
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

/** Returns an error that also says that the function has run. */
function afterEffects(error: unknown): unknown {
  if (!isInstance(error, PayloadError)) return error;
  const { message, path, cause, stack } = error;
  const told = new PayloadError(`${message}. The activity has run, so what it did has happened; it is not retried`, {
    path,
    ...(cause === undefined ? {} : { cause }),
  });
  // Frames of an orchestration or of its source stay those of the first error.
  if (stack !== undefined) told.stack = stack.replace(message, told.message);
  return told;
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

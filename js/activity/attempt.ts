// One attempt of an activity on its way: called, limited, reported.

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

/** Where an attempt reports to. */
export interface ActivitySink extends HeartbeatSink {
  readonly timers: Timers;
  completeActivity(activity: number, output: string | null): void;
  /** `cause`: what was thrown. */
  failActivity(
    activity: number,
    error: string,
    errorName: string,
    nonRetryable: boolean,
    retryAfterMs: number,
    cause: unknown,
  ): void;
}

/** Run one attempt. Never throws; reports to `sink`, at once if the function is not asynchronous. */
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
  // Through a promise of our own: a thenable that throws or settles twice cannot do harm.
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

/** The times after which an attempt fails that has not settled. Its slot is free from then on, and what it still returns is ignored. */
export class AttemptLimits {
  private readonly timer: Timer | undefined;
  private readonly silence: Timer | undefined;

  private constructor(job: ActivityJob, timers: Timers, onTimeout: (reason: TimeoutReason) => void) {
    const { timeoutMs, extras } = job;
    // Started runtimes keep the process alive; what outlives them must not.
    const limit = (ms: number, reason: TimeoutReason): Timer => timers.after(ms, () => onTimeout(reason), false);
    const totalLeftMs = extras?.totalLeftMs ?? Number.POSITIVE_INFINITY;
    if (timeoutMs >= 0 && timeoutMs < totalLeftMs) this.timer = limit(timeoutMs, 'timeout');
    else if (extras?.totalLeftMs !== undefined) this.timer = limit(totalLeftMs, 'totalTimeout');
    if (extras?.heartbeatTimeoutMs !== undefined) this.silence = limit(extras.heartbeatTimeoutMs, 'heartbeatTimeout');
  }

  /** `null` when it may take as long as it likes. */
  static of(job: ActivityJob, timers: Timers, onTimeout: (reason: TimeoutReason) => void): AttemptLimits | null {
    const { timeoutMs, extras } = job;
    const hasNone = timeoutMs < 0 && extras?.totalLeftMs === undefined && extras?.heartbeatTimeoutMs === undefined;
    return hasNone ? null : new AttemptLimits(job, timers, onTimeout);
  }

  /** It has shown that it is alive. */
  beat(): void {
    this.silence?.refresh();
  }

  clear(): void {
    this.timer?.clear();
    this.silence?.clear();
  }
}

/** Fail an attempt because a time is up. */
function timeOut(job: ActivityJob, context: ActivityContext, sink: ActivitySink, reason: TimeoutReason): void {
  context.abort(reason);
  // Nothing is left of a total timeout for another attempt, by whatever clock.
  failActivity(job, context.signal.reason, sink, reason === 'totalTimeout');
}

/** Report that an attempt failed with `error`, whatever was thrown. */
export function failActivity(job: ActivityJob, error: unknown, sink: ActivitySink, useless = false): void {
  const nonRetryable = useless || error instanceof NonRetryableError || isRefusal(error);
  const retryAfterMs = error instanceof RetryAfterError ? error.retryAfterMs : -1;
  const payload = toErrorPayload(error);
  const { name } = JSON.parse(payload) as { name: string };
  sink.failActivity(
    job.token,
    sink.texts.writeError(payload, placeOf(job, 'error')),
    name,
    nonRetryable,
    retryAfterMs,
    error,
  );
}

function completeActivity(job: ActivityJob, output: unknown, sink: ActivitySink): void {
  let payload: string | null;
  try {
    payload = toPayload(output, 'output', sink.limits);
  } catch (error) {
    // The next attempt would return the same kind of thing.
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
    // A getter that throws: resolving a promise with the value reports it as a failure.
    return true;
  }
}

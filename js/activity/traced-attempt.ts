// A traced attempt of an activity: its function runs in a span, which ends with the attempt.

import type { AttemptSpan, Segment, Telemetry } from '../tracing/telemetry-hooks.ts';
import type { Timers } from '../util/timers.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { type ActivityFunction, settleLate, settlesLate } from './activity.ts';
import type { ActivityContext } from './activity-context.ts';
import type { ActivityJob } from './activity-job.ts';
import { type ActivitySink, runActivity } from './attempt.ts';

/** Ends the span of an attempt with the reported result. */
class TracedSink implements ActivitySink {
  readonly texts: StoredTexts;
  readonly timers: Timers;
  readonly limits: Required<RuntimeLimits>;
  private readonly sink: ActivitySink;
  private readonly span: AttemptSpan;

  constructor(sink: ActivitySink, span: AttemptSpan) {
    this.texts = sink.texts;
    this.timers = sink.timers;
    this.limits = sink.limits;
    this.sink = sink;
    this.span = span;
  }

  heartbeat(activity: number, details: string): void {
    this.sink.heartbeat(activity, details);
  }

  append(...append: Parameters<ActivitySink['append']>): ReturnType<ActivitySink['append']> {
    return this.sink.append(...append);
  }

  completeActivity(activity: number, output: string | null): void {
    this.span.completed();
    this.sink.completeActivity(activity, output);
  }

  failActivity(...failure: Parameters<ActivitySink['failActivity']>): void {
    this.span.failed(failure.at(-1));
    this.sink.failActivity(...failure);
  }
}

/**
 * Runs one attempt as {@link runActivity} does, in a span. The span's parent is `segment`, if that is in memory, or
 * else the context in which the activity was scheduled.
 */
export function runTraced(
  fn: ActivityFunction,
  job: ActivityJob,
  context: ActivityContext,
  sink: ActivitySink,
  telemetry: Telemetry,
  segment: Segment | null,
): void {
  const { instanceId, executionId, orchestrationName, name, attempt, extras } = job;
  const isInline = extras?.inline !== undefined;
  const isBorrowed = extras?.trace !== undefined && extras.owner === undefined;
  const facts = {
    instanceId,
    executionId,
    orchestrationName,
    activityName: name,
    attempt,
    queue: context.queue,
    isInline,
    isBorrowed,
  };
  const span = telemetry.attempt(facts, segment ?? extras?.trace ?? null);
  // An aborted attempt may never settle, so its span ends here.
  context.signal.addEventListener('abort', () => span.failed(context.signal.reason), { once: true });
  const inSpan: ActivityFunction = (below, input) => span.run(() => fn(below, input));
  if (settlesLate(fn)) settleLate(inSpan);
  runActivity(inSpan, job, context, new TracedSink(sink, span));
}

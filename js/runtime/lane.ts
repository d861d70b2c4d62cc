// A lane: the loop on a JavaScript thread that takes jobs from the addon and runs user code for them.
//
// Invariants:
//
//   L1. At most one drain runs at a time, and at most one is scheduled.
//   L2. A drain gives the event loop back when its slice is used up. A slice spans the drains that follow each other
//       without a round of the event loop in between, so activities that settle at once cannot block the event loop
//       either.
//   L3. No job throws out of the drain. A failure in a job is reported and ends that job alone.
//   L4. Between drains the lane is parked (`nextJob` returned null), or a drain is scheduled. No wake is lost: the
//       addon wakes a parked lane, and a call that un-parks it says so. A lane that has other lanes beside it and ran
//       dry looks again a few times before it parks: the jobs that other lanes bring often arrive before a wake would.
//       A lane without others waits for the store, which takes longer.

import type { ActivityFunction } from '../activity/activity.ts';
import { ActivityContext, type ActivityHost } from '../activity/activity-context.ts';
import type { ActivityJob } from '../activity/activity-job.ts';
import {
  type ActivitySink,
  type AttemptFailure,
  failActivity,
  runActivity,
  timeoutBefore,
} from '../activity/attempt.ts';
import type { Appended, StreamAppend } from '../activity/attempt-streams.ts';
import { runTraced } from '../activity/traced-attempt.ts';
import type { InstanceDescription } from '../binding/answers.ts';
import { NativeEngine } from '../binding/engine.ts';
import {
  ABORT,
  ACTIVITY,
  DROP,
  ENDED,
  type EndState,
  LOG,
  type LogJob,
  type NativeJob,
  TURN,
} from '../binding/jobs.ts';
import type { NativeLane } from '../binding/lane.ts';
import { Client } from '../client/client.ts';
import { NotRegisteredError, RuntimeStateError } from '../errors/errors.ts';
import type { RunnableOrchestration } from '../orchestration/definition.ts';
import type { OrchestrationHost } from '../orchestration/orchestration-host.ts';
import type { TestDoubles } from '../store/test-doubles.ts';
import type { Telemetry } from '../tracing/telemetry-hooks.ts';
import { NODE_TIMERS, type Timers } from '../util/timers.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { Instance, reportOf, type TurnEnd } from './instance.ts';
import { TracedEngine } from './traced-engine.ts';

/** The end or the suspension of an execution here. */
export interface InstanceEvent {
  readonly instanceId: string;
  readonly executionId: number;
  /** Name of the orchestration. */
  readonly name: string;
  readonly version: string;
  readonly status: EndState;
}

/** The services of its runtime that a lane needs. */
export interface LaneHost extends ActivityHost, OrchestrationHost {
  /** Converts texts on their way to the store and back. */
  readonly texts: StoredTexts;
  /** Replaces parts of this process in a test; `null` outside of tests. */
  readonly testDoubles: TestDoubles | null;
  /** Time after which a drain yields to the event loop, ms. */
  readonly turnSliceMs: number;
  /** The most times that a lane that ran dry looks again before it parks. */
  readonly looksMax: number;
  /** Traces the work of the lane, if there is one. */
  readonly telemetry: Telemetry | undefined;
  activityFunction(name: string): ActivityFunction | undefined;
  /** Returns names that `name` may be a misspelling of. */
  activitiesLike(name: string): string[];
  orchestration(name: string, version: string): RunnableOrchestration | undefined;
  /** Logs a line from the addon: of an orchestration, or (`isInternal`) of the runtime itself. */
  logLine(line: LogJob): void;
  /** Called when an instance has ended or was suspended, and that is durable. */
  instanceEnded(event: InstanceEvent): void;
  /** Reports an error that is not a failure of user code. */
  report(error: unknown, what: string): void;
}

/** The function of an attempt that does not run. */
const neverCalled: ActivityFunction = () => undefined;

// Captured at import: later changes by user code, a determinism guard or a test's fake timers must not reach the loop.
const now = performance.now.bind(performance);
const inNextRound = setImmediate;

export class Lane implements ActivitySink {
  readonly texts: StoredTexts;
  readonly limits: Required<RuntimeLimits>;
  readonly timers: Timers;
  private readonly native: NativeLane;
  private readonly host: LaneHost;
  private readonly instances = new Map<number, Instance>();
  /** Engines of the instances that are traced. */
  private readonly traced = new Map<number, TracedEngine>();
  /** Attempts that have not settled and were not told to stop. */
  private readonly activities = new Map<number, ActivityContext>();
  private isDraining = false;
  private isScheduled = false;
  private isOpen = false;
  private isWoken = false;
  private isClosed = false;
  private sliceStart = 0;
  /** Looks in a row that found nothing. */
  private looks = 0;
  /** True while another look is scheduled. */
  private isLooking = false;

  constructor(native: NativeLane, host: LaneHost) {
    this.native = native;
    this.host = host;
    this.texts = host.texts;
    this.limits = host.limits;
    this.timers = host.testDoubles?.timers ?? NODE_TIMERS;
  }

  /** Called by the addon when it has jobs for a parked lane. */
  readonly wake = (): void => {
    this.isWoken = true;
    if (!this.isOpen) return;
    this.sliceStart = now();
    this.drain();
  };

  /** Starts to take jobs. The facts of the runtime that jobs need are known from now on. */
  open(): void {
    this.isOpen = true;
    if (this.isWoken) this.wake();
  }

  /** Hands on the log lines and the ends of instances that came before the runtime was shut down. */
  handOnReports(): void {
    for (let job = this.native.nextJob(false); job !== null; job = this.native.nextJob(false)) {
      if (job.kind === LOG || job.kind === ENDED) this.run(job);
    }
  }

  /** Drops everything, because the runtime is over. Attempts that still run are told to stop. */
  close(): void {
    this.isClosed = true;
    for (const token of this.instances.keys()) this.drop(token);
    // Their `ABORT` jobs may still wait in the queue, which is no longer drained.
    for (const context of this.activities.values()) context.abort('shutdown');
    this.activities.clear();
  }

  get sizes(): { instances: number; activities: number } {
    return { instances: this.instances.size, activities: this.activities.size };
  }

  heartbeat(activity: number, details: string): void {
    if (!this.isClosed) this.native.heartbeat(activity, details);
  }

  async append(activity: number, { stream, entries, count, begins, keep }: StreamAppend): Promise<Appended> {
    if (this.isClosed) return 'refused';
    const { runtime } = this.native;
    const request = { kind: 'append', runtime, activity, stream, count, begins, ...keep } as const;
    return (await Client.append(this.host.client, request, entries)) as Appended;
  }

  completeActivity(activity: number, output: string | null): void {
    this.activities.delete(activity);
    if (this.isClosed) return;
    try {
      if (this.native.completeActivity(activity, output) || this.isLooking) this.drainSoon();
    } catch (error) {
      this.host.report(error, 'the result of an activity could not be reported to the runtime');
    }
  }

  failActivity(activity: number, failure: AttemptFailure): void {
    this.activities.delete(activity);
    if (this.isClosed) return;
    try {
      const mustDrain = this.native.failActivity(activity, failure);
      if (mustDrain || this.isLooking) this.drainSoon();
    } catch (cause) {
      this.host.report(cause, 'the failure of an activity could not be reported to the runtime');
    }
  }

  private drainSoon(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    queueMicrotask(this.scheduled);
  }

  /** Schedules another look, after a round of the event loop. */
  private lookSoon(): void {
    this.looks += 1;
    if (this.isLooking) return;
    this.isLooking = true;
    inNextRound(this.look);
  }

  private readonly look = (): void => {
    this.isLooking = false;
    this.sliceStart = now();
    this.drain();
  };

  private readonly scheduled = (): void => {
    this.isScheduled = false;
    this.drain();
  };

  private readonly nextSlice = (): void => {
    this.isScheduled = false;
    this.sliceStart = now();
    this.drain();
  };

  private drain(): void {
    // A drain that is scheduled already takes the jobs that are there.
    if (this.isDraining || this.isScheduled || this.isClosed) return;
    this.isDraining = true;
    const { native, host } = this;
    try {
      for (;;) {
        if (now() - this.sliceStart >= host.turnSliceMs) {
          this.isScheduled = true;
          // From here on no job of this lane holds the thread.
          native.pause();
          inNextRound(this.nextSlice);
          return;
        }
        const looksAgain = this.looks < host.looksMax;
        const job = native.nextJob(looksAgain);
        if (this.isClosed) return;
        if (job === null) {
          if (looksAgain) this.lookSoon();
          return;
        }
        this.looks = 0;
        try {
          this.run(job);
        } catch (error) {
          host.report(error, 'a job failed');
        }
      }
    } catch (error) {
      host.report(error, 'the next job could not be taken from the queue');
    } finally {
      this.isDraining = false;
    }
  }

  private run(job: NativeJob): void {
    switch (job.kind) {
      case TURN:
        this.turn(job.token);
        return;
      case ACTIVITY:
        this.attempt(job);
        return;
      case ABORT: {
        const context = this.activities.get(job.token);
        this.activities.delete(job.token);
        context?.abort(job.reason);
        return;
      }
      case DROP:
        this.drop(job.token);
        return;
      case LOG:
        this.host.logLine(job);
        return;
      case ENDED: {
        const { kind: _, ...event } = job;
        this.host.instanceEnded(event);
        return;
      }
      default:
        job satisfies never;
    }
  }

  private attempt(job: ActivityJob): void {
    const inline = job.extras?.inline;
    const own =
      inline === undefined
        ? this.host.activityFunction(job.name)
        : this.instances.get(inline)?.inlineFunction(job.operation);
    const called = this.host.testDoubles === null ? own : this.host.testDoubles.functionFor(job, own);
    // An attempt that has waited for too long in the store may be of any activity.
    const isOver = inline === undefined && timeoutBefore(job) !== null;
    const fn = called ?? (isOver ? neverCalled : undefined);
    if (fn === undefined) {
      if (inline === undefined) failActivity(job, this.unknownActivity(job.name), this, true);
      // The instance has just left this worker, and its attempts with it: no caller receives this error.
      else
        failActivity(
          job,
          new RuntimeStateError(
            `inline activity '${job.name}' has no function: its orchestration is no longer in memory`,
          ),
          this,
        );
      return;
    }
    const context = new ActivityContext(job, this.host, this);
    this.activities.set(job.token, context);
    const { telemetry } = this.host;
    if (telemetry === undefined) return runActivity(fn, job, context, this);
    const owner = job.extras?.owner;
    const segment = owner === undefined ? null : (this.traced.get(owner)?.segment ?? null);
    runTraced(fn, job, context, this, telemetry, segment);
  }

  private turn(token: number): void {
    const instance = this.instances.get(token) ?? this.load(token);
    if (instance === undefined) return;
    let end: TurnEnd;
    try {
      const traced = this.traced.get(token);
      end = traced === undefined ? instance.turn() : traced.turn(() => instance.turn());
    } catch (error) {
      // An error of Perdure itself: the fibers keep the errors of user code, and a mismatch does not throw. The
      // instance stays as it is stored, for inspection.
      this.drop(token);
      this.host.report(error, `the turn of instance '${instance.facts.instanceId}' failed`);
      this.giveUp(token, `internal error: ${error instanceof Error ? error.stack : String(error)}`);
      return;
    }
    if (end !== 'waiting') this.drop(token);
  }

  private load(token: number): Instance | undefined {
    const { telemetry } = this.host;
    const engine =
      telemetry === undefined
        ? new NativeEngine(this.native, token, this.texts)
        : new TracedEngine(this.native, token, this.texts, telemetry);
    let description: InstanceDescription;
    try {
      description = engine.describe();
    } catch (error) {
      const report = reportOf(error);
      if (report === null) throw error;
      this.giveUp(token, '', report);
      return undefined;
    }
    const { name, version } = description;
    const orchestration = this.host.orchestration(name, version);
    if (orchestration === undefined) {
      this.host.report(
        new RuntimeStateError(`orchestration '${name}' ${version} is not registered here`),
        'an instance cannot run on this runtime',
      );
      this.giveUp(token, `orchestration '${name}' ${version} is not registered in this runtime`);
      return undefined;
    }
    const instance = new Instance(engine, description, orchestration, this.host);
    this.instances.set(token, instance);
    if (engine instanceof TracedEngine) this.traced.set(token, engine);
    return instance;
  }

  private drop(token: number): void {
    this.instances.get(token)?.release();
    this.instances.delete(token);
    this.traced.get(token)?.release();
    this.traced.delete(token);
  }

  private giveUp(token: number, why: string, report: string | null = null): void {
    try {
      this.native.calls.suspend(token, why, report);
    } catch (error) {
      this.host.report(error, 'an instance could not be suspended');
    }
  }

  private unknownActivity(name: string): NotRegisteredError {
    const [near] = this.host.activitiesLike(name);
    const hint = near === undefined ? '' : `; did you mean '${near}'?`;
    return new NotRegisteredError(`activity '${name}' is not registered in this runtime${hint}`, {
      kind: 'activity',
      missing: name,
    });
  }
}

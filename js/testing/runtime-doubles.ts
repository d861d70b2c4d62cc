// The parts of a process that a test runtime replaces: the calls of the addon, each of which lets time go on, and a
// record of the waits of clients.

import type { ActivityFunction } from '../activity/activity.ts';
import { type ActivityContext, currentActivity } from '../activity/activity-context.ts';
import type { ActivityJob } from '../activity/activity-job.ts';
import type { AttemptFailure } from '../activity/attempt.ts';
import { ABORT } from '../binding/jobs.ts';
import type { NativeLane } from '../binding/lane.ts';
import type { NativeStore } from '../binding/native-classes.ts';
import type { StoreRequest } from '../binding/store.ts';
import type { TestDoubles } from '../store/test-doubles.ts';
import type { TestActivities } from './test-activities.ts';
import type { TestSchedules } from './test-schedules.ts';
import type { TestTime } from './test-time.ts';

/** A wait of a client for the end, a change or an answer of an instance. */
export interface Wait {
  readonly request: number;
  readonly instanceId: string;
  /** The activity that waits, if the client is used in one. */
  readonly activity: ActivityContext | undefined;
}

/** The kinds of requests that wait for an instance. */
const WAITS = ['waitForEnd', 'waitForStatusChange', 'waitForStateChange', 'waitForEntry', 'ask'] as const;

type WaitRequest = Extract<StoreRequest, { readonly kind: (typeof WAITS)[number] }>;

function isWait(request: StoreRequest): request is WaitRequest {
  return (WAITS as readonly string[]).includes(request.kind);
}

/** A time longer than any test lasts, by any clock: 1 000 years. */
const FOR_EVER_MS = 1_000 * 365 * 86_400_000;

export class RuntimeDoubles implements TestDoubles {
  readonly timers: TestTime;
  /** A leap of the clock costs no lease, and an instance keeps its place however long it sleeps. */
  readonly runtime = { leaseMs: FOR_EVER_MS, turnDeadlineMs: FOR_EVER_MS, holdTimerMs: FOR_EVER_MS };
  private readonly activities: TestActivities;
  private readonly schedules: TestSchedules;
  private readonly begun = new Map<number, Wait>();
  private readonly isOpen: (request: number) => boolean;
  private readonly crash: () => void;

  constructor(
    time: TestTime,
    activities: TestActivities,
    schedules: TestSchedules,
    isOpen: (request: number) => boolean,
    crash: () => void,
  ) {
    this.timers = time;
    this.activities = activities;
    this.schedules = schedules;
    this.isOpen = isOpen;
    this.crash = crash;
  }

  /** Returns the waits that are not over. */
  waits(): Wait[] {
    for (const request of this.begun.keys()) {
      if (!this.isOpen(request)) this.begun.delete(request);
    }
    return [...this.begun.values()];
  }

  store(native: NativeStore): NativeStore {
    const ask = native.ask.bind(native);
    return Object.assign(native, {
      ask: (request: number, question: string, value: string | null) => {
        const asked = JSON.parse(question) as StoreRequest;
        if (isWait(asked)) {
          this.begun.set(request, { request, instanceId: asked.id, activity: currentActivity() });
        }
        this.schedules.request(request, () => ask(request, question, value));
      },
    });
  }

  requested(): void {
    this.timers.stir();
  }

  lane(native: NativeLane): NativeLane {
    const nextJob = native.nextJob.bind(native);
    const completeActivity = native.completeActivity.bind(native);
    const failActivity = native.failActivity.bind(native);
    const heartbeat = native.heartbeat.bind(native);
    return Object.assign(native, {
      nextJob: (looksAgain: boolean) => {
        const job = nextJob(looksAgain);
        if (job === null) this.timers.stir();
        else if (job.kind === ABORT) this.activities.over(job.token);
        return job;
      },
      completeActivity: (activity: number, output: string | null) => {
        this.ended(activity);
        return completeActivity(activity, output);
      },
      failActivity: (activity: number, failure: AttemptFailure) => {
        this.ended(activity);
        return failActivity(activity, failure);
      },
      heartbeat: (activity: number, details: string) => {
        heartbeat(activity, details);
        this.timers.stir();
      },
    });
  }

  functionFor(job: ActivityJob, fn: ActivityFunction | undefined): ActivityFunction | undefined {
    return this.activities.functionFor(job, fn);
  }

  private ended(activity: number): void {
    // The worker crashes before it takes the result.
    if (this.activities.ended(activity)) this.crash();
    this.timers.stir();
  }
}

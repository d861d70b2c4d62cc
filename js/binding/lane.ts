// A lane of a runtime, for its thread.

import type { AttemptFailure } from '../activity/attempt.ts';
import { addon } from './addon.ts';
import { type RawLane, type TurnCalls, turnCalls } from './calls.ts';
import { Frame } from './frame.ts';
import { decodeJob, type NativeJob } from './jobs.ts';
import { guard } from './native-error.ts';

/** A lane of a runtime. `instance` and `activity` are tokens of jobs. */
export class NativeLane {
  /** The frame in which the calls and answers of this lane cross. */
  readonly frame = new Frame();
  /** Number of the runtime in its process. */
  readonly runtime: number;
  /** The calls of the turns of its instances. */
  readonly calls: TurnCalls;
  private readonly native: RawLane;
  private readonly takeJob: (looksAgain: boolean) => string | null;
  private readonly complete: (activity: number, output: string | null) => boolean;
  private readonly fail: RawLane['failActivity'];

  /** @param runtime - number of the runtime, which belongs to this process */
  constructor(runtime: number, lane: number) {
    this.runtime = runtime;
    this.native = new addon.NativeLane(runtime, lane, this.frame.numbers);
    const { nextJob, completeActivity, ...functions } = this.native.eachStep();
    this.takeJob = guard(nextJob);
    this.complete = guard(completeActivity);
    this.fail = guard(this.native.failActivity.bind(this.native));
    this.calls = turnCalls(this.native, functions);
  }

  /** Starts to take jobs, on a lane other than the first. `warns`: true if a warning may be written to stderr. */
  attach(wake: () => void, warns: boolean): void {
    this.native.attach(wake, warns);
  }

  /**
   * Returns the next job. `null`: there is none. The lane is then parked and `wake` will be called, unless `looksAgain`
   * says that the lane polls again soon.
   */
  nextJob(looksAgain: boolean): NativeJob | null {
    const text = this.takeJob(looksAgain);
    return text === null ? null : decodeJob(text, this.frame);
  }

  /** Reports that the event loop gets its turn before the next job is taken. */
  pause(): void {
    this.native.pause();
  }

  /** Records a heartbeat. `details` is codec text. */
  heartbeat(activity: number, details: string): void {
    this.native.heartbeat(activity, details);
  }

  /**
   * Hands over the result of an attempt. Returns true if the lane was parked and has work now: a drain must be
   * scheduled.
   */
  completeActivity(activity: number, output: string | null): boolean {
    return this.complete(activity, output);
  }

  /** Hands over the failure of an attempt. Returns the same as `completeActivity`. */
  failActivity(activity: number, failure: AttemptFailure): boolean {
    const { error, errorName, errorCodes, isNonRetryable, retryAfterMs } = failure;
    return this.fail(activity, error, errorName, errorCodes, isNonRetryable, retryAfterMs);
  }
}

/**
 * Returns a lane of a runtime of this process, by the numbers of both. Lane 0 is that of the thread that made the
 * runtime.
 */
export const laneOf = guard((runtime: number, lane: number): NativeLane => new NativeLane(runtime, lane));

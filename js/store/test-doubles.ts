// Test doubles: the parts that a test puts in place of a process's own, for a store and everything that uses it. See
// testing/runtime-doubles.ts.

import type { ActivityFunction } from '../activity/activity.ts';
import type { ActivityJob } from '../activity/activity-job.ts';
import type { NativeLane } from '../binding/lane.ts';
import type { NativeStore } from '../binding/native-classes.ts';
import type { NativeRuntimeOptions } from '../binding/runtime.ts';
import type { Timers } from '../util/timers.ts';

export interface TestDoubles {
  readonly timers: Timers;
  /** Runtime options that override those of the runtime's user. */
  readonly runtime: Partial<NativeRuntimeOptions>;
  /** Returns the store through which requests are made. */
  store(native: NativeStore): NativeStore;
  /** Called after each request to the store. */
  requested(): void;
  /** Returns the lane that the lane's loop uses. */
  lane(native: NativeLane): NativeLane;
  /**
   * Returns the function to call for an attempt, in place of the registered function or of the one that was passed
   * inline.
   */
  functionFor(job: ActivityJob, fn: ActivityFunction | undefined): ActivityFunction | undefined;
}

// A stage: what a test puts in place of what a process has, on a store and in all that uses it. See test-runtime.ts.

import type { ActivityFunction } from '../activity/activity.ts';
import type { ActivityJob } from '../activity/activity-context.ts';
import type { NativeLane, NativeRuntimeOptions, NativeStore } from '../binding/binding.ts';
import type { Timers } from '../util/timers.ts';

export interface Stage {
  readonly timers: Timers;
  /** Options of a runtime that are other than its user says. */
  readonly runtime: Partial<NativeRuntimeOptions>;
  /** The store, as requests are made of it. */
  store(native: NativeStore): NativeStore;
  /** A request was made of the store. */
  requested(): void;
  /** The lane, as its loop sees it. */
  lane(native: NativeLane): NativeLane;
  /** What is called for an attempt in place of what is registered, or was handed over with it. */
  played(job: ActivityJob, fn: ActivityFunction | undefined): ActivityFunction | undefined;
}

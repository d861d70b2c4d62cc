// Internals for the tests and the benchmark of this package only: sizes of the maps, and the driver by itself.

import type { NativeMapSizes } from '../binding/native-classes.ts';
import { stateCount } from '../driver/state.ts';
import { customStatusCount } from '../driver/status.ts';
import { traceCount } from '../tracing/trace.ts';
import { Runtime } from './runtime.ts';

export { Instance } from './instance.ts';

/** Entries of the maps keyed by instance, over all runtimes of this thread. */
export function keyedMapSizes(): { customStatus: number; state: number; trace: number } {
  return { customStatus: customStatusCount(), state: stateCount(), trace: traceCount() };
}

/** Returns the number of entries that a runtime holds in memory, on this side and in the addon. */
export function runtimeSizes(runtime: Runtime): { native: NativeMapSizes; instances: number; activities: number } {
  return Runtime.sizesOf(runtime);
}

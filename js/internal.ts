// For tests of this package only: what is kept where.

import { Runtime } from './runtime.ts';
import { customStatusCount } from './status.ts';
import { traceCount } from './trace.ts';

/** Entries of the maps keyed by instance, over all runtimes of this thread. */
export function keyedMapSizes(): { customStatus: number; trace: number } {
  return { customStatus: customStatusCount(), trace: traceCount() };
}

/** What a runtime holds in memory, on this side and in the addon. */
export function runtimeSizes(runtime: Runtime): ReturnType<typeof Runtime.sizesOf> {
  return Runtime.sizesOf(runtime);
}

// The scheduler of the instance whose code runs now.

import { currentFiber } from './current.ts';
import type { FiberScheduler } from './scheduler.ts';

/** Returns the scheduler of the fiber whose code is running; `null` if none is. */
export function currentScheduler(): FiberScheduler | null {
  // Only a scheduler makes fibers.
  return (currentFiber()?.scheduler ?? null) as FiberScheduler | null;
}

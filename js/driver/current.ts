// The slot that says which fiber runs now.
//
// Why this is safe without AsyncLocalStorage: user code of an orchestration runs only between `enter` and `leave`, both
// of which `Fiber.advance` calls, and a generator gives control back synchronously, by yielding or ending. JavaScript
// does not preempt, so between the two no other fiber can start: fibers are advanced by a scheduler's `runReady`, which
// runs inside a turn, and a turn is a job of a lane's drain, which does not run inside itself. At most one fiber is
// therefore between `enter` and `leave`, whatever number of instances, lanes and runtimes there are in the thread; each
// worker thread has a module instance, and so a slot, of its own.
//
// How it fails: code that keeps a context and calls it later (in a promise callback, a timer, an activity) finds the
// slot empty or taken by a fiber of another instance. Both are noticed, because every context compares the slot with
// its own scheduler, and give an error that says what happened; neither can act on the wrong instance.
//
// A codec, which belongs to the store and not to the orchestration, runs apart from fibers: it has the real clock and randomness.

import { setRunning, whatRuns } from '../util/running.ts';
import type { Fiber } from './fiber.ts';

/** The fiber whose code is running, if one is. */
export function currentFiber(): Fiber<unknown> | null {
  return whatRuns() as Fiber<unknown> | null;
}

/** A fiber's code is about to run. */
export function enter(fiber: Fiber<unknown>): void {
  if (whatRuns() !== null) throw new Error('a fiber was advanced inside another one: this is a bug in Perdure');
  setRunning(fiber);
}

/** The fiber's code has given control back. */
export function leave(): void {
  setRunning(null);
}

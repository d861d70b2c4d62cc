// The slot that holds the fiber that runs now.
//
// Why this is safe without AsyncLocalStorage: user code of an orchestration runs only between `enter` and `leave`, both
// of which `Fiber.advance` calls, and a generator gives control back synchronously, by yielding or ending. JavaScript
// does not preempt, so no other fiber can start between the two. Fibers are advanced by a scheduler's `runReady`, which
// runs inside a turn. A turn is a job of a lane's drain, which does not run inside itself. At most one fiber is
// therefore between `enter` and `leave`, with any number of instances, lanes and runtimes in the thread. Each worker
// thread has its own module instance, and so its own slot.
//
// How it fails: code that keeps a context and calls it later (in a promise callback, a timer, an activity) finds the
// slot empty or taken by a fiber of another instance. Both are noticed, because every context compares the slot with
// its own scheduler. Both give an error that says what happened, and neither can act on the wrong instance.
//
// A codec belongs to the store and not to the orchestration, so it runs apart from fibers: it has the real clock and
// randomness.

import { runningWork, setRunning } from '../util/running.ts';
import type { Fiber } from './fiber.ts';

/** Returns the fiber whose code is running; `null` if none is. */
export function currentFiber(): Fiber<unknown> | null {
  return runningWork() as Fiber<unknown> | null;
}

/** Puts a fiber into the slot: its code is about to run. */
export function enter(fiber: Fiber<unknown>): void {
  if (runningWork() !== null) throw new Error('a fiber was advanced inside another one: this is a bug in Perdure');
  setRunning(fiber);
}

/** Empties the slot: the fiber's code has given control back. */
export function leave(): void {
  setRunning(null);
}

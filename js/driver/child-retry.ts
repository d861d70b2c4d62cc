// A child with a retry policy: a fiber that starts the child, and after a failure and a delay the next attempt, an
// instance of its own.

import type { RetryPolicy } from '../activity/retry-policy.ts';
import type { SubOrchestrationError } from '../errors/errors.ts';
import { currentFiber } from './current.ts';
import type { Fiber } from './fiber.ts';
import type { Future } from './future.ts';
import type { TimerFuture } from './operation.ts';
import type { ChildFuture } from './other-instances.ts';
import type { FiberScheduler } from './scheduler.ts';

/** A child whose failed attempts are followed by others. */
export interface RetriedChild<T> {
  /** Name of its orchestration. */
  readonly name: string;
  /** Id of the first attempt. */
  readonly id: string;
  readonly policy: RetryPolicy;
  start(id: string): ChildFuture<T>;
  sleep(delayMs: number): TimerFuture;
}

/** Returns the id of an attempt, from 1: that of the first one, followed by `~2` and so on. */
export function idOfAttempt(id: string, attempt: number): string {
  return attempt === 1 ? id : `${id}~${attempt}`;
}

/** Runs a child until an attempt completes, or no attempt is left, in a fiber of its own. */
export function retriedChild<T>(scheduler: FiberScheduler, call: RetriedChild<T>): Fiber<T> {
  return scheduler.spawn(function* retriedChild(): Generator<Future<unknown>, T, any> {
    const fiber = currentFiber() as Fiber<unknown>;
    for (let attempt = 1; ; attempt += 1) {
      fiber.label = `attempt ${attempt} of child '${call.name}'`;
      const child = call.start(idOfAttempt(call.id, attempt));
      try {
        return yield child as Future<unknown>;
      } catch (error) {
        // A child that was cancelled, terminated or not started has not failed, nor has one whose parent is cancelled.
        if (!child.hasFailed || fiber.isTold) throw error;
        const cause = (error as SubOrchestrationError).cause as Error;
        const delayMs = call.policy.delayAfter(attempt, cause, () => scheduler.port.random());
        if (delayMs === undefined) throw error;
        yield call.sleep(delayMs) as Future<unknown>;
      }
    }
  });
}

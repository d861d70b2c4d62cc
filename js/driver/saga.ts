// saga: a block of steps with compensations, which run in reverse order if the block fails or is cancelled.
//
// Compensation begins when nothing of the block goes on any more: its fibers are cancelled, and the activities and
// children that run come to their ends first (S11 of scheduler.ts). So a compensation never runs beside the step that
// it undoes.

import { CancelledError, CompensationError, DeterminismError } from '../errors/errors.ts';
import { currentFiber } from './current.ts';
import type { Fiber } from './fiber.ts';
import { BaseFuture, type Future } from './future.ts';
import { claim, describeValue, isGenerator } from './generator.ts';
import type { FiberScheduler } from './scheduler.ts';

type Steps<T> = Generator<Future<unknown>, T, any>;
type Compensation = () => unknown;

/** Runs a saga in a fiber of its own. */
export function saga<T>(
  scheduler: FiberScheduler,
  body: (undo: (compensation: Compensation) => void) => unknown,
): Fiber<T> {
  return scheduler.spawn(function* saga(): Steps<T> {
    return yield* new Saga<T>(scheduler).run(body);
  });
}

class Saga<T> {
  private readonly scheduler: FiberScheduler;
  private readonly compensations: Compensation[] = [];
  private isOpen = true;

  constructor(scheduler: FiberScheduler) {
    this.scheduler = scheduler;
  }

  *run(body: (undo: (compensation: Compensation) => void) => unknown): Steps<T> {
    const { scheduler } = this;
    const fiber = currentFiber() as Fiber<unknown>;
    try {
      return (yield* stepsOf(
        body((compensation) => this.register(compensation)),
        'the saga',
      )) as T;
    } catch (error) {
      const end = scheduler.cancelling.finishOwned(fiber, 'another step of the saga failed');
      const failures = (yield scheduler.spawnUncancellable(() => this.compensate(end))) as unknown[];
      throw failures.length === 0 ? error : withFailures(error, failures, this.compensations.length);
    } finally {
      this.isOpen = false;
    }
  }

  private register(compensation: Compensation): void {
    this.scheduler.assertRunning('saga');
    if (!this.isOpen) {
      throw new DeterminismError('undo was called after its saga had ended: nothing would run the compensation', {
        called: 'undo',
        instead: 'call undo inside the function* of the saga, before the step that it undoes',
      });
    }
    if (typeof compensation !== 'function') {
      throw new TypeError(
        `undo takes a function* or a function that returns a future, not ${describeValue(compensation)}`,
      );
    }
    this.compensations.push(compensation);
  }

  /** Runs all compensations, the last one first. Returns the errors of those that failed. */
  private *compensate(end: BaseFuture<void> | null): Steps<unknown[]> {
    if (end !== null) yield end;
    this.isOpen = false;
    const failures: unknown[] = [];
    for (const compensation of this.compensations.toReversed()) {
      try {
        yield* stepsOf(compensation(), 'a compensation');
      } catch (error) {
        failures.push(error);
      }
    }
    return failures;
  }
}

/** Runs what a function returned: the steps of a generator, or the wait for a future. */
function* stepsOf(made: unknown, what: string): Steps<unknown> {
  if (made instanceof BaseFuture) return yield made as Future<unknown>;
  if (!isGenerator(made)) {
    throw new TypeError(`ctx.saga: ${what} must be a function* or return a future, not ${describeValue(made)}`);
  }
  claim(made, `ctx.saga: the block of ${what}`);
  return yield* made as Steps<unknown>;
}

/** Returns the error of a saga, some of whose compensations failed. A cancelled saga is still cancelled. */
function withFailures(cause: unknown, errors: readonly unknown[], all: number): Error {
  const messages = [cause, ...errors].map((error) => (error instanceof Error ? error.message : describeValue(error)));
  const [first, ...others] = messages;
  const failed = new CompensationError(
    `${first}. Then ${errors.length} of ${all} compensations failed: ${others.join('; ')}`,
    { cause, errors },
  );
  return cause instanceof CancelledError ? new CancelledError(cause.reason, { cause: failed }) : failed;
}

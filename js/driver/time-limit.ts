// withTimeout: a branch with a time limit.

import { TimeoutError } from '../errors/errors.ts';
import { checkBranches, futureOf } from './branches.ts';
import { Combinator } from './combinator.ts';
import { Fiber } from './fiber.ts';
import { type BaseFuture, FAILED, OK, PENDING, type Waiter } from './future.ts';
import { ActivityFuture, type TimerFuture } from './operation.ts';
import type { FiberScheduler } from './scheduler.ts';

/**
 * A branch with a time limit. Unlike other combinators it watches its timer even without a waiter, so that the limit
 * also holds for a fiber that runs beside. A demand driven branch stays so: it is watched only on demand.
 */
class TimeLimit extends Combinator<unknown> {
  private readonly timeoutMs: number;
  private readonly watcher: Waiter = { wakeRank: this.wakeRank + 1, wake: () => void this.poll() };

  constructor(scheduler: FiberScheduler, branch: BaseFuture<unknown>, timer: TimerFuture, timeoutMs: number) {
    super(scheduler, { branches: [branch, timer], losers: [branch, timer], finishesSteps: false });
    this.timeoutMs = timeoutMs;
    timer.use();
    timer.subscribe(this.watcher);
    if (branch.state === PENDING && (branch instanceof Fiber || branch instanceof ActivityFuture))
      branch.subscribe(this.watcher);
  }

  override get isStep(): boolean {
    return this.branches[0]?.isStep === true;
  }

  protected override get verb(): string {
    return `withTimeout ${this.timeoutMs} ms`;
  }

  protected override get loserReason(): string {
    return `timed out after ${this.timeoutMs} ms`;
  }

  protected override release(): void {
    super.release();
    for (const branch of this.branches) {
      if (branch.state === PENDING) branch.unsubscribe(this.watcher);
    }
  }

  protected override evaluate(): void {
    const [branch, timer] = this.branches as [BaseFuture<unknown>, BaseFuture<unknown>];
    // A cancelled timer sets no limit any more; all timers are cancelled with the instance. The branch decides the
    // outcome.
    const isDue = timer.state === OK;
    if (branch.state !== PENDING && !(isDue && timer.order < branch.order)) {
      this.conclude(branch.state, branch.value, branch.order);
    } else if (isDue) {
      const { timeoutMs } = this;
      this.conclude(FAILED, new TimeoutError(`timed out after ${timeoutMs} ms`, { timeoutMs }), timer.order);
    }
  }

  protected override decides(): boolean {
    return true;
  }
}

/**
 * Limits a branch in time. `makeTimer` is called once the branch was checked.
 *
 * @throws TypeError when `value` is no branch
 */
export function withTimeout(
  scheduler: FiberScheduler,
  timeoutMs: number,
  value: unknown,
  makeTimer: () => TimerFuture,
): BaseFuture<unknown> {
  checkBranches(scheduler, [value], () => 'withTimeout: the branch', value);
  const limit = new TimeLimit(scheduler, futureOf(scheduler, value), makeTimer(), timeoutMs);
  limit.poll();
  scheduler.runCancels();
  return limit;
}

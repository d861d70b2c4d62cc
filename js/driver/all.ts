// all, allSettled and any: combinators that may need every branch.

import { branchList, combinatorBranches, combineOptions, requireSome } from './branches.ts';
import { Combinator, outcomeOf } from './combinator.ts';
import { type BaseFuture, FAILED, OK, PENDING } from './future.ts';
import type { FiberScheduler } from './scheduler.ts';

class All extends Combinator<unknown[]> {
  protected override get verb(): string {
    return 'all';
  }

  protected override evaluate(): void {
    let failed: BaseFuture<unknown> | undefined;
    let isPending = false;
    let last = 0;
    for (const branch of this.branches) {
      if (branch.state === PENDING) isPending = true;
      else if (branch.state === FAILED && (failed === undefined || branch.order < failed.order)) failed = branch;
      else if (branch.order > last) last = branch.order;
    }
    if (failed !== undefined) this.conclude(FAILED, failed.value, failed.order);
    else if (!isPending) this.conclude(OK, this.values(), last);
  }

  protected override decides(branch: BaseFuture<unknown>): boolean {
    return branch.state === FAILED;
  }

  private values(): unknown[] {
    return this.branches.map((branch) => branch.value);
  }
}

class AllSettled extends Combinator<PromiseSettledResult<unknown>[]> {
  protected override get verb(): string {
    return 'allSettled';
  }

  protected override evaluate(): void {
    let last = 0;
    for (const branch of this.branches) {
      if (branch.state === PENDING) return;
      if (branch.order > last) last = branch.order;
    }
    this.conclude(OK, this.results(), last);
  }

  protected override decides(): boolean {
    return false;
  }

  private results(): PromiseSettledResult<unknown>[] {
    return this.branches.map(outcomeOf);
  }
}

class Any extends Combinator<unknown> {
  protected override get verb(): string {
    return 'any';
  }

  protected override evaluate(): void {
    let winner: BaseFuture<unknown> | undefined;
    let isPending = false;
    let last = 0;
    for (const branch of this.branches) {
      if (branch.state === PENDING) isPending = true;
      else if (branch.state === OK && (winner === undefined || branch.order < winner.order)) winner = branch;
      else if (branch.order > last) last = branch.order;
    }
    if (winner !== undefined) this.conclude(OK, winner.value, winner.order);
    else if (!isPending) this.conclude(FAILED, this.failure(), last);
  }

  protected override decides(branch: BaseFuture<unknown>): boolean {
    return branch.state === OK;
  }

  private failure(): AggregateError {
    const errors = this.branches.map((branch) => branch.value);
    return new AggregateError(errors, `all ${errors.length} branches of ctx.any failed`);
  }
}

/** @throws TypeError when `branches` is no list of branches, or `options` holds anything but its options */
export function all(scheduler: FiberScheduler, branches: unknown, options?: unknown): BaseFuture<unknown[]> {
  const checked = combineOptions('all', options, branches);
  return new All(scheduler, combinatorBranches(scheduler, branchList(scheduler, 'all', branches), checked));
}

/** @throws TypeError as {@link all} */
export function allSettled(scheduler: FiberScheduler, branches: unknown): BaseFuture<PromiseSettledResult<unknown>[]> {
  return new AllSettled(scheduler, combinatorBranches(scheduler, branchList(scheduler, 'allSettled', branches)));
}

/** @throws TypeError as {@link all}, and when the list is empty */
export function any(scheduler: FiberScheduler, branches: unknown, options?: unknown): BaseFuture<unknown> {
  const checked = combineOptions('any', options, branches);
  const list = branchList(scheduler, 'any', branches);
  requireSome('any', list);
  return new Any(scheduler, combinatorBranches(scheduler, list, checked));
}

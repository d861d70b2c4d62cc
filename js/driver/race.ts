// race and select: combinators that the first settled branch decides.

import { isList } from '../util/show.ts';
import {
  branchList,
  checkBranches,
  combinatorBranches,
  combineOptions,
  entriesOf,
  isOptions,
  requireSome,
} from './branches.ts';
import { Combinator, type CombinatorBranches, outcomeOf } from './combinator.ts';
import { type BaseFuture, FAILED, OK, PENDING } from './future.ts';
import { describeValue } from './generator.ts';
import type { FiberScheduler } from './scheduler.ts';

/**
 * `race` and `select`, which fail if the first branch failed, and `raceSettled` and `selectSettled`, which return the
 * failure as a result.
 */
abstract class FirstSettled extends Combinator<object> {
  private readonly tellsFailure: boolean;

  constructor(scheduler: FiberScheduler, branches: CombinatorBranches, tellsFailure: boolean) {
    super(scheduler, branches);
    this.tellsFailure = tellsFailure;
  }

  protected override evaluate(): void {
    let first: BaseFuture<unknown> | undefined;
    let index = 0;
    for (const [i, branch] of this.branches.entries()) {
      if (branch.state === PENDING || (first !== undefined && branch.order >= first.order)) continue;
      first = branch;
      index = i;
    }
    if (first === undefined) return;
    const { state, value, order } = first;
    if (this.tellsFailure) this.conclude(OK, { ...this.place(index), ...outcomeOf(first) }, order);
    else if (state === FAILED) this.conclude(FAILED, value, order);
    else this.conclude(OK, this.result(index, value), order);
  }

  protected override decides(): boolean {
    return true;
  }

  /** Returns the index or the tag of a branch, as the first part of the result. */
  protected abstract place(index: number): object;

  /** Returns the same part with the branch's value. Written out, because copying would cost more than the rest. */
  protected abstract result(index: number, value: unknown): object;
}

class Race extends FirstSettled {
  protected override get verb(): string {
    return 'race';
  }

  protected override place(index: number): object {
    return { index };
  }

  protected override result(index: number, value: unknown): object {
    return { index, value };
  }
}

class Select extends FirstSettled {
  private readonly tags: readonly string[];

  protected override get verb(): string {
    return 'select';
  }

  constructor(scheduler: FiberScheduler, tags: readonly string[], branches: CombinatorBranches, tellsFailure: boolean) {
    super(scheduler, branches, tellsFailure);
    this.tags = tags;
  }

  protected override place(index: number): object {
    return { tag: this.tags[index] };
  }

  protected override result(index: number, value: unknown): object {
    return { tag: this.tags[index], value };
  }
}

/**
 * `race(a, b, …)`, `race([a, b, …])`, either with options at the end; `raceSettled` likewise.
 *
 * @throws TypeError as `all`, and when there is no branch
 */
export function race(
  scheduler: FiberScheduler,
  method: 'race' | 'raceSettled',
  args: readonly unknown[],
): BaseFuture<object> {
  let options: unknown;
  let branches: unknown = args;
  if (isList(args[0])) {
    [branches, options] = args;
    if (args.length > 2)
      throw new TypeError(`ctx.${method} takes a list and options, or any number of branches and options`);
  } else if (args.length > 0 && isOptions(args[args.length - 1])) {
    branches = args.slice(0, -1);
    options = args[args.length - 1];
  }
  const checked = combineOptions(method, options, args);
  const list = branchList(scheduler, method, branches, args);
  requireSome(method, list);
  return new Race(scheduler, combinatorBranches(scheduler, list, checked), method === 'raceSettled');
}

/** @throws TypeError as `all`, and when there is no branch */
export function select(
  scheduler: FiberScheduler,
  method: 'select' | 'selectSettled',
  branches: unknown,
  options?: unknown,
): BaseFuture<object> {
  if (!isOptions(branches)) {
    throw new TypeError(
      `ctx.${method} takes an object of branches, such as { done: future }, not ${describeValue(branches)}`,
    );
  }
  const [tags, values] = entriesOf(method, branches);
  const checked = combineOptions(method, options, values);
  const whereOf = (n: number) => `${method}: branch '${tags[n]}'`;
  checkBranches(scheduler, values, whereOf, values);
  requireSome(method, values);
  return new Select(scheduler, tags, combinatorBranches(scheduler, values, checked), method === 'selectSettled');
}

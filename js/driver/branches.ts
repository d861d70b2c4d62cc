// The branches that user code passes to a combinator: checked, and turned into futures.

import { checkKeys } from '../util/options.ts';
import { disregardPromises, isInstance, isList, isRecord, show } from '../util/show.ts';
import type { CombineOptions } from './branch.ts';
import type { CombinatorBranches } from './combinator.ts';
import { BaseFuture } from './future.ts';
import { claim, describeValue, isGenerator, unclaim } from './generator.ts';
import type { FiberScheduler } from './scheduler.ts';

/** Returns the branches that a method was given, checked. `args` are the arguments of the method. */
export function branchList(
  scheduler: FiberScheduler,
  method: string,
  branches: unknown,
  args: unknown = branches,
): readonly unknown[] {
  if (!isList(branches)) {
    throw new TypeError(`ctx.${method} takes a list of branches, such as [a, b], not ${describeValue(branches)}`);
  }
  checkBranches(scheduler, branches, (i) => `${method}: branch ${i}`, args);
  return branches;
}

/** Turns checked branches into futures, and selects the losers. */
export function combinatorBranches(
  scheduler: FiberScheduler,
  values: readonly unknown[],
  { cancelLosers, awaitLosers: finishesSteps = false }: CombineOptions = {},
): CombinatorBranches {
  const branches = values.map((value) => futureOf(scheduler, value));
  const isLoser = (branch: BaseFuture<unknown>, i: number) => cancelLosers === true || branch !== values[i];
  return { branches, losers: cancelLosers ? branches.filter(isLoser) : [], finishesSteps };
}

/** Checks all branches before any of them becomes a fiber: a call that throws has started nothing. */
export function checkBranches(
  scheduler: FiberScheduler,
  branches: readonly unknown[],
  whereOf: (n: number) => string,
  args: unknown,
): void {
  let n = 0;
  try {
    for (; n < branches.length; n += 1) checkBranch(scheduler, whereOf(n), branches[n]);
  } catch (error) {
    for (const claimed of branches.slice(0, n)) if (!(claimed instanceof BaseFuture)) unclaim(claimed as object);
    // The error describes one branch. The rejections of promises in the other arguments are handled here.
    disregardPromises(args);
    throw error;
  }
}

function checkBranch(scheduler: FiberScheduler, where: string, value: unknown): void {
  if (isInstance(value, BaseFuture)) {
    if (value.scheduler === scheduler) return;
    throw new TypeError(`ctx.${where} is a future of another orchestration`);
  }
  if (isGenerator(value)) return claim(value, `ctx.${where}`);
  const hint = typeof value === 'function' ? ': call it, and pass the generator that it returns' : '';
  throw new TypeError(`ctx.${where} must be a future or a generator, not ${describeValue(value)}${hint}`);
}

/** Turns a checked branch into a future. */
export function futureOf(scheduler: FiberScheduler, branch: unknown): BaseFuture<unknown> {
  return branch instanceof BaseFuture ? branch : scheduler.spawn(branch as Generator<unknown, unknown, any>);
}

export function requireSome(method: string, branches: readonly unknown[]): void {
  if (branches.length === 0)
    throw new TypeError(`ctx.${method} needs at least one branch: without a branch it would wait forever`);
}

export function isOptions(value: unknown): value is object {
  return isRecord(value) && !isInstance(value, BaseFuture) && !isGenerator(value);
}

/** Reads the branches once, so that the combinator waits for the branches that were checked. */
export function entriesOf(method: string, branches: object): [tags: string[], values: unknown[]] {
  try {
    return [Object.keys(branches), Object.values(branches)];
  } catch (cause) {
    throw new TypeError(`ctx.${method}: the branches cannot be read`, { cause });
  }
}

/**
 * Checks the options before the branches are looked at: a call that throws has started nothing. `args` are the
 * arguments of the method.
 */
export function combineOptions(method: string, options: unknown, args: unknown): CombineOptions | undefined {
  if (options === undefined) return undefined;
  try {
    return checkedOptions(method, options);
  } catch (error) {
    disregardPromises(args);
    throw error;
  }
}

function checkedOptions(method: string, options: unknown): CombineOptions {
  if (!isOptions(options))
    throw new TypeError(`ctx.${method}: the options must be an object, not ${describeValue(options)}`);
  const read = checkKeys(options, ['cancelLosers', 'awaitLosers'], `ctx.${method}`) as Record<string, unknown>;
  const { cancelLosers = false, awaitLosers = false } = read;
  const got = (value: unknown) => (typeof value === 'string' ? show(value) : describeValue(value));
  if (typeof cancelLosers !== 'boolean' && cancelLosers !== 'blocks')
    throw new TypeError(`ctx.${method}: cancelLosers must be true, false or 'blocks', not ${got(cancelLosers)}`);
  if (typeof awaitLosers !== 'boolean')
    throw new TypeError(`ctx.${method}: awaitLosers must be true or false, not ${got(awaitLosers)}`);
  if (awaitLosers && cancelLosers === false)
    throw new TypeError(`ctx.${method}: awaitLosers needs cancelLosers, which says which branches are cancelled`);
  return { cancelLosers, awaitLosers };
}

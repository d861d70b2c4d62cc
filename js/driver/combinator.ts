// all, allSettled, any, race, select: futures over futures.
//
// Invariants:
//
//   C1. A combinator is lazy: it watches its branches only while it has a waiter, and `poll` computes its state in
//       between. Its outcome is a function of its branches' outcomes and their places in the settle sequence, so the
//       outcome does not depend on when the combinator was looked at.
//   C2. A combinator settles at the place of the branch that decided it, so combinators nest. Branches that one leaf
//       decided share a place; of these, the branch that is listed first counts. A combinator that waits for losers to
//       clean up settles where the last of them did. Otherwise its state would depend on when it is looked at.
//   C3. While it watches, a combinator does a constant amount of work per branch that settles.
//   C4. Combinators nest without limit, as trees or with shared branches: no code here recurses over them. Polling,
//       watching and waking go from one combinator to the next through a list of work.
//   C5. Losers are cancelled after all states are computed, never in between: see `FiberScheduler.runCancels`.

import { CancelledError, TimeoutError } from '../errors/errors.ts';
import { checkKeys } from '../util/options.ts';
import { disregardPromises, isInstance, isList, isRecord, show } from '../util/show.ts';
import { WorkList } from '../util/work-list.ts';
import type { Holder } from './cancelling.ts';
import type { Cleanup } from './cleanup.ts';
import { claim, describeValue, Fiber, isGenerator, unclaim } from './fiber.ts';
import { BaseFuture, FAILED, type Future, OK, PENDING, type State, type Waiter } from './future.ts';
import { ActivityFuture, type TimerFuture } from './operation.ts';
import type { FiberScheduler } from './scheduler.ts';

/** A branch of a combinator: a future of any kind, or the result of calling a `function*`, which becomes a fiber. */
export type Branch = Future<any> | Generator<any, any, any>;

/** The value of a branch. */
export type BranchValue<B> = B extends Generator<any, infer R, any> ? R : B extends Future<infer T> ? T : never;

/** The values of a list of branches, in its order. */
export type BranchValues<B extends readonly Branch[]> = { -readonly [K in keyof B]: BranchValue<B[K]> };

/**
 * The result of `race`: the position of the branch that settled first, and its value. Check `index` to narrow `value`.
 */
export type RaceResult<B extends readonly Branch[]> = number extends B['length']
  ? { index: number; value: BranchValue<B[number]> }
  : { [K in keyof B]: { index: K extends `${infer N extends number}` ? N : number; value: BranchValue<B[K]> } }[number];

/** The result of `select`: the tag of the branch that settled first, and its value. Check `tag` to narrow `value`. */
export type SelectResult<B extends Readonly<Record<string, Branch>>> = {
  [K in keyof B]: { tag: K; value: BranchValue<B[K]> };
}[keyof B];

/** The result of `raceSettled`: the position of the branch that settled first, and its outcome. */
export type SettledRaceResult<B extends readonly Branch[]> = number extends B['length']
  ? { index: number } & PromiseSettledResult<BranchValue<B[number]>>
  : {
      [K in keyof B]: { index: K extends `${infer N extends number}` ? N : number } & PromiseSettledResult<
        BranchValue<B[K]>
      >;
    }[number];

/** The result of `selectSettled`: the tag of the branch that settled first, and its outcome. */
export type SettledSelectResult<B extends Readonly<Record<string, Branch>>> = {
  [K in keyof B]: { tag: K } & PromiseSettledResult<BranchValue<B[K]>>;
}[keyof B];

/** Last argument of `all`, `any`, `race`, `select`, `raceSettled` and `selectSettled`. */
export interface CombineOptions {
  /**
   * Cancels the branches that are still pending once the outcome is decided. The combinator then settles when they have
   * cleaned up. Default false: they go on. The outcome is decided when a fiber waits for the combinator. `'blocks'`
   * cancels only the branches that were given as a block of steps, for which no other code can wait. Futures go on, so
   * that the next round of a loop can wait for them again.
   */
  cancelLosers?: boolean | 'blocks';
}

/** The number of branches that a message names. */
const BRANCHES_SHOWN = 4;

/** The outcome of a combinator that waits for the cleanup of its losers. */
interface Decision {
  readonly state: typeof OK | typeof FAILED;
  readonly value: unknown;
  readonly order: number;
}

/** Branches as futures, and those of them that are cancelled when the outcome is decided. */
interface Contest {
  readonly branches: readonly BaseFuture<unknown>[];
  readonly losers: readonly BaseFuture<unknown>[];
}

const NONE: readonly BaseFuture<unknown>[] = [];

abstract class Combinator<T> extends BaseFuture<T> implements Waiter, Holder {
  protected readonly branches: readonly BaseFuture<unknown>[];
  /** While watching: the number of branches that are still awaited. Each counts once, however often it is listed. */
  protected remaining = 0;
  private isWatching = false;
  private decision: Decision | null = null;
  /** The cleanup that the combinator waits for. */
  private cleanup: Cleanup | null = null;
  private readonly losers: readonly BaseFuture<unknown>[];
  /**
   * 1 over leaves. Over combinators: one more than the deepest of them, because their states have to be computed first.
   */
  private readonly depth: number;
  /** The last pass of {@link refresh} that visited this combinator. */
  private seenIn = 0;

  constructor(scheduler: FiberScheduler, { branches, losers }: Contest) {
    super(scheduler);
    this.branches = branches;
    this.losers = losers;
    this.depth = branches.reduce(
      (depth, branch) => (branch instanceof Combinator ? Math.max(depth, branch.depth + 1) : depth),
      1,
    );
  }

  override poll(): State {
    if (this.isStale) {
      if (this.depth > 1) this.refresh();
      else this.evaluate();
    }
    return this.state;
  }

  /**
   * Woken after the combinators below it, so that outcomes that one leaf decides are decided in the order of `refresh`.
   */
  get wakeRank(): number {
    return this.depth;
  }

  override get parts(): readonly BaseFuture<unknown>[] {
    return this.branches;
  }

  wake(source: BaseFuture<unknown>): void {
    if (this.decision !== null && source === this.cleanup) {
      const { state, value } = this.decision;
      this.settleAt(state, value, source.order);
      return;
    }
    if (!this.isWatching) return;
    this.remaining -= 1;
    if (this.remaining === 0 || this.decides(source)) this.evaluate();
  }

  /**
   * Abandons the combinator, and with it the pending branches that have no other waiter. Without the patch of S5 to S10
   * it abandons all pending branches.
   */
  override abandon(reason: string | undefined): void {
    if (this.decision !== null) return;
    this.release();
    const pending = this.branches.filter((branch) => branch.state === PENDING);
    const { cancelling } = this.scheduler;
    const sharesSome = pending.some((branch) => branch.isAwaited) && cancelling.usesScopes();
    const givenUp = sharesSome ? pending.filter((branch) => !branch.isAwaited) : pending;
    this.settleAfter(givenUp, { state: FAILED, value: new CancelledError(reason), order: 0 });
    for (const branch of givenUp) cancelling.soon(branch, reason);
  }

  hold(cleanup: Cleanup | null): void {
    this.cleanup = cleanup;
    if (cleanup !== null) cleanup.subscribe(this);
    else this.settleAs(this.decision as Decision);
  }

  /** The name of the combinator's method. */
  protected abstract get verb(): string;

  override describe(depth = 2): string {
    const { branches } = this;
    if (depth === 0) return `${this.verb} of ${branches.length}`;
    const shown = branches.slice(0, BRANCHES_SHOWN).map((branch) => branch.describe(depth - 1));
    if (branches.length > BRANCHES_SHOWN) shown.push(`${branches.length - BRANCHES_SHOWN} more`);
    return `${this.verb} of (${shown.join(', ')})`;
  }

  /** Computes the outcome from the current states of the branches, and passes it to `conclude` if there is one. */
  protected abstract evaluate(): void;

  /** True if this branch, which has settled, is enough to know the outcome. */
  protected abstract decides(branch: BaseFuture<unknown>): boolean;

  protected conclude(state: typeof OK | typeof FAILED, value: unknown, order: number): void {
    this.release();
    const losers = this.losers.length === 0 ? NONE : this.losers.filter((branch) => branch.state === PENDING);
    this.settleAfter(losers, { state, value, order });
    for (const loser of losers) this.scheduler.cancelling.soon(loser, this.loserReason);
  }

  /** Stops following the branches: they no longer decide the outcome. */
  protected release(): void {
    this.unwatch();
  }

  /** Settles once the branches that are about to be abandoned have cleaned up. */
  private settleAfter(givenUp: readonly BaseFuture<unknown>[], decision: Decision): void {
    const { cancelling } = this.scheduler;
    if (givenUp.length === 0 || !cancelling.hasCleanup(givenUp)) {
      this.settleAs(decision);
      return;
    }
    this.decision = decision;
    cancelling.holdCombinator(this, givenUp);
  }

  /** Settles with a decision. An order of 0 stands for the next one. */
  private settleAs({ state, value, order }: Decision): void {
    this.settleAt(state, value, order === 0 ? this.scheduler.nextOrder() : order);
  }

  /** The reason of the cancellation that losers get. */
  protected get loserReason(): string {
    return 'another branch settled first';
  }

  protected override onAwaited(): void {
    toWatch.do(this as Combinator<unknown>);
  }

  protected override onForgotten(): void {
    if (!this.isWatching) return;
    toUnwatch.do(this as Combinator<unknown>);
  }

  private get isStale(): boolean {
    return this.state === PENDING && !this.isWatching && this.decision === null;
  }

  /** Computes the state of this combinator and of all combinators below it, those below first. */
  private refresh(): void {
    lastPass += 1;
    const stack: Combinator<unknown>[] = [this as Combinator<unknown>];
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      if (top.seenIn === lastPass) {
        stack.pop();
        if (top.isStale) top.evaluate();
        continue;
      }
      top.seenIn = lastPass;
      if (top.depth === 1) continue;
      for (const branch of top.branches) {
        if (branch instanceof Combinator && branch.isStale && branch.seenIn !== lastPass) stack.push(branch);
      }
    }
  }

  /** Only for the lists of work below. */
  static watch(combinator: Combinator<unknown>): void {
    if (combinator.decision !== null) return;
    combinator.isWatching = true;
    combinator.remaining = 0;
    for (const branch of combinator.branches) {
      if (branch.state === PENDING && branch.subscribe(combinator)) combinator.remaining += 1;
    }
  }

  static unwatch(combinator: Combinator<unknown>): void {
    combinator.unwatch();
  }

  private unwatch(): void {
    if (!this.isWatching) return;
    this.isWatching = false;
    for (const branch of this.branches) {
      if (branch.state === PENDING) branch.unsubscribe(this);
    }
  }
}

let lastPass = 0;
const toWatch = new WorkList<Combinator<unknown>>(Combinator.watch);
const toUnwatch = new WorkList<Combinator<unknown>>(Combinator.unwatch);

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

function outcomeOf({ state, value }: BaseFuture<unknown>): PromiseSettledResult<unknown> {
  return state === OK ? { status: 'fulfilled', value } : { status: 'rejected', reason: value };
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

/**
 * `race` and `select`, which fail if the first branch failed, and `raceSettled` and `selectSettled`, which return the
 * failure as a result.
 */
abstract class FirstSettled extends Combinator<object> {
  private readonly tellsFailure: boolean;

  constructor(scheduler: FiberScheduler, contest: Contest, tellsFailure: boolean) {
    super(scheduler, contest);
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

  constructor(scheduler: FiberScheduler, tags: readonly string[], contest: Contest, tellsFailure: boolean) {
    super(scheduler, contest, tellsFailure);
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
 * A branch with a time limit. Unlike other combinators it watches its timer even without a waiter, so that the limit
 * also holds for a fiber that runs beside. A demand driven branch stays so: it is watched only on demand.
 */
class TimeLimit extends Combinator<unknown> {
  private readonly timeoutMs: number;
  private readonly watcher: Waiter = { wakeRank: this.wakeRank + 1, wake: () => void this.poll() };

  constructor(scheduler: FiberScheduler, branch: BaseFuture<unknown>, timer: TimerFuture, timeoutMs: number) {
    super(scheduler, { branches: [branch, timer], losers: [branch, timer] });
    this.timeoutMs = timeoutMs;
    timer.subscribe(this.watcher);
    if (branch.state === PENDING && (branch instanceof Fiber || branch instanceof ActivityFuture))
      branch.subscribe(this.watcher);
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

/** @throws TypeError when `branches` is no list of branches, or `options` holds anything but its options */
export function all(scheduler: FiberScheduler, branches: unknown, options?: unknown): BaseFuture<unknown[]> {
  const checked = combineOptions('all', options, branches);
  return new All(scheduler, contestOf(scheduler, branchList(scheduler, 'all', branches), checked));
}

/** @throws TypeError as {@link all} */
export function allSettled(scheduler: FiberScheduler, branches: unknown): BaseFuture<PromiseSettledResult<unknown>[]> {
  return new AllSettled(scheduler, contestOf(scheduler, branchList(scheduler, 'allSettled', branches)));
}

/** @throws TypeError as {@link all}, and when the list is empty */
export function any(scheduler: FiberScheduler, branches: unknown, options?: unknown): BaseFuture<unknown> {
  const checked = combineOptions('any', options, branches);
  const list = branchList(scheduler, 'any', branches);
  requireSome('any', list);
  return new Any(scheduler, contestOf(scheduler, list, checked));
}

/**
 * `race(a, b, …)`, `race([a, b, …])`, either with options at the end; `raceSettled` likewise.
 *
 * @throws TypeError as {@link all}, and when there is no branch
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
  return new Race(scheduler, contestOf(scheduler, list, checked), method === 'raceSettled');
}

/** @throws TypeError as {@link all}, and when there is no branch */
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
  return new Select(scheduler, tags, contestOf(scheduler, values, checked), method === 'selectSettled');
}

/** Returns the branches that a method was given, checked. `args` are the arguments of the method. */
function branchList(
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
function contestOf(
  scheduler: FiberScheduler,
  values: readonly unknown[],
  { cancelLosers }: CombineOptions = {},
): Contest {
  const branches = values.map((value) => futureOf(scheduler, value));
  if (cancelLosers === 'blocks') return { branches, losers: branches.filter((branch, i) => branch !== values[i]) };
  return { branches, losers: cancelLosers === true ? branches : NONE };
}

/** Checks all branches before any of them becomes a fiber: a call that throws has started nothing. */
function checkBranches(
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
  const hint = typeof value === 'function' ? ': call it, and hand over the generator that it returns' : '';
  throw new TypeError(`ctx.${where} must be a future or a generator, not ${describeValue(value)}${hint}`);
}

/** Turns a checked branch into a future. */
function futureOf(scheduler: FiberScheduler, branch: unknown): BaseFuture<unknown> {
  return branch instanceof BaseFuture ? branch : scheduler.spawn(branch as Generator<unknown, unknown, any>);
}

function requireSome(method: string, branches: readonly unknown[]): void {
  if (branches.length === 0)
    throw new TypeError(`ctx.${method} needs at least one branch: with none it would wait for ever`);
}

function isOptions(value: unknown): value is object {
  return isRecord(value) && !isInstance(value, BaseFuture) && !isGenerator(value);
}

/** Reads the branches once, so that the combinator waits for the branches that were checked. */
function entriesOf(method: string, branches: object): [tags: string[], values: unknown[]] {
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
function combineOptions(method: string, options: unknown, args: unknown): CombineOptions | undefined {
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
  const { cancelLosers } = checkKeys(options, ['cancelLosers'], `ctx.${method}`) as { cancelLosers?: unknown };
  if (cancelLosers === undefined) return {};
  if (typeof cancelLosers === 'boolean' || cancelLosers === 'blocks') return { cancelLosers };
  const got = typeof cancelLosers === 'string' ? show(cancelLosers) : describeValue(cancelLosers);
  throw new TypeError(`ctx.${method}: cancelLosers must be true, false or 'blocks', not ${got}`);
}

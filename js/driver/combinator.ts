// The base of all, allSettled, any, race and select: futures over futures.
//
// A combinator that has not settled is in one phase:
//
//   phase        its state is                          next phase, by which method
//   unwatched    computed by `poll`                    watching (onAwaited), decided, settled (poll, abandon)
//   watching     computed when a branch wakes it       unwatched (onForgotten), decided, settled (wake, abandon)
//   a decision   decided, and its losers clean up      settled (wake)
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

import { CancelledError } from '../errors/errors.ts';
import { WorkList } from '../util/work-list.ts';
import type { CleanupWaiter } from './cancelling.ts';
import type { Cleanup } from './cleanup.ts';
import { BaseFuture, FAILED, OK, PENDING, type State, type Waiter } from './future.ts';
import type { FiberScheduler } from './scheduler.ts';

/** Branches as futures, and those of them that are cancelled when the outcome is decided. */
export interface CombinatorBranches {
  readonly branches: readonly BaseFuture<unknown>[];
  readonly losers: readonly BaseFuture<unknown>[];
  /** True if the steps that losers are in come to their ends before the combinator settles. */
  readonly finishesSteps: boolean;
}

/** The number of branches that a message names. */
const BRANCHES_SHOWN = 4;

/** The outcome of a combinator that waits for the cleanup of its losers. */
interface Decision {
  readonly state: typeof OK | typeof FAILED;
  readonly value: unknown;
  /** 0 stands for the next place. */
  readonly order: number;
  /** `null` until it is known. */
  cleanup: Cleanup | null;
}

const NONE: readonly BaseFuture<unknown>[] = [];

export abstract class Combinator<T> extends BaseFuture<T> implements Waiter, CleanupWaiter {
  declare readonly scheduler: FiberScheduler;
  protected readonly branches: readonly BaseFuture<unknown>[];
  /** While watching: the number of branches that are still awaited. Each counts once, however often it is listed. */
  protected remaining = 0;
  private phase: 'unwatched' | 'watching' | Decision = 'unwatched';
  private readonly losers: readonly BaseFuture<unknown>[];
  private readonly finishesSteps: boolean;
  /**
   * 1 over leaves. Over combinators: one more than the deepest of them, because their states have to be computed first.
   */
  private readonly depth: number;
  /** The last pass of {@link refresh} that visited this combinator. */
  private seenIn = 0;

  constructor(scheduler: FiberScheduler, { branches, losers, finishesSteps }: CombinatorBranches) {
    super(scheduler);
    this.branches = branches;
    this.losers = losers;
    this.finishesSteps = finishesSteps;
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

  override get isStep(): boolean {
    return this.branches.every((branch) => branch.state !== PENDING || branch.isStep || branch.isFiber);
  }

  wake(source: BaseFuture<unknown>): void {
    const { phase } = this;
    if (phase === 'watching') {
      this.remaining -= 1;
      if (this.remaining === 0 || this.decides(source)) this.evaluate();
    } else if (phase !== 'unwatched' && source === phase.cleanup) {
      this.settleAt(phase.state, phase.value, source.order);
    }
  }

  /**
   * Abandons the combinator, and with it the pending branches that have no other waiter. Without the patch of S5 to S10
   * it abandons all pending branches.
   */
  override abandon(reason: string | undefined): void {
    if (this.isDecided) return;
    this.release();
    const pending = this.branches.filter((branch) => branch.state === PENDING);
    const { cancelling } = this.scheduler;
    const sharesSome = pending.some((branch) => branch.isAwaited) && cancelling.usesScopes();
    const givenUp = sharesSome ? pending.filter((branch) => !branch.isAwaited) : pending;
    this.settleAfter(givenUp, { state: FAILED, value: new CancelledError(reason), order: 0, cleanup: null });
    for (const branch of givenUp) cancelling.soon(branch, reason);
  }

  hold(cleanup: Cleanup | null): void {
    const decision = this.phase as Decision;
    decision.cleanup = cleanup;
    if (cleanup !== null) cleanup.subscribe(this);
    else this.settleAs(decision);
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
    const { cancelling } = this.scheduler;
    this.settleAfter(losers, { state, value, order, cleanup: null }, this.finishesSteps);
    for (const loser of losers) cancelling.soon(loser, this.loserReason, this.finishesSteps);
  }

  /** Stops following the branches: they no longer decide the outcome. */
  protected release(): void {
    this.unwatch();
  }

  /** Settles once the branches that are about to be abandoned have cleaned up. */
  private settleAfter(givenUp: readonly BaseFuture<unknown>[], decision: Decision, finishesSteps = false): void {
    const { cancelling } = this.scheduler;
    const waits = givenUp.length > 0 && (cancelling.hasCleanup(givenUp) || finishesSteps);
    if (!waits) {
      this.settleAs(decision);
      return;
    }
    this.phase = decision;
    cancelling.holdCombinator(this, givenUp, finishesSteps);
  }

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
    if (this.phase === 'watching') toUnwatch.do(this as Combinator<unknown>);
  }

  private get isStale(): boolean {
    return this.state === PENDING && this.phase === 'unwatched';
  }

  private get isDecided(): boolean {
    return typeof this.phase === 'object';
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
    if (combinator.isDecided) return;
    combinator.phase = 'watching';
    combinator.remaining = 0;
    for (const branch of combinator.branches) {
      if (branch.state === PENDING && branch.subscribe(combinator)) combinator.remaining += 1;
    }
  }

  static unwatch(combinator: Combinator<unknown>): void {
    combinator.unwatch();
  }

  private unwatch(): void {
    if (this.phase !== 'watching') return;
    this.phase = 'unwatched';
    for (const branch of this.branches) {
      if (branch.state === PENDING) branch.unsubscribe(this);
    }
  }
}

let lastPass = 0;
const toWatch = new WorkList<Combinator<unknown>>(Combinator.watch);
const toUnwatch = new WorkList<Combinator<unknown>>(Combinator.unwatch);

/** Returns the outcome of a branch that has settled. */
export function outcomeOf({ state, value }: BaseFuture<unknown>): PromiseSettledResult<unknown> {
  return state === OK ? { status: 'fulfilled', value } : { status: 'rejected', reason: value };
}

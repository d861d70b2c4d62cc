// Cancelling within one instance: which fibers are told to cancel, which futures are abandoned, and which waits last
// until the cleanup that this causes is done.
//
// The rules are S5 to S10 of scheduler.ts. docs/internals/scopes.md gives the reasons.

import { CancelledError, TimeoutError } from '../errors/errors.ts';
import { Cleanup } from './cleanup.ts';
import type { EnginePort } from './engine.ts';
import { Fiber, type SchedulerForFibers, UncancellableBlock } from './fiber.ts';
import { reach } from './fiber-tree.ts';
import { type BaseFuture, PENDING } from './future.ts';
import { type SchedulerForOperations, TimerFuture } from './operation.ts';

/**
 * The patch of an execution that follows S5 to S10. An execution without the patch reached such a place before these
 * rules existed: it tells all fibers at once, and ends with its main fiber.
 */
const SCOPES_PATCH = 'perdure.scopes';

/** The policy for fibers that are left when the function of an orchestration has ended. */
export type OnEnd = 'drop' | 'cancel' | 'join';

/**
 * A fiber or a combinator that is held until a cleanup has ended. A fiber then gets its error, a combinator its
 * outcome.
 */
export interface CleanupWaiter {
  /** @param cleanup - the cleanup to wait for; `null` if there is none, and the waiter goes on at once */
  hold(cleanup: Cleanup | null): void;
}

interface CleanupWait {
  readonly waiter: CleanupWaiter;
  /** The futures at or under which the awaited fibers are. */
  readonly under: readonly BaseFuture<unknown>[];
  /** True for each of these fibers that the waiter waits for. */
  readonly awaits: (fiber: Fiber<unknown>) => boolean;
  /** True if the waiter also waits for the steps there. */
  readonly finishesSteps: boolean;
}

interface ToCancel {
  readonly future: BaseFuture<unknown>;
  readonly reason: string | undefined;
  readonly finishesSteps: boolean;
}

/** The part of the scheduler that cancelling uses. */
export interface SchedulerForCancelling extends SchedulerForFibers, SchedulerForOperations {
  readonly port: EnginePort;
  readonly main: Fiber<unknown>;
  readonly asks: { readonly awaited: readonly Fiber<unknown>[]; close(): void };
  /** The fibers that have not ended, in order of creation. */
  readonly liveFibers: Fiber<unknown>[];
}

export class Cancelling {
  /** True once a cancellation of the instance was delivered. */
  isRequested = false;
  /** The time for which the instance may go on after a cancellation was delivered, in ms; `undefined` for no limit. */
  graceMs: number | undefined;
  /**
   * The policy for fibers that are left when the main fiber has ended. A main fiber that was told to cancel waits for
   * cleanup even with `'drop'`.
   */
  onEnd: OnEnd = 'drop';
  /** The error that the instance ends with once the time of {@link graceMs} is over; `null` before. */
  overdue: CancelledError | null = null;
  private readonly scheduler: SchedulerForCancelling;
  private readonly toCancel: ToCancel[] = [];
  private readonly held: CleanupWait[] = [];
  private isRunning = false;
  /** The timer of {@link graceMs}. */
  private grace: TimerFuture | null = null;
  /** True if the execution has {@link SCOPES_PATCH}; `null` until that was asked. */
  private isPatched: boolean | null = null;

  constructor(scheduler: SchedulerForCancelling) {
    this.scheduler = scheduler;
  }

  /** True while there is work for `run`. */
  get isDue(): boolean {
    return this.toCancel.length > 0 || this.held.length > 0;
  }

  /** True while the instance has a timer that ends its cleanup. */
  get isTimed(): boolean {
    return this.grace?.state === PENDING;
  }

  /** Abandons a future on the next `run`. With `finishesSteps`, no step at or under it is cut off. */
  soon(future: BaseFuture<unknown>, reason: string | undefined, finishesSteps = false): void {
    this.toCancel.push({ future, reason, finishesSteps });
  }

  /**
   * Abandons the futures that were given to `soon`, in the order of those calls. A list and a loop take the place of
   * recursion: abandoning a fiber abandons the future that it waits for, and such a chain can be longer than the stack.
   * Returns false if there was nothing to do, or if another `run` is under way.
   */
  run(): boolean {
    const { toCancel, held } = this;
    if (!this.isDue || this.isRunning) return false;
    this.isRunning = true;
    try {
      while (this.isDue) {
        for (let i = 0; i < toCancel.length; i += 1) {
          const { future, reason, finishesSteps } = toCancel[i] as ToCancel;
          if (future.poll() !== PENDING) continue;
          if (finishesSteps) this.abandonAfterSteps(future, reason);
          else future.abandon(reason);
        }
        toCancel.length = 0;
        // Only now is it known which fibers were told to cancel.
        this.holdOrGoOn(held.splice(0));
      }
    } finally {
      toCancel.length = 0;
      held.length = 0;
      this.isRunning = false;
    }
    return true;
  }

  /**
   * True if a cleanup at or under these futures has to be awaited. The execution is asked for its patch only if there
   * may be such a cleanup.
   */
  hasCleanup(under: readonly BaseFuture<unknown>[]): boolean {
    return hasBegunFiber(under) && this.usesScopes();
  }

  /**
   * Holds a fiber that was told to cancel. The fiber goes on with its error when the told fibers at or under `waited`,
   * and the blocks there, have ended.
   */
  holdFiber(fiber: Fiber<unknown>, waited: BaseFuture<unknown>): void {
    this.held.push({ waiter: fiber, under: [waited], awaits: awaitedBy(fiber), finishesSteps: false });
  }

  /**
   * Holds a combinator. The combinator settles when the told fibers at or under its losers have ended, and with
   * `finishesSteps` the steps there.
   */
  holdCombinator(waiter: CleanupWaiter, losers: readonly BaseFuture<unknown>[], finishesSteps: boolean): void {
    this.held.push({ waiter, under: losers, awaits: isTold, finishesSteps });
  }

  /**
   * Cancels the fibers that a fiber owns, none of them within a step. Returns the end of these fibers and of the steps
   * that they and the fiber began; `null` if nothing is left.
   */
  finishOwned(fiber: Fiber<unknown>, reason: string): Cleanup | null {
    const owned = reach(fiber).filter((other) => other !== fiber);
    for (const other of owned) this.soon(other, reason, true);
    this.run();
    const begun = new Set([fiber, ...owned]);
    const steps = [...this.scheduler.operations.values()].filter(
      (operation) => operation.isStep && operation.fiber !== null && begun.has(operation.fiber),
    );
    const [first, ...others] = [...owned.filter((other) => other.state === PENDING), ...steps];
    return first === undefined ? null : new Cleanup([first, ...others]);
  }

  /**
   * True if the execution follows S5 to S10. Ask only where the answer makes a difference, because the answer is
   * recorded.
   */
  usesScopes(): boolean {
    this.isPatched ??= this.scheduler.port.patched(SCOPES_PATCH);
    return this.isPatched;
  }

  /** Tells a fiber and the fibers that it owns to cancel (S6). */
  tell(root: Fiber<unknown>, reason: string | undefined, finishesSteps = false): void {
    const waited: BaseFuture<unknown>[] = [];
    for (const fiber of this.toldWith(root)) this.tellOne(fiber, reason, waited, finishesSteps);
    this.giveUpUnawaited(waited, reason);
  }

  /** Abandons a future so that no step at or under it is cut off (S11). */
  private abandonAfterSteps(future: BaseFuture<unknown>, reason: string | undefined): void {
    if (future instanceof Fiber) {
      if (future.hasBegun && !future.isTold && !(future instanceof UncancellableBlock)) this.tell(future, reason, true);
      else future.abandon(reason);
    } else if (future.parts.length > 0) {
      for (const part of future.parts) if (part.state === PENDING) this.soon(part, reason, true);
    } else if (!future.isStep) {
      future.abandon(reason);
    }
  }

  /**
   * Cancels the instance: tells its main fiber to cancel, and abandons every operation except those of uncancellable
   * blocks and of cleanup that is under way. Takes effect once: a client that asks again, for instance because it got
   * no answer, must not interrupt the cleanup.
   */
  all(reason: string | undefined): void {
    if (this.isRequested) return;
    this.isRequested = true;
    this.limitTime(reason);
    const { main, operations } = this.scheduler;
    const isScoped = main.firstOwned !== null && this.usesScopes();
    const told = isScoped ? this.toldWith(main) : this.scheduler.liveFibers.filter((fiber) => !fiber.isShielded);
    const toldNow = new Set(told);
    // The waits go first: an operation that fails under a combinator could look like an ordinary result to it.
    const waited: BaseFuture<unknown>[] = [];
    for (const fiber of told) this.tellOne(fiber, reason, waited);
    for (const operation of operations.values()) {
      const { fiber } = operation;
      const isKept =
        operation === this.grace ||
        operation.isShielded ||
        (isScoped && fiber !== null && fiber.state === PENDING && !toldNow.has(fiber));
      if (!isKept) this.soon(operation, reason);
    }
    this.giveUpUnawaited(waited, reason);
  }

  /** Throws an error in a fiber and in all fibers that it owns. A cancellation that is on its way takes precedence. */
  interrupt(root: Fiber<unknown>, error: Error): void {
    const isLeftOut = root.isShielded ? isBlock : isShielded;
    for (const fiber of reach(root, isLeftOut).sort(byAge)) {
      const { state, waitingOn, hasBegun, interruption } = fiber;
      if (state !== PENDING || interruption instanceof CancelledError) continue;
      if (!hasBegun) fiber.neverBegin(error);
      else if (waitingOn instanceof UncancellableBlock) fiber.interruption = error;
      else fiber.throwAtYield(error);
    }
  }

  /**
   * Returns the fibers that a fiber owns and has to wait for before it settles: as one that was told to cancel, or as
   * the main fiber, which also waits for the handlers of asks.
   */
  unfinished(fiber: Fiber<unknown>): Fiber<unknown>[] {
    if (fiber.id !== 0) return this.unfinishedOwned(fiber, 'drop');
    const { asks } = this.scheduler;
    const unfinished = [...new Set([...this.unfinishedOwned(fiber, this.onEnd), ...asks.awaited])];
    if (unfinished.length > 0) asks.close();
    return unfinished;
  }

  private unfinishedOwned(fiber: Fiber<unknown>, onEnd: OnEnd): Fiber<unknown>[] {
    if (!fiber.isTold && onEnd === 'drop') return [];
    if (onEnd === 'cancel') {
      for (const owned of reach(fiber, isShielded))
        if (owned !== fiber) this.soon(owned, 'the orchestration has ended');
      this.run();
    }
    const awaits = onEnd === 'join' ? () => true : awaitedBy(fiber);
    const unfinished: Fiber<unknown>[] = [];
    for (let owned = fiber.firstOwned; owned !== null; owned = owned.after) {
      if (awaits(owned)) unfinished.push(owned);
    }
    return unfinished.length > 0 && this.usesScopes() ? unfinished : [];
  }

  /** True if a fiber fails with the failures of the fibers that it waits for at its end. */
  isFailing(fiber: Fiber<unknown>): boolean {
    return fiber.id === 0 && this.onEnd !== 'drop';
  }

  /**
   * Releases the youngest held fiber with its error, because fibers that wait for the cleanup of each other would wait
   * for ever. Returns true if there is such a fiber.
   */
  releaseHeld(): boolean {
    const held = this.scheduler.liveFibers.findLast((fiber) => fiber.isHeld);
    if (held === undefined) return false;
    held.throwAtYield(held.interruption as Error);
    return true;
  }

  private limitTime(reason: string | undefined): void {
    const { scheduler } = this;
    const operation = scheduler.port.graceTimer(this.graceMs ?? null);
    if (operation === null) return;
    this.grace = new TimerFuture(scheduler, { operation, succeedsNext: false });
    const wake = (): void => {
      const cause = new TimeoutError(
        'it had not ended when its grace period was over, and what was left of its cleanup was dropped',
      );
      this.overdue = new CancelledError(reason, { cause });
    };
    this.grace.subscribe({ wakeRank: 1, wake });
  }

  /**
   * Returns the fiber and the fibers that are told with it, in order of creation. Blocks are left out, and so are
   * fibers that were told before.
   */
  private toldWith(root: Fiber<unknown>): Fiber<unknown>[] {
    if (root.firstOwned === null || !this.usesScopes()) return [root];
    return reach(root, awaitedBy(root)).sort(byAge);
  }

  private tellOne(
    fiber: Fiber<unknown>,
    reason: string | undefined,
    waited: BaseFuture<unknown>[],
    finishesSteps = false,
  ): void {
    if (this.isPatched === true && !fiber.hasBegun && fiber !== this.scheduler.main) {
      fiber.neverBegin(new CancelledError(reason));
      return;
    }
    const future = fiber.tell(reason, finishesSteps);
    if (future !== null) waited.push(future);
  }

  /** Abandons the futures that told fibers waited for, such as room in a channel, unless another waiter is left. */
  private giveUpUnawaited(waited: readonly BaseFuture<unknown>[], reason: string | undefined): void {
    for (const future of waited) {
      if (!future.isAwaited) this.soon(future, reason);
    }
  }

  private holdOrGoOn(held: readonly CleanupWait[]): void {
    // Many fibers may have waited for one combinator with many branches.
    const found = new Map<BaseFuture<unknown> | undefined, Cleanup | null>();
    for (const { waiter, under, awaits, finishesSteps } of held) {
      const isCommon = awaits === isToldOrShielded;
      let cleanup = isCommon ? found.get(under[0]) : undefined;
      if (cleanup === undefined) {
        const [fiber, ...others] = awaitedUnder(under, awaits, finishesSteps);
        cleanup = fiber === undefined ? null : new Cleanup([fiber, ...others]);
        if (isCommon) found.set(under[0], cleanup);
      }
      waiter.hold(cleanup);
    }
  }
}

export function byAge(a: Fiber<unknown>, b: Fiber<unknown>): number {
  return a.id - b.id;
}

function isTold(fiber: Fiber<unknown>): boolean {
  return fiber.isTold;
}

function isBlock(fiber: Fiber<unknown>): boolean {
  return fiber instanceof UncancellableBlock;
}

/** True for a block, and for the fibers that a block has left behind when it ended. */
function isShielded(fiber: Fiber<unknown>): boolean {
  return fiber.isShielded;
}

/** Returns the test of the fibers that a told fiber waits for. The same fibers are not told along with it. */
function awaitedBy(fiber: Fiber<unknown>): (fiber: Fiber<unknown>) => boolean {
  return fiber.isShielded ? isToldOrBlock : isToldOrShielded;
}

/** The test for a fiber within a block. */
function isToldOrBlock(fiber: Fiber<unknown>): boolean {
  return fiber.isTold || isBlock(fiber);
}

/** The test for all other fibers. */
function isToldOrShielded(fiber: Fiber<unknown>): boolean {
  return fiber.isTold || isShielded(fiber);
}

/** True if a fiber that has begun and has not ended is among these futures or the parts that they are made of. */
function hasBegunFiber(futures: readonly BaseFuture<unknown>[]): boolean {
  return visit(futures, (fiber) => fiber.state === PENDING && fiber.hasBegun);
}

/**
 * Returns the awaited fibers that have not ended among these futures and the parts that they are made of, and with
 * `finishesSteps` the steps there.
 */
function awaitedUnder(
  futures: readonly BaseFuture<unknown>[],
  awaits: (fiber: Fiber<unknown>) => boolean,
  finishesSteps: boolean,
): BaseFuture<unknown>[] {
  const found = new Set<BaseFuture<unknown>>();
  visit(
    futures,
    (fiber) => {
      if (fiber.state === PENDING && awaits(fiber)) found.add(fiber);
      return false;
    },
    (leaf) => {
      if (finishesSteps && leaf.state === PENDING && leaf.isStep) found.add(leaf);
    },
  );
  return [...found];
}

/**
 * Passes the fibers among these futures, and the parts that they are made of, to `isEnough` until it returns true.
 * Returns true if it did. The other leaves go to `leaf`.
 */
function visit(
  futures: readonly BaseFuture<unknown>[],
  isEnough: (fiber: Fiber<unknown>) => boolean,
  leaf: (future: BaseFuture<unknown>) => void = () => {},
): boolean {
  // Combinators may share branches and nest without limit.
  const combinators = new Set<BaseFuture<unknown>>();
  const lists = [futures];
  for (const list of lists) {
    for (const future of list) {
      if (future instanceof Fiber) {
        if (isEnough(future)) return true;
      } else if (future.parts.length === 0) {
        leaf(future);
      } else if (!combinators.has(future)) {
        combinators.add(future);
        lists.push(future.parts);
      }
    }
  }
  return false;
}

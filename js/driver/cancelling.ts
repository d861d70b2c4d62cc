// Cancelling within one instance: who is told, what is given up, and what waits for the cleanup that this causes.
//
// The rules are S5 to S10 of scheduler.ts; docs/internals/scopes.md says why they are so.

import { CancelledError, TimeoutError } from '../errors/errors.ts';
import { Cleanup } from './cleanup.ts';
import { Fiber, UncancellableBlock } from './fiber.ts';
import { reach } from './fiber-tree.ts';
import { type BaseFuture, PENDING } from './future.ts';
import { TimerFuture } from './operation.ts';
import type { FiberScheduler } from './scheduler.ts';

/**
 * The patch that an execution has if it goes by S5 to S10. One without it was at such a place before these rules were there: it
 * tells all fibers at once, and ends with its main fiber.
 */
const SCOPES_PATCH = 'perdure.scopes';

/** What becomes of fibers that are left when the function of an orchestration has ended. */
export type OnEnd = 'drop' | 'cancel' | 'join';

/** Who goes on only when what was told has ended: a fiber with its error, a combinator with its outcome. */
export interface Holder {
  /** @param cleanup - what it waits for; `null`: nothing, it goes on at once */
  hold(cleanup: Cleanup | null): void;
}

interface Held {
  readonly holder: Holder;
  /** What it waits under. */
  readonly under: readonly BaseFuture<unknown>[];
  /** Which fibers it waits for. */
  readonly awaits: (fiber: Fiber<unknown>) => boolean;
}

interface ToCancel {
  readonly future: BaseFuture<unknown>;
  readonly reason: string | undefined;
}

export class Cancelling {
  /** Whether a cancellation of the instance was delivered. */
  isRequested = false;
  /** How long the instance may go on once one was; `undefined`: as long as it takes. */
  graceMs: number | undefined;
  /** What becomes of fibers that are left when the main one has ended without having been told. */
  onEnd: OnEnd = 'drop';
  /** What the instance ends with when that time is over. */
  overdue: CancelledError | null = null;
  private readonly scheduler: FiberScheduler;
  private readonly toCancel: ToCancel[] = [];
  private readonly held: Held[] = [];
  private isRunning = false;
  /** The timer of {@link graceMs}. */
  private grace: TimerFuture | null = null;
  /** Whether the execution has the patch, once that was asked. */
  private isPatched: boolean | null = null;

  constructor(scheduler: FiberScheduler) {
    this.scheduler = scheduler;
  }

  /** Whether there is something for `run` to do. */
  get isDue(): boolean {
    return this.toCancel.length > 0 || this.held.length > 0;
  }

  /** Whether the instance has a timer that ends its cleanup. */
  get isTimed(): boolean {
    return this.grace?.state === PENDING;
  }

  /** Give a future up with the next `run`. */
  soon(future: BaseFuture<unknown>, reason: string | undefined): void {
    this.toCancel.push({ future, reason });
  }

  /**
   * Give up what is to be given up, in the order in which that was asked for. A list and a loop, because to give up a
   * fiber is to give up what it waits for, and such a chain can be longer than the stack. Returns whether there was any.
   */
  run(): boolean {
    const { toCancel, held } = this;
    if (!this.isDue || this.isRunning) return false;
    this.isRunning = true;
    try {
      while (this.isDue) {
        for (let i = 0; i < toCancel.length; i += 1) {
          const { future, reason } = toCancel[i] as ToCancel;
          if (future.poll() === PENDING) future.abandon(reason);
        }
        toCancel.length = 0;
        // Now it is known who was told.
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
   * Whether the cleanup of something at or under these futures is to be waited for. Where there may be some, the execution is asked for
   * its patch.
   */
  hasCleanup(under: readonly BaseFuture<unknown>[]): boolean {
    return hasBegunFiber(under) && this.usesScopes();
  }

  /** A fiber that was told goes on with its error when what was told at or under `waited`, and the blocks there, have ended. */
  holdFiber(fiber: Fiber<unknown>, waited: BaseFuture<unknown>): void {
    this.held.push({ holder: fiber, under: [waited], awaits: awaitedBy(fiber) });
  }

  /** A combinator settles when those of its losers that were told, or what was told under them, have ended. */
  holdCombinator(holder: Holder, losers: readonly BaseFuture<unknown>[]): void {
    this.held.push({ holder, under: losers, awaits: isTold });
  }

  /** Whether the execution goes by S5 to S10. Asked only where that makes a difference, because the answer is recorded. */
  usesScopes(): boolean {
    this.isPatched ??= this.scheduler.port.patched(SCOPES_PATCH);
    return this.isPatched;
  }

  /** Tell a fiber to cancel, and all that it owns. */
  tell(root: Fiber<unknown>, reason: string | undefined): void {
    const waited: BaseFuture<unknown>[] = [];
    for (const fiber of this.toldWith(root)) this.tellOne(fiber, reason, waited);
    this.giveUpUnawaited(waited, reason);
  }

  /**
   * The instance is to cancel: its main fiber is told, and every operation is given up, except for those of uncancellable blocks and
   * of cleanup that is under way. Once: a client that asks again, for instance because it got no answer, must not interrupt the cleanup.
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

  /** Throw an error in a fiber and in all that it owns. A cancellation that is on its way stands. */
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

  /** What a fiber owns and has to wait for before it ends, as one that was told or as the main one. */
  unfinished(fiber: Fiber<unknown>): Fiber<unknown>[] {
    const onEnd = fiber.id === 0 ? this.onEnd : 'drop';
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

  /** Whether it fails with what those fail with that it waits for at its end. */
  isFailing(fiber: Fiber<unknown>): boolean {
    return fiber.id === 0 && this.onEnd !== 'drop';
  }

  /**
   * Fibers that wait for the cleanup of each other would do so for ever: the youngest that is held gets its error now. Returns whether
   * there is one.
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
    this.grace = new TimerFuture(scheduler, operation);
    const wake = (): void => {
      const cause = new TimeoutError(
        'it had not ended when its cancelGrace was over, and what was left of its cleanup was dropped',
      );
      this.overdue = new CancelledError(reason, { cause });
    };
    this.grace.subscribe({ wakeRank: 1, wake });
  }

  /** The fiber and those that are told with it, in order of creation: blocks are not, nor what was told before. */
  private toldWith(root: Fiber<unknown>): Fiber<unknown>[] {
    if (root.firstOwned === null || !this.usesScopes()) return [root];
    return reach(root, awaitedBy(root)).sort(byAge);
  }

  private tellOne(fiber: Fiber<unknown>, reason: string | undefined, waited: BaseFuture<unknown>[]): void {
    if (this.isPatched === true && !fiber.hasBegun && fiber !== this.scheduler.main) {
      fiber.neverBegin(new CancelledError(reason));
      return;
    }
    const future = fiber.tell(reason);
    if (future !== null) waited.push(future);
  }

  /** What told fibers waited for, such as room in a channel, unless somebody waits on. */
  private giveUpUnawaited(waited: readonly BaseFuture<unknown>[], reason: string | undefined): void {
    for (const future of waited) {
      if (!future.isAwaited) this.soon(future, reason);
    }
  }

  private holdOrGoOn(held: readonly Held[]): void {
    // Many fibers may have waited for one combinator of many.
    const found = new Map<BaseFuture<unknown> | undefined, Cleanup | null>();
    for (const { holder, under, awaits } of held) {
      const isCommon = awaits === isToldOrShielded;
      let cleanup = isCommon ? found.get(under[0]) : undefined;
      if (cleanup === undefined) {
        const [fiber, ...others] = fibersUnder(under, awaits);
        cleanup = fiber === undefined ? null : new Cleanup([fiber, ...others]);
        if (isCommon) found.set(under[0], cleanup);
      }
      holder.hold(cleanup);
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

/** Blocks, and what a block that has ended left. */
function isShielded(fiber: Fiber<unknown>): boolean {
  return fiber.isShielded;
}

/** What a fiber that is told waits for, and what is not told with it. */
function awaitedBy(fiber: Fiber<unknown>): (fiber: Fiber<unknown>) => boolean {
  return fiber.isShielded ? isToldOrBlock : isToldOrShielded;
}

/** What a fiber within a block waits for. */
function isToldOrBlock(fiber: Fiber<unknown>): boolean {
  return fiber.isTold || isBlock(fiber);
}

/** What all others wait for. */
function isToldOrShielded(fiber: Fiber<unknown>): boolean {
  return fiber.isTold || isShielded(fiber);
}

/** Whether a fiber that has begun, and not ended, is among these futures or what they are made of. */
function hasBegunFiber(futures: readonly BaseFuture<unknown>[]): boolean {
  return visit(futures, (fiber) => fiber.state === PENDING && fiber.hasBegun);
}

/** The fibers among these futures, and what they are made of, that have not ended and that are awaited. */
function fibersUnder(
  futures: readonly BaseFuture<unknown>[],
  awaits: (fiber: Fiber<unknown>) => boolean,
): Fiber<unknown>[] {
  const fibers = new Set<Fiber<unknown>>();
  visit(futures, (fiber) => {
    if (fiber.state === PENDING && awaits(fiber)) fibers.add(fiber);
    return false;
  });
  return [...fibers];
}

/** Shows the fibers among these futures, and what they are made of, until `isEnough`. Returns whether it was. */
function visit(futures: readonly BaseFuture<unknown>[], isEnough: (fiber: Fiber<unknown>) => boolean): boolean {
  // Combinators may share branches and nest without limit.
  const combinators = new Set<BaseFuture<unknown>>();
  const lists = [futures];
  for (const list of lists) {
    for (const future of list) {
      if (future instanceof Fiber) {
        if (isEnough(future)) return true;
      } else if (future.parts.length > 0 && !combinators.has(future)) {
        combinators.add(future);
        lists.push(future.parts);
      }
    }
  }
  return false;
}

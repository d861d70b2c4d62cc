// Fiber<T>: one strand of an orchestration, driven over its generator.
//
// A fiber owns its generator and its wait. The scheduler owns the ready queue and the set of fibers.
//
// A fiber is in one phase. `on` is the future that the phase is about. In every phase there may be an `interruption`,
// the error to throw at the `yield` where the fiber is, or at the next one that would wait.
//
//   phase    where it is        on                                   next phase, by which method
//   new      ready queue        null                                 running (advance), settled (neverBegin)
//   running  in `advance`       null                                 waiting, held, ending, settled
//   waiting  at its `yield`     the future of its `yield`            woken (wake, throwAtYield, tell), held (tell),
//                                                                    leaving (leave)
//   held     at its `yield`     the cleanup before its error; null   woken (wake, hold, throwAtYield), leaving (leave)
//                               until it is known
//   woken    ready queue        the future that has settled; null    running (advance), leaving (leave)
//                               if the wait was interrupted
//   leaving  ready queue        as woken, but the `yield` returns    running (advance)
//   ending   function ended     the cleanup of its fibers            ended (wake, tell, leave), released (throwAtYield)
//   ended    ready queue        the cleanup that has settled; null   ending, settled (advance), released (throwAtYield)
//                               if the wait was interrupted
//   released ready queue        as ended, but awaits no more         settled (advance)
//   settled  nowhere            null                                 none
//
// The phase and its data are fields. An object for each phase would cost every wait an allocation, a tenth of what a
// spawn and a join take.
//
// Invariants:
//
//   B1. User code runs only inside `advance`, which only the scheduler's `runReady` calls. `wake`, `throwAtYield` and
//       the code that settles a future run none: they put the fiber into the ready queue.
//   B2. A fiber is in the ready queue once in the phases new, woken, leaving, ended and released, and else not at all.
//   B3. `advance` passes over futures that have settled in a loop, so the stack stays flat however many there are.
//   B4. A fiber that its instance drops is forgotten where it stands: no `finally` block of user code runs.

import { types } from 'node:util';

import { CancelledError } from '../errors/errors.ts';
import { Cleanup } from './cleanup.ts';
import { enter, leave } from './current.ts';
import type { TreeNode } from './fiber-tree.ts';
import {
  BaseFuture,
  FAILED,
  type FiberFuture,
  OK,
  PENDING,
  type SchedulerForFutures,
  type State,
  type Waiter,
} from './future.ts';
import { describeValue, GENERATOR, isGenerator, isPlain } from './generator.ts';
import { notAFuture } from './refused-yield.ts';
import type { Unawaited } from './unawaited.ts';

/** The code that a fiber runs: a generator, or a function that makes one when the fiber starts. */
export type FiberBody<T> = Iterator<unknown, T, any> | (() => Iterator<unknown, T, any>);

/** The ways in which a generator goes on at its `yield`. */
const NEXT = 0;
const THROW = 1;
const RETURN = 2;
type Resumption = typeof NEXT | typeof THROW | typeof RETURN;

/** The outcome of a fiber's function. */
interface Result {
  readonly state: typeof OK | typeof FAILED;
  readonly value: unknown;
}

/** The phases of a fiber: see the table above. */
type Phase = 'new' | 'running' | 'waiting' | 'held' | 'woken' | 'leaving' | 'ending' | 'ended' | 'released' | 'settled';

/** The part of the scheduler that fibers use. */
export interface SchedulerForFibers extends SchedulerForFutures {
  /** Set once a call into the engine was refused. */
  readonly refusal: object | null;
  readonly isPressed: boolean;
  blocks: number;
  readonly cancelling: CancellingForFibers;
  readonly unawaited: Unawaited;
  ready(fiber: Fiber<unknown>): void;
  ended(fiber: Fiber<unknown>): void;
  runCancels(): boolean;
}

/** The part of the scheduler's `Cancelling` that fibers use. */
interface CancellingForFibers {
  soon(future: BaseFuture<unknown>, reason: string | undefined, finishesSteps?: boolean): void;
  tell(root: Fiber<unknown>, reason: string | undefined): void;
  interrupt(root: Fiber<unknown>, error: Error): void;
  hasCleanup(under: readonly BaseFuture<unknown>[]): boolean;
  holdFiber(fiber: Fiber<unknown>, waited: BaseFuture<unknown>): void;
  unfinished(fiber: Fiber<unknown>): Fiber<unknown>[];
  isFailing(fiber: Fiber<unknown>): boolean;
}

export class Fiber<T> extends BaseFuture<T> implements FiberFuture<T>, Waiter, TreeNode<Fiber<unknown>> {
  declare readonly scheduler: SchedulerForFibers;
  /** The fiber's number within the instance, in order of creation, from 0 (the main fiber). */
  readonly id: number;
  /** True if the fiber runs within an `uncancellable` block: a cancellation of the instance passes it by. */
  readonly isShielded: boolean;
  readonly wakeRank = 0;
  owner: Fiber<unknown> | null = null;
  firstOwned: Fiber<unknown> | null = null;
  lastOwned: Fiber<unknown> | null = null;
  before: Fiber<unknown> | null = null;
  after: Fiber<unknown> | null = null;
  /** The fiber's values of `contextLocal`. The map is shared with other fibers, so it is replaced and never changed. */
  locals: ReadonlyMap<object, unknown> | null = null;
  /** True once the fiber was told to cancel. A fiber is told once: a second request must not interrupt the cleanup. */
  isTold = false;
  /** The place of the last future that was asked for when an error was thrown at a `yield` of this fiber. */
  thrownAfter = 0;
  /** True if the fiber was told so that the step which it waits for comes to its end first (S11). */
  private finishesSteps = false;
  /** Names the fiber in place of its function. */
  label: string | null = null;
  /** Kept until the fiber has ended, because the name of the function is also the fiber's. */
  private body: FiberBody<T> | null;
  private generator: Iterator<unknown, T, any> | null = null;
  /** True if the generator is one of a `function*`; see `GENERATOR`. */
  private isPlain = false;
  private phase: Phase = 'new';
  private on: BaseFuture<unknown> | null = null;
  /** The outcome of the fiber's function, in the phases ending, ended and released. */
  private result: Result | null = null;
  /** Thrown at the `yield` where the fiber is, or at the next one that would wait. */
  interruption: Error | null = null;

  constructor(scheduler: SchedulerForFibers, id: number, body: FiberBody<T>, isShielded: boolean) {
    super(scheduler);
    this.id = id;
    this.body = body;
    this.isShielded = isShielded;
  }

  /** True if the fiber's function was called and the fiber has not settled. */
  get hasBegun(): boolean {
    return this.phase !== 'new' && this.phase !== 'settled';
  }

  /** True while the fiber, which was told to cancel, waits for the cleanup of others before it gets its error. */
  get isHeld(): boolean {
    return this.phase === 'held';
  }

  /** The future that the fiber waits on; `null` if it does not wait. */
  get waitingOn(): BaseFuture<unknown> | null {
    const { phase } = this;
    return phase === 'waiting' || phase === 'held' || phase === 'ending' ? this.on : null;
  }

  wake(source: BaseFuture<unknown>): void {
    if (this.waitingOn !== source) return;
    this.phase = this.phase === 'ending' ? 'ended' : 'woken';
    this.scheduler.ready(this);
  }

  interrupt(error: Error): void {
    if (!(error instanceof Error)) throw new TypeError(`fiber.interrupt takes an error, not ${describeValue(error)}`);
    this.scheduler.assertRunning('interrupt', 'future');
    this.scheduler.cancelling.interrupt(this as Fiber<unknown>, error);
  }

  /**
   * Makes the pending `yield` throw `error`, no matter which future the fiber waits on. Without a pending `yield`, the
   * next one that would wait throws it. A fiber whose function has ended stops waiting for cleanup.
   */
  throwAtYield(error: Error): void {
    if (this.state !== PENDING) return;
    this.interruption = error;
    this.stopWaiting();
    if (this.result === null) return;
    this.phase = 'released';
    // A cancellation that leads to a deadlock is still a cancellation.
    if (!this.isTold) this.result = { state: FAILED, value: error };
  }

  /** Leaves the fiber's function at the pending `yield`, as if a `return` stood there. */
  leave(): void {
    if (this.state !== PENDING) return;
    this.stopWaiting();
    if (this.phase === 'woken') this.phase = 'leaving';
  }

  /**
   * Tells this fiber alone to cancel. The fiber gets a `CancelledError` at its `yield`, once the told fibers under the
   * future that it waits for have ended. Returns the future that the fiber waited for and no longer waits for. A wait
   * for an `uncancellable` block is not interrupted: the error comes at the next `yield` that would wait for something
   * else. With `finishesSteps`, the same holds for a wait for a step.
   */
  tell(reason: string | undefined, finishesSteps = false): BaseFuture<unknown> | null {
    const { waitingOn } = this;
    this.isTold = true;
    this.finishesSteps = finishesSteps;
    this.interruption = new CancelledError(reason);
    if (waitingOn === null || this.goesFirst(waitingOn)) return null;
    waitingOn.unsubscribe(this);
    if (this.scheduler.cancelling.hasCleanup([waitingOn])) this.holdUntilCleanup(waitingOn);
    else this.goOnInterrupted();
    return waitingOn;
  }

  hold(cleanup: Cleanup | null): void {
    if (cleanup === null) this.goOnInterrupted();
    else this.waitFor('held', cleanup);
  }

  /** Settles a fiber that has not begun and never will: it runs no code that could catch the error. */
  neverBegin(error: Error): void {
    this.conclude(FAILED, error);
  }

  override abandon(reason: string | undefined): void {
    if (this.isTold) return;
    if (this.hasBegun) this.scheduler.cancelling.tell(this as Fiber<unknown>, reason);
    else this.neverBegin(new CancelledError(reason));
  }

  override get isFiber(): boolean {
    return true;
  }

  /** The fiber's name, if it has one: its label, or the name of its function. */
  get name(): string | null {
    const name = this.label ?? (typeof this.body === 'function' ? this.body.name : '');
    return this.id === 0 || name === '' ? null : name;
  }

  override describe(): string {
    const { id, name } = this;
    if (id === 0) return 'the main fiber';
    return name === null ? `fiber ${id}` : `fiber ${id} (${name})`;
  }

  /** Runs user code until it waits or ends. */
  advance(): void {
    if (this.state !== PENDING) return;
    const { phase, on } = this;
    if (this.result !== null) return this.goOnEnding(phase === 'released');
    let resumption: Resumption = NEXT;
    let value: unknown;
    if (phase !== 'new') {
      this.phase = 'running';
      this.on = null;
      const { interruption } = this;
      // An interruption outranks the result of the wait: it was asked for and must not get lost. The result of a block,
      // which could not be interrupted, goes first.
      if (interruption !== null && !this.goesFirst(on)) {
        this.interruption = null;
        resumption = THROW;
        value = on instanceof Cleanup ? on.errorFor(interruption) : interruption;
      } else if (phase === 'leaving') {
        resumption = RETURN;
      } else if (on !== null) {
        resumption = on.state === FAILED ? THROW : NEXT;
        value = on.value;
      }
    }
    // One call for all cases. V8 would inline each call, and a source line takes longer to capture the more is inlined.
    this.run(resumption, value);
  }

  /** Runs user code from its `yield` on. Futures that have settled are passed over in a loop (B3). */
  private run(first: Resumption, given: unknown): void {
    const { scheduler } = this;
    let resumption = first;
    let value = given;
    for (;;) {
      let step: IteratorResult<unknown, T>;
      if (resumption === THROW) this.thrownAfter = scheduler.unawaited.last;
      enter(this);
      try {
        step = this.step(resumption, value);
      } catch (error) {
        this.end(FAILED, error);
        return;
      } finally {
        leave();
      }
      if (scheduler.refusal !== null) return;
      if (step.done === true) {
        this.end(OK, step.value);
        return;
      }
      const yielded = step.value as BaseFuture<unknown>;
      let state = this.pollYielded(yielded);
      if (state === undefined) {
        resumption = THROW;
        value = notAFuture(yielded);
        continue;
      }
      // Polling may decide a race whose losers are to be cancelled, and the losers may be part of the yielded future.
      while (scheduler.runCancels()) state = yielded.poll();
      if (state === PENDING || this.isPressed(yielded)) {
        const error = this.waitOrInterrupt(yielded);
        if (error === null) return;
        resumption = THROW;
        value = error;
      } else {
        resumption = state === FAILED ? THROW : NEXT;
        value = yielded.value;
      }
    }
  }

  private step(resumption: Resumption, value: unknown): IteratorResult<unknown, T> {
    const generator = this.generator ?? this.begin();
    if (resumption === RETURN) return generator.return?.() ?? { done: true, value: undefined as T };
    if (this.isPlain)
      return (resumption === THROW ? GENERATOR.throw : GENERATOR.next).call(generator, value) as IteratorResult<
        unknown,
        T
      >;
    if (resumption === NEXT) return generator.next(value);
    // Every generator has `throw`. Another iterator may not have it, and is then over.
    if (generator.throw === undefined) throw value;
    return generator.throw(value);
  }

  private begin(): Iterator<unknown, T, any> {
    const { body } = this;
    const generator = typeof body === 'function' ? body() : body;
    if (!isGenerator(generator)) {
      throw new TypeError(`an orchestration must be a function*, but this one returned ${describeValue(generator)}`);
    }
    this.isPlain = isPlain(generator);
    this.generator = generator as Iterator<unknown, T, any>;
    this.phase = 'running';
    return this.generator;
  }

  /** Returns the state of a yielded value; `undefined` if it is no future of this instance. */
  private pollYielded(yielded: unknown): State | undefined {
    try {
      if (yielded instanceof BaseFuture && yielded.scheduler === this.scheduler) {
        if (!yielded.isUsed) yielded.use();
        return yielded.poll();
      }
    } catch (error) {
      // The value is a proxy of the user's that threw.
      if (!types.isProxy(yielded)) throw error;
    }
    return undefined;
  }

  /** True if the result of a wait that had begun goes before the interruption of the fiber. */
  private goesFirst(on: BaseFuture<unknown> | null): boolean {
    return on instanceof UncancellableBlock || (this.finishesSteps && on?.isStep === true);
  }

  /** True if the fiber is interrupted even at a future that has settled. A block could not be interrupted. */
  private isPressed(yielded: BaseFuture<unknown>): boolean {
    return this.scheduler.isPressed && this.interruption !== null && !(yielded instanceof UncancellableBlock);
  }

  /** Waits for a future. Returns the error to throw at the `yield` if the fiber is interrupted instead. */
  private waitOrInterrupt(yielded: BaseFuture<unknown>): Error | null {
    const { interruption, scheduler } = this;
    if (interruption === null || yielded instanceof UncancellableBlock) {
      this.waitFor('waiting', yielded);
      return null;
    }
    // Treated as if the fiber had already waited when the cancellation came.
    if (interruption instanceof CancelledError) {
      const isHeld = scheduler.cancelling.hasCleanup([yielded]);
      if (isHeld) this.holdUntilCleanup(yielded);
      if (!yielded.isAwaited) scheduler.cancelling.soon(yielded, interruption.reason);
      scheduler.runCancels();
      if (isHeld || scheduler.refusal !== null) return null;
    }
    this.interruption = null;
    return interruption;
  }

  /** Holds the fiber until the told fibers at or under a future have cleaned up. */
  private holdUntilCleanup(waited: BaseFuture<unknown>): void {
    this.phase = 'held';
    this.on = null;
    this.scheduler.cancelling.holdFiber(this as Fiber<unknown>, waited);
  }

  private waitFor(phase: 'waiting' | 'held' | 'ending', future: BaseFuture<unknown>): void {
    this.phase = phase;
    this.on = future;
    future.subscribe(this);
  }

  /** Stops a wait, if there is one. */
  private stopWaiting(): void {
    const { waitingOn } = this;
    if (waitingOn === null) return;
    waitingOn.unsubscribe(this);
    this.goOnInterrupted();
  }

  /** Puts the fiber, which waits no more, into the ready queue without an outcome of its wait. */
  private goOnInterrupted(): void {
    this.phase = this.phase === 'ending' ? 'ended' : 'woken';
    this.on = null;
    this.scheduler.ready(this);
  }

  /**
   * Records the end of the fiber's function. The fiber settles, unless fibers that it owns, or has inherited by now,
   * have to clean up first.
   */
  private end(state: typeof OK | typeof FAILED, value: unknown): void {
    this.generator = null;
    if (this.isTold || this.id === 0) {
      const [first, ...others] = this.scheduler.cancelling.unfinished(this as Fiber<unknown>);
      if (first !== undefined) {
        this.result = { state, value };
        this.waitFor('ending', new Cleanup([first, ...others], this.isTold ? 'cleanup' : 'end'));
        return;
      }
    }
    this.conclude(state, value);
  }

  /**
   * Goes on after the wait that followed the end of the function. The fiber may have inherited more fibers meanwhile.
   */
  private goOnEnding(isReleased: boolean): void {
    const { on } = this;
    let { state, value } = this.result as Result;
    if (on instanceof Cleanup && state === OK && this.scheduler.cancelling.isFailing(this as Fiber<unknown>)) {
      const { failures } = on;
      if (failures.length > 0) {
        state = FAILED;
        value = failures[0];
      }
    }
    if (isReleased) this.conclude(state, value);
    else this.end(state, value);
  }

  private conclude(state: typeof OK | typeof FAILED, value: unknown): void {
    this.generator = null;
    this.body = null;
    this.phase = 'settled';
    this.on = null;
    this.result = null;
    this.scheduler.ended(this as Fiber<unknown>);
    this.settle(state, value);
  }
}

/** A block of `uncancellable`: no cancellation reaches it, and its waiters wait until it is done. */
export class UncancellableBlock<T> extends Fiber<T> {
  constructor(scheduler: SchedulerForFibers, id: number, body: FiberBody<T>) {
    super(scheduler, id, body, true);
  }

  override abandon(): void {}

  override interrupt(): void {}

  override settle(state: typeof OK | typeof FAILED, value: unknown): void {
    this.scheduler.blocks -= 1;
    super.settle(state, value);
  }
}

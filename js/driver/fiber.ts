// Fiber<T>: one strand of an orchestration, driven over its generator.
//
// A fiber owns its generator and its wait. The scheduler owns the ready queue and the set of fibers.
//
// Invariants:
//
//   B1. User code runs only inside `advance`, which only the scheduler's `runReady` calls. `wake`, `throwAtYield` and
//       the code that settles a future run none: they put the fiber into the ready queue.
//   B2. A fiber is in exactly one state: in the ready queue (or never started), running, waiting on one future (which
//       may be the cleanup of others, before its error or after its function has ended), or settled.
//   B3. `advance` passes over futures that have settled in a loop, so the stack stays flat however many there are.
//   B4. A fiber that its instance drops is forgotten where it stands: no `finally` block of user code runs.

import { types } from 'node:util';

import { CancelledError } from '../errors/errors.ts';
import { Cleanup } from './cleanup.ts';
import { enter, leave } from './current.ts';
import type { TreeNode } from './fiber-tree.ts';
import { BaseFuture, FAILED, type FiberFuture, OK, PENDING, type State, type Waiter } from './future.ts';
import { describeValue, GENERATOR, isGenerator, isPlain } from './generator.ts';
import { notAFuture } from './refused-yield.ts';
import type { FiberScheduler } from './scheduler.ts';

/** The code that a fiber runs: a generator, or a function that makes one when the fiber starts. */
export type FiberBody<T> = Iterator<unknown, T, any> | (() => Iterator<unknown, T, any>);

const NONE: readonly never[] = [];

/** The outcome of a fiber's function. */
interface Result {
  readonly state: typeof OK | typeof FAILED;
  readonly value: unknown;
}

export class Fiber<T> extends BaseFuture<T> implements FiberFuture<T>, Waiter, TreeNode<Fiber<unknown>> {
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
  /** Kept until the fiber has ended, because the name of the function is also the fiber's. */
  private body: FiberBody<T> | null;
  private generator: Iterator<unknown, T, any> | null = null;
  /** True if the generator is one of a `function*`; see `GENERATOR`. */
  private isPlain = false;
  private waiting: BaseFuture<unknown> | null = null;
  /** The future whose settling woke the fiber. Its outcome is the result of the pending `yield`. */
  private woken: BaseFuture<unknown> | null = null;
  /** Thrown at the `yield` where the fiber is, or at the next one that would wait. */
  interruption: Error | null = null;
  /** True if the fiber is to leave its function at the pending `yield`, through the `finally` blocks. */
  private isLeaving = false;
  /** The outcome of the fiber's function, while the fibers that it owns clean up. */
  private result: Result | null = null;
  /** True if the fiber is to settle without waiting for the rest of that cleanup. */
  private isReleased = false;

  constructor(scheduler: FiberScheduler, id: number, body: FiberBody<T>, isShielded: boolean) {
    super(scheduler);
    this.id = id;
    this.body = body;
    this.isShielded = isShielded;
  }

  /** True if the fiber's function was called and the fiber has not settled. */
  get hasBegun(): boolean {
    return this.generator !== null || this.result !== null;
  }

  /** True while the fiber, which was told to cancel, waits for the cleanup of others before it gets its error. */
  get isHeld(): boolean {
    return this.waiting instanceof Cleanup && this.result === null;
  }

  /** The future that the fiber waits on; `null` if it does not wait. */
  get waitingOn(): BaseFuture<unknown> | null {
    return this.waiting;
  }

  wake(source: BaseFuture<unknown>): void {
    if (this.waiting !== source) return;
    this.waiting = null;
    this.woken = source;
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
    if (this.result !== null) {
      this.isReleased = true;
      // A cancellation that leads to a deadlock is still a cancellation.
      if (!this.isTold) this.result = { state: FAILED, value: error };
    }
    if (this.stopWaiting() !== null) this.scheduler.ready(this);
  }

  /** Leaves the fiber's function at the pending `yield`, as if a `return` stood there. */
  leave(): void {
    if (this.state !== PENDING) return;
    this.isLeaving = true;
    if (this.stopWaiting() !== null) this.scheduler.ready(this);
  }

  /**
   * Tells this fiber alone to cancel. The fiber gets a `CancelledError` at its `yield`, once the told fibers under the
   * future that it waits for have ended. Returns the future that the fiber waited for and no longer waits for. A wait
   * for an `uncancellable` block is not interrupted: the error comes at the next `yield` that would wait for something
   * else.
   */
  tell(reason: string | undefined): BaseFuture<unknown> | null {
    const { scheduler } = this;
    this.isTold = true;
    this.interruption = new CancelledError(reason);
    if (this.waiting instanceof UncancellableBlock) return null;
    const waited = this.stopWaiting();
    if (waited === null) return null;
    if (scheduler.cancelling.hasCleanup([waited])) scheduler.cancelling.holdFiber(this as Fiber<unknown>, waited);
    else scheduler.ready(this);
    return waited;
  }

  hold(cleanup: Cleanup | null): void {
    if (cleanup === null) this.scheduler.ready(this);
    else this.waitFor(cleanup);
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

  override describe(): string {
    const { id, body } = this;
    if (id === 0) return 'the main fiber';
    const name = typeof body === 'function' ? body.name : '';
    return name === '' ? `fiber ${id}` : `fiber ${id} (${name})`;
  }

  /** Runs user code until it waits or ends. */
  advance(): void {
    const { scheduler, result } = this;
    if (this.state !== PENDING) return;
    if (result !== null) {
      this.goOnEnding(result);
      return;
    }
    const { woken } = this;
    let fails = false;
    let value: unknown;
    if (woken !== null) {
      this.woken = null;
      fails = woken.state === FAILED;
      value = woken.value;
    }
    // An interruption outranks the result of the wait: it was asked for and must not get lost. The result of a block,
    // which could not be interrupted, goes first.
    if (this.interruption !== null && this.generator !== null && !(woken instanceof UncancellableBlock)) {
      value = woken instanceof Cleanup ? woken.errorFor(this.interruption) : this.interruption;
      this.interruption = null;
      this.isLeaving = false;
      fails = true;
    }
    for (;;) {
      let step: IteratorResult<unknown, T>;
      enter(this);
      try {
        step = this.step(fails, value);
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
      let state: State | undefined;
      try {
        if (yielded instanceof BaseFuture && yielded.scheduler === scheduler) state = yielded.poll();
      } catch (error) {
        // The value is a proxy of the user's that threw.
        if (!types.isProxy(yielded)) throw error;
      }
      if (state === undefined) {
        fails = true;
        value = notAFuture(yielded);
        continue;
      }
      // Polling may decide a race whose losers are to be cancelled, and the losers may be part of the yielded future.
      while (scheduler.runCancels()) state = yielded.poll();
      // A block could not be interrupted, so it gives its result.
      const isPressed = scheduler.isPressed && this.interruption !== null && !(yielded instanceof UncancellableBlock);
      if (state === PENDING || isPressed) {
        const { interruption } = this;
        if (interruption === null || yielded instanceof UncancellableBlock) {
          this.waitFor(yielded);
          return;
        }
        // Treated as if the fiber had already waited when the cancellation came.
        if (interruption instanceof CancelledError) {
          const isHeld = scheduler.cancelling.hasCleanup([yielded]);
          if (isHeld) scheduler.cancelling.holdFiber(this as Fiber<unknown>, yielded);
          if (!yielded.isAwaited) scheduler.cancelling.soon(yielded, interruption.reason);
          scheduler.runCancels();
          if (isHeld || scheduler.refusal !== null) return;
        }
        this.interruption = null;
        fails = true;
        value = interruption;
        continue;
      }
      fails = state === FAILED;
      value = yielded.value;
    }
  }

  private step(fails: boolean, value: unknown): IteratorResult<unknown, T> {
    const generator = this.generator ?? this.begin();
    if (this.isLeaving) {
      this.isLeaving = false;
      return generator.return?.() ?? { done: true, value: undefined as T };
    }
    if (this.isPlain)
      return (fails ? GENERATOR.throw : GENERATOR.next).call(generator, value) as IteratorResult<unknown, T>;
    if (!fails) return generator.next(value);
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
    return this.generator;
  }

  private waitFor(future: BaseFuture<unknown>): void {
    this.waiting = future;
    future.subscribe(this);
  }

  /** Stops waiting. Returns the future that the fiber waited for. */
  private stopWaiting(): BaseFuture<unknown> | null {
    const { waiting } = this;
    if (waiting === null) return null;
    this.waiting = null;
    waiting.unsubscribe(this);
    return waiting;
  }

  /**
   * Records the end of the fiber's function. The fiber settles, unless fibers that it owns, or has inherited by now,
   * have to clean up first.
   */
  private end(state: typeof OK | typeof FAILED, value: unknown): void {
    this.generator = null;
    if (this.isTold || this.id === 0) {
      const [first, ...others] = this.isReleased ? NONE : this.scheduler.cancelling.unfinished(this as Fiber<unknown>);
      if (first !== undefined) {
        this.result = { state, value };
        this.waitFor(new Cleanup([first, ...others]));
        return;
      }
    }
    this.conclude(state, value);
  }

  /**
   * Goes on after the wait that followed the end of the function. The fiber may have inherited more fibers meanwhile.
   */
  private goOnEnding({ state, value }: Result): void {
    const { woken } = this;
    const failures =
      woken instanceof Cleanup && state === OK && this.scheduler.cancelling.isFailing(this as Fiber<unknown>)
        ? woken.failures
        : NONE;
    if (failures.length > 0) this.end(FAILED, failures[0]);
    else this.end(state, value);
  }

  private conclude(state: typeof OK | typeof FAILED, value: unknown): void {
    this.generator = null;
    this.body = null;
    this.result = null;
    this.scheduler.ended(this as Fiber<unknown>);
    this.settle(state, value);
  }
}

/** A block of `uncancellable`: no cancellation reaches it, and its waiters wait until it is done. */
export class UncancellableBlock<T> extends Fiber<T> {
  constructor(scheduler: FiberScheduler, id: number, body: FiberBody<T>) {
    super(scheduler, id, body, true);
  }

  override abandon(): void {}

  override interrupt(): void {}

  override settle(state: typeof OK | typeof FAILED, value: unknown): void {
    this.scheduler.blocks -= 1;
    super.settle(state, value);
  }
}

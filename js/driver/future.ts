// Future<T>: the result of work that was already started.
//
// A future is a leaf (an operation of the engine, a wait for a message, a fiber) or a combinator over futures. It knows
// its waiters, and nothing else of them: waking is left to the waiter.
//
// Invariants:
//
//   U1. A future settles once. Leaves settle in history's order. Each takes the next number of its instance's settle
//       sequence, so that a waiter that looks later still knows which came first.
//   U2. `onAwaited` is called when the first waiter comes, and `onForgotten` when the last one goes or the future
//       settles. A leaf is awaited exactly while a fiber waits on it, directly or through combinators. That makes waits
//       demand driven.
//   U3. A future is used once a fiber has waited for it, or the code has cancelled it. The parts of a used combinator
//       are used. Work that is never used is reported (unawaited.ts).
//   U4. Settling runs no user code. It wakes waiters, and waking a fiber puts it into the ready queue.

import { inspect } from 'node:util';

import { markCopy } from '../util/copy.ts';
import { FUTURE, type FutureNote, show } from '../util/show.ts';
import { WorkList } from '../util/work-list.ts';
import type { TypeRegistry } from '../values/value-types.ts';
import { type ConversionHint, convertedFuture, usedAs } from './converted-future.ts';
import { type SourceMark, sourceLines } from './source.ts';

declare const brand: unique symbol;

/**
 * The result of work that is under way: of an activity, a timer, a wait, a fiber or a combination of them.
 *
 * `yield* future` waits for the future and gives the value with its type. `yield future` does the same and gives `any`.
 * If the work failed, the error is thrown there. Any number of fibers of the orchestration can wait for a future, any
 * number of times. A future in the place of its value, as in a text or in the input of an activity, throws an error.
 *
 * @example
 * ```ts
 * const a = ctx.scheduleActivity<number>('price', 'apple');   // both run from here on
 * const b = ctx.scheduleActivity<number>('price', 'pear');
 * const sum = (yield* a) + (yield* b);
 * ```
 */
export interface Future<out T> {
  /** Keeps other iterables from being taken for futures. The property is never there. */
  readonly [brand]?: T;
  [Symbol.iterator](): Iterator<Future<unknown>, T, any>;
  /**
   * Cancels the activity, timer, wait, fiber or combination; each waiter gets a `CancelledError`. A running activity is
   * told by its `signal`. A fiber gets the error once, at the `yield` where it is, and so do the fibers that it
   * spawned. Futures that only this fiber waited for are cancelled too, and the fiber settles when all of that has
   * cleaned up. Nothing happens to a future that has settled, nor to a block of `uncancellable`.
   *
   * @param reason - shown in the error's message
   * @throws TypeError when the reason is no string
   * @throws DeterminismError when it is called anywhere but in the code of its own orchestration, as in a callback or
   *   in a function of `ctx.run`
   */
  cancel(reason?: string): void;
}

/** A future of the value that a fiber returns, as `ctx.spawn` makes it. */
export interface FiberFuture<out T> extends Future<T> {
  /**
   * Throws an error at the `yield` where the fiber is, and at the `yield` of each fiber that it spawned. A fiber that
   * has not begun never begins. The error is thrown at each call, also while the fibers clean up. The futures that they
   * waited for are not cancelled, and can be waited for again. A block of `uncancellable` comes to its end first. A
   * cancellation that is on its way comes in place of the error. Nothing happens once the fiber has settled.
   *
   * @throws TypeError when `error` is no error
   * @throws DeterminismError as {@link cancel}
   *
   * @example
   * ```ts
   * class Reload extends Error {}
   * const server = ctx.spawn(function* () {
   *   for (;;) {
   *     try {
   *       return yield* serve(yield* ctx.call(loadConfig));
   *     } catch (error) {
   *       if (!(error instanceof Reload)) throw error;
   *     }
   *   }
   * });
   * yield* ctx.waitForEvent('reload');
   * server.interrupt(new Reload());
   * ```
   */
  interrupt(error: Error): void;
}

export const PENDING = 0;
export const OK = 1;
export const FAILED = 2;
export type State = typeof PENDING | typeof OK | typeof FAILED;

const NO_PARTS: readonly BaseFuture<unknown>[] = [];

/** A waiter of a future, such as a fiber or a combinator. */
export interface Waiter {
  /** 0 for fibers. A combinator is woken after the combinators that it is made of. */
  readonly wakeRank: number;
  /**
   * Called when a future that it waits for has settled. It may be called once more than asked for; that call does
   * nothing.
   */
  wake(source: BaseFuture<unknown>): void;
}

interface Wake {
  readonly waiter: Waiter;
  readonly source: BaseFuture<unknown>;
}

const wakes = new WorkList<Wake>(({ waiter, source }) => waiter.wake(source));

/** The part of the scheduler that futures use. */
export interface SchedulerForFutures {
  /** True while a fiber of the instance runs. */
  readonly isRunning: boolean;
  /** The classes whose instances values may hold. */
  readonly types: TypeRegistry;
  /** Returns a stored value. `what` is the user's name for it. */
  read(text: string | null, what: string): unknown;
  assertRunning(method: string, of?: 'ctx' | 'future'): void;
  cancel(future: BaseFuture<unknown>, reason: string | undefined): void;
  nextOrder(): number;
}

/** The base of all futures. */
export abstract class BaseFuture<T> implements Future<T> {
  declare readonly [brand]?: T;
  readonly scheduler: SchedulerForFutures;
  /** The place where the orchestration asked for the future, if that is recorded. */
  declare readonly source?: SourceMark | undefined;
  state: State = PENDING;
  /** The value or the error, once the future has settled. */
  value: unknown = undefined;
  /** The future's place in the settle sequence of its instance, once the future has settled. */
  order = 0;
  /** True once the code has waited for the future, or has cancelled it. */
  isUsed = false;
  /**
   * One waiter is by far the most common case and costs no set. A set keeps the waiters in the order in which they
   * came.
   */
  private waiters: Waiter | Set<Waiter> | null = null;

  constructor(scheduler: SchedulerForFutures) {
    this.scheduler = scheduler;
  }

  [Symbol.iterator](): Iterator<Future<unknown>, T, any> {
    return new FutureIterator<T>(this);
  }

  cancel(reason?: string): void {
    if (reason !== undefined && typeof reason !== 'string')
      throw new TypeError(`future.cancel: the reason must be a string, got ${show(reason)}`);
    this.scheduler.assertRunning('cancel', 'future');
    this.use();
    this.scheduler.cancel(this, reason);
  }

  /** The description, for messages of code that knows no futures. */
  get [FUTURE](): FutureNote {
    return { what: this.describe(), lines: sourceLines(this.source) };
  }

  // A future in the place of its value would go unnoticed as `[object Object]`, `NaN` or the JSON of its fields.

  [Symbol.toPrimitive](hint: ConversionHint): never {
    throw convertedFuture(this.describe(), hint, this[Symbol.toPrimitive]);
  }

  toString(): never {
    throw convertedFuture(this.describe(), 'string', this.toString);
  }

  toJSON(): never {
    throw usedAs(this.describe(), 'JSON', this.toJSON);
  }

  [inspect.custom](): string {
    return `Future { ${this.describe()}: write \`yield*\` before the call for its value }`;
  }

  /** Marks the future, and the parts that it is made of, as used. */
  use(): void {
    if (this.isUsed) return;
    this.isUsed = true;
    this.onUsed();
    if (this.parts.length === 0) return;
    // A loop, because combinators nest without limit.
    const found = [...this.parts];
    for (const part of found) {
      if (part.isUsed) continue;
      part.isUsed = true;
      part.onUsed();
      for (const next of part.parts) found.push(next);
    }
  }

  /** Returns the current state. A combinator without a waiter computes it. */
  poll(): State {
    return this.state;
  }

  get isAwaited(): boolean {
    return this.waiters !== null;
  }

  /** The futures that a combinator is made of; empty for any other future. */
  get parts(): readonly BaseFuture<unknown>[] {
    return NO_PARTS;
  }

  /**
   * True if the future is a step: an activity or a child, whose work goes on outside, or a combinator that waits for
   * steps and fibers alone.
   */
  get isStep(): boolean {
    return false;
  }

  get isFiber(): boolean {
    return false;
  }

  /** Adds a waiter to a future that `poll` has found pending. Returns false if it is a waiter already. */
  subscribe(waiter: Waiter): boolean {
    const waiters = this.waiters;
    if (waiters === null) {
      this.waiters = waiter;
      this.onAwaited();
      return true;
    }
    if (waiters instanceof Set) {
      if (waiters.has(waiter)) return false;
      waiters.add(waiter);
      return true;
    }
    if (waiters === waiter) return false;
    this.waiters = new Set([waiters, waiter]);
    return true;
  }

  unsubscribe(waiter: Waiter): void {
    const waiters = this.waiters;
    if (waiters === waiter) {
      this.waiters = null;
      this.onForgotten();
    } else if (waiters instanceof Set && waiters.delete(waiter) && waiters.size === 0) {
      this.waiters = null;
      this.onForgotten();
    }
  }

  /** Settles a leaf, now. */
  settle(state: typeof OK | typeof FAILED, value: unknown): void {
    if (this.state === PENDING) this.settleAt(state, value, this.scheduler.nextOrder());
  }

  /**
   * Settles a leaf with a stored value, or with the error if the stored text is damaged. `what` is the user's name for
   * it.
   */
  protected settleStored(text: string | null, what: string): void {
    let value: unknown;
    try {
      value = this.scheduler.read(text, what);
    } catch (error) {
      this.settle(FAILED, error);
      return;
    }
    this.settle(OK, value);
  }

  /**
   * Settles at a place in the sequence that may be past: a combinator takes the place of the branch that decided it.
   */
  protected settleAt(state: typeof OK | typeof FAILED, value: unknown, order: number): void {
    this.state = state;
    this.value = value;
    this.order = order;
    const waiters = this.waiters;
    if (waiters === null) return;
    this.waiters = null;
    this.onForgotten();
    if (waiters instanceof Set) {
      for (const waiter of waiters) wakes.add({ waiter, source: this }, waiter.wakeRank);
      wakes.run();
    } else if (waiters.wakeRank > 0) {
      wakes.do({ waiter: waiters, source: this }, waiters.wakeRank);
    } else {
      waiters.wake(this);
    }
  }

  /** Describes the future for a message, as in "waits for …". A combination shows `depth` levels. */
  abstract describe(depth?: number): string;

  /**
   * Abandons a pending future. Only `Cancelling.run` calls this, one future at a time; see
   * {@link SchedulerForFutures.cancel}.
   */
  abstract abandon(reason: string | undefined): void;

  /** Called when the code waits for the future for the first time, or cancels it. */
  protected onUsed(): void {}

  /** Called when the first waiter has come. */
  protected onAwaited(): void {}

  /** Called when the last waiter has gone, or the future has settled. */
  protected onForgotten(): void {}
}

markCopy(BaseFuture);

/** The iterator behind `yield*`: it hands the future to the fiber once, unless the value is there already. */
class FutureIterator<T> implements Iterator<Future<unknown>, T, any> {
  private readonly future: BaseFuture<T>;
  private asked = false;

  constructor(future: BaseFuture<T>) {
    this.future = future;
  }

  next(...sent: readonly unknown[]): IteratorResult<Future<unknown>, T> {
    if (this.asked) return { done: true, value: sent[0] as T };
    const future = this.future;
    // `yield*` always sends a value, `undefined` at first. `for … of` and a spread send none.
    if (sent.length === 0) throw usedAs(future.describe(), 'a list', this.next);
    // A value that is there needs no round through the fiber. Everything else takes that round, because the fiber
    // decides about errors and about futures of another instance.
    if (future.state === OK && future.scheduler.isRunning) {
      if (!future.isUsed) future.use();
      return { done: true, value: future.value as T };
    }
    this.asked = true;
    return { done: false, value: future };
  }

  throw(error: unknown): never {
    throw error;
  }

  return(value: T): IteratorResult<Future<unknown>, T> {
    return { done: true, value };
  }
}

// Fiber<T>: one strand of an orchestration, driven over its generator.
//
// A fiber owns its generator and what it waits for. The scheduler owns the ready queue and the set of fibers.
//
// Invariants:
//
//   B1. User code runs only inside `advance`, which only the scheduler's `runReady` calls. `wake`, `throwAtYield` and
//       whatever settles a future run none: they put the fiber into the ready queue.
//   B2. A fiber is exactly one of: in the ready queue (or never started), running, waiting on one future (which may be the
//       cleanup of others, before its error or after its function has ended), settled.
//   B3. `advance` goes on over futures that have settled in a loop, so the stack stays flat however many there are.
//   B4. A fiber that its instance drops is forgotten where it stands: no `finally` of user code runs.

import { types } from 'node:util';

import { CancelledError, DeterminismError } from '../errors/errors.ts';
import { disregardPromises, isInstance, property, show } from '../util/show.ts';
import { Cleanup } from './cleanup.ts';
import { enter, leave } from './current.ts';
import type { TreeNode } from './fiber-tree.ts';
import { BaseFuture, FAILED, type FiberFuture, OK, PENDING, type State, type Waiter } from './future.ts';
import type { FiberScheduler } from './scheduler.ts';

/** What a fiber runs: a generator, or what makes one when it starts. */
export type FiberBody<T> = Iterator<unknown, T, any> | (() => Iterator<unknown, T, any>);

const NONE: readonly never[] = [];

/** How a fiber's function has ended. */
interface Result {
  readonly state: typeof OK | typeof FAILED;
  readonly value: unknown;
}

export class Fiber<T> extends BaseFuture<T> implements FiberFuture<T>, Waiter, TreeNode<Fiber<unknown>> {
  /** Its number within the instance, from 0 (the main fiber) in order of creation. */
  readonly id: number;
  /** Whether it runs within an `uncancellable` block: a cancellation of the instance passes it by. */
  readonly isShielded: boolean;
  readonly wakeRank = 0;
  owner: Fiber<unknown> | null = null;
  firstOwned: Fiber<unknown> | null = null;
  lastOwned: Fiber<unknown> | null = null;
  before: Fiber<unknown> | null = null;
  after: Fiber<unknown> | null = null;
  /** The values of `contextLocal` that it has; shared with others, and so replaced and not changed. */
  locals: ReadonlyMap<object, unknown> | null = null;
  /** Whether it was told to cancel. That comes once: what asks again must not interrupt the cleanup. */
  isTold = false;
  /** Until it has ended: its function's name is its own, too. */
  private body: FiberBody<T> | null;
  private generator: Iterator<unknown, T, any> | null = null;
  /** Whether the generator is one of a `function*`, see `GENERATOR`. */
  private isPlain = false;
  private waiting: BaseFuture<unknown> | null = null;
  /** The future whose settling woke it: its outcome is what the pending `yield` gives. */
  private woken: BaseFuture<unknown> | null = null;
  /** Thrown at the `yield` where it is, or at the next one that would wait. */
  interruption: Error | null = null;
  /** Whether its function is to be left where it is, through its `finally` blocks. */
  private isLeaving = false;
  /** How its function has ended, while what it owns cleans up. */
  private result: Result | null = null;
  /** Whether it is to settle without what is left of that. */
  private isReleased = false;

  constructor(scheduler: FiberScheduler, id: number, body: FiberBody<T>, isShielded: boolean) {
    super(scheduler);
    this.id = id;
    this.body = body;
    this.isShielded = isShielded;
  }

  /** Whether its function was called and it has not settled. */
  get hasBegun(): boolean {
    return this.generator !== null || this.result !== null;
  }

  /** Whether it was told, and gets the error when others have cleaned up. */
  get isHeld(): boolean {
    return this.waiting instanceof Cleanup && this.result === null;
  }

  /** What it waits on. */
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
   * Make the pending `yield` throw `error`, whatever it waits on; if there is none, the next one that would wait. One whose function has
   * ended waits for no cleanup any more.
   */
  throwAtYield(error: Error): void {
    if (this.state !== PENDING) return;
    this.interruption = error;
    if (this.result !== null) {
      this.isReleased = true;
      // A cancellation that leads to a deadlock is a cancellation all the same.
      if (!this.isTold) this.result = { state: FAILED, value: error };
    }
    if (this.stopWaiting() !== null) this.scheduler.ready(this);
  }

  /** Leave its function at the pending `yield`, as if a `return` stood there. */
  leave(): void {
    if (this.state !== PENDING) return;
    this.isLeaving = true;
    if (this.stopWaiting() !== null) this.scheduler.ready(this);
  }

  /**
   * It alone is told to cancel: it gets a `CancelledError` at its `yield`, once what is told under what it waits for has ended. Returns what
   * it waited for, and no longer does. A wait for an `uncancellable` block is not interrupted: the error comes at the next
   * `yield` that would wait for something else.
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

  /** It has not begun and is not to: there is nothing in it that could catch. */
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

  /** Run user code until it waits or ends. */
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
    // An interruption outranks what the wait gave: it was asked for and must not get lost. Not so what a block gave that
    // could not be interrupted.
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
        // A proxy of the user's that threw.
        if (!types.isProxy(yielded)) throw error;
      }
      if (state === undefined) {
        fails = true;
        value = notAFuture(yielded);
        continue;
      }
      // To look at it may decide a race whose losers are to be cancelled, and they may be part of what is looked at.
      while (scheduler.runCancels()) state = yielded.poll();
      // A block that could not be interrupted gives what it has come to.
      const isPressed = scheduler.isPressed && this.interruption !== null && !(yielded instanceof UncancellableBlock);
      if (state === PENDING || isPressed) {
        const { interruption } = this;
        if (interruption === null || yielded instanceof UncancellableBlock) {
          this.waitFor(yielded);
          return;
        }
        // As if it had waited already when the cancellation came.
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
    // Every generator has `throw`; another iterator may not, and is then over.
    if (generator.throw === undefined) throw value;
    return generator.throw(value);
  }

  private begin(): Iterator<unknown, T, any> {
    const { body } = this;
    const generator = typeof body === 'function' ? body() : body;
    if (!isGenerator(generator)) {
      throw new TypeError(`an orchestration must be a function*, but this one returned ${describeValue(generator)}`);
    }
    this.isPlain = isPrototypeOf.call(GENERATOR, generator);
    this.generator = generator as Iterator<unknown, T, any>;
    return this.generator;
  }

  private waitFor(future: BaseFuture<unknown>): void {
    this.waiting = future;
    future.subscribe(this);
  }

  /** What it waited for, and no longer does. */
  private stopWaiting(): BaseFuture<unknown> | null {
    const { waiting } = this;
    if (waiting === null) return null;
    this.waiting = null;
    waiting.unsubscribe(this);
    return waiting;
  }

  /** Its function has ended: it settles, unless what it owns, or has inherited by now, has to clean up before. */
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

  /** What it waited for after its function has ended, has ended; it may have inherited more. */
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

/** A block of `uncancellable`: nothing that cancels gets at it, and whoever waits for it waits until it is done. */
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

const { isPrototypeOf } = Object.prototype;
/**
 * What all generators of this realm inherit from. Between it and them, every `function*` that is evaluated puts a prototype
 * of its own, so a look at a property of a fiber's generator is a slow one at first; this is the way around that.
 */
const GENERATOR = Object.getPrototypeOf(Object.getPrototypeOf((function* () {})())) as Generator;

/** Whether a value is what a call of a `function*` returns. */
export function isGenerator(value: unknown): value is Generator<unknown, unknown, any> {
  if (typeof value !== 'object' || value === null) return false;
  try {
    if (isPrototypeOf.call(GENERATOR, value)) return true;
  } catch {
    // A proxy that does not tell its prototype.
    return false;
  }
  if (value instanceof BaseFuture) return false;
  // Those of another realm, and those that a compiler made of something else.
  return ['next', 'throw', Symbol.iterator].every((key) => typeof property(value, key) === 'function');
}

/** On a generator that a fiber runs, or has run. A property, because adding to a WeakSet takes ten times as long. */
const CLAIMED = Symbol('run by a fiber');

interface Claimable {
  [CLAIMED]?: boolean;
}

/**
 * A generator is to be run by a fiber of its own.
 *
 * @param where - where it was handed over, for the error
 * @throws TypeError when another fiber runs it or has run it: each would get a part of what it does
 */
export function claim(generator: object, where: string): void {
  const claimable = generator as Claimable;
  if (claimable[CLAIMED] === true) {
    throw new TypeError(
      `${where} is a generator that a fiber runs already, or has run: call its function* again for another one`,
    );
  }
  // One that is frozen has no place for it.
  if (Object.isExtensible(claimable)) claimable[CLAIMED] = true;
}

/** The call that claimed the generator was refused: another call may claim it. */
export function unclaim(generator: object): void {
  // A frozen one was not marked, and an assignment would throw.
  delete (generator as Claimable)[CLAIMED];
}

/** The prototypes of this realm's async functions. Each `ctx.spawn` compares with them, which is quicker than reading the tag of the function. */
const ASYNC = [async () => {}, async function* () {}].map((fn) => Object.getPrototypeOf(fn) as object);

/** Why a function makes no generator when it is called; `undefined`: perhaps it does. */
export function asyncRefusal(fn: object): string | undefined {
  let prototype: object | null = null;
  try {
    prototype = Object.getPrototypeOf(fn) as object | null;
  } catch {
    // A proxy that does not tell.
  }
  const isAsync = prototype === ASYNC[0] || prototype === ASYNC[1];
  return isAsync ? 'an async function: its asynchronous work belongs in activities' : undefined;
}

/** A value that is refused, in the error message. */
export function describeValue(value: unknown): string {
  disregardPromises(value);
  // It may be of a payload.
  if (typeof value === 'string') return 'a string';
  if (typeof value === 'number' || typeof value === 'boolean') return `the ${typeof value} ${value}`;
  if (typeof value !== 'object' || value === null) return show(value);
  if (typeof property(value, 'then') === 'function') return 'a promise';
  if (typeof property(value, Symbol.asyncIterator) === 'function') return 'an async generator';
  if (isGenerator(value)) return 'a generator';
  return show(value);
}

/** What an orchestration is told that yielded something that cannot be waited for. */
function notAFuture(value: unknown): DeterminismError {
  if (isInstance(value, BaseFuture) && !types.isProxy(value)) {
    return new DeterminismError(
      'a future of another orchestration was yielded: every instance can wait only for its own',
      {
        called: 'yield',
        instead: 'ctx.scheduleActivity',
      },
    );
  }
  const what = describeValue(value);
  const instead = remedy(what);
  return new DeterminismError(`${what} was yielded, which an orchestration cannot wait for: ${instead}`, {
    called: `yield of ${what}`,
    instead,
  });
}

function remedy(what: string): string {
  switch (what) {
    case 'a promise':
      return "do the asynchronous work in an activity and write `yield ctx.scheduleActivity('name', input)`";
    case 'an async generator':
      return 'orchestrations are written as `function*`, without `async`';
    case 'a generator':
      return 'write `yield* block()` to run it here, or `yield ctx.spawn(block)` to run it as a fiber';
    case 'an array':
      return 'write `yield ctx.all([…])`';
    case 'a function':
      return 'call it, and yield the future that it returns';
    default:
      return 'yield what a method of the context returned, such as `yield ctx.scheduleTimer(1000)`';
  }
}

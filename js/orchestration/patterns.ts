// The methods of a context that are made of others: what orchestrations would otherwise write by hand.

import type { Branch, BranchValue } from '../driver/branch.ts';
import type { FiberFuture, Future } from '../driver/future.ts';
import type { Lockable } from './lockable.ts';

/** Options of {@link OrchestrationPatterns.map}. */
export interface MapOptions<T> {
  /** The number of items that are under way at a time, at most: a whole number > 0. Default 64. */
  concurrency?: number;
  /**
   * Names an item, for the error if it fails, and for its fiber where the waits of an instance are shown. The name is
   * the same wherever the item is in the list.
   */
  key?: (item: T, index: number) => string;
  /**
   * True (default): the first failure ends the map. False: all items are done, and the result holds the outcome of
   * each.
   */
  stopOnError?: boolean;
}

/**
 * Registers a compensation of a saga.
 *
 * @param compensation - a `function*`, or a function that returns a future
 * @throws TypeError when it is no function
 * @throws DeterminismError when the saga has ended
 */
export type Undo = (compensation: () => Generator<Future<any>, unknown, any> | Future<unknown>) => void;

/** Methods of {@link OrchestrationContext} for frequent combinations of its other methods. */
export interface OrchestrationPatterns {
  /**
   * Runs a step for each item, a limited number of them at a time. Gives the results in the order of the items. Starts
   * at once, in a fiber of its own. Items are taken one by one when there is room, so `items` may be a generator of any
   * length, in which the code yields nothing else.
   *
   * The first item that fails ends the map: no other item begins. Items under way come to the end of the activity or
   * child that they wait for, and are cancelled at their next wait, as with `awaitLosers`. The map fails when they have
   * ended. With `stopOnError: false` all items are done, and the result holds the outcome of each, as that of
   * `allSettled`. A map that is cancelled cancels the items under way.
   *
   * @param items - a list or another iterable
   * @param fn - called with an item and its index, from 0: a `function*`, or a function that returns a future
   * @returns a future of the results; it fails with `MapItemError`, which names `index` and `key` of the item (`cause`
   *   is its error)
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const receipts = yield* ctx.map(orders, (order) => ctx.call(charge, order), { concurrency: 10 });
   * ```
   */
  map<T, B extends Branch>(
    items: Iterable<T>,
    fn: (item: T, index: number) => B,
    options?: MapOptions<T> & { stopOnError?: true },
  ): FiberFuture<BranchValue<B>[]>;

  map<T, B extends Branch>(
    items: Iterable<T>,
    fn: (item: T, index: number) => B,
    options: MapOptions<T> & { stopOnError: false },
  ): FiberFuture<PromiseSettledResult<BranchValue<B>>[]>;

  map<T, B extends Branch>(
    items: Iterable<T>,
    fn: (item: T, index: number) => B,
    options: MapOptions<T>,
  ): FiberFuture<BranchValue<B>[] | PromiseSettledResult<BranchValue<B>>[]>;

  /**
   * Runs a block whose steps are undone if it fails or is cancelled. `undo` registers a compensation. Call `undo`
   * before the step that it undoes: a step that fails, or whose answer is lost, may have had its effect. So a
   * compensation must also be right if its step never happened.
   *
   * Before compensation begins, the block comes to rest: its fibers are cancelled at their next wait, and activities
   * and children that run come to their ends. The compensations then run one after the other, the last one first, and
   * no cancellation interrupts them. All of them run, even if some fail. Then the error of the block is thrown.
   *
   * A saga that is cancelled from outside does not wait for its activities: they are told by their `signal`.
   *
   * @param body - a `function*` that is given `undo`
   * @returns a future of its result; it fails with the error of the block, or with `CompensationError` if compensations
   *   failed too (`cause` is the error of the block, `errors` are theirs). If the block was cancelled, that error is
   *   the `cause` of the `CancelledError`
   * @throws TypeError when `body` is no function
   *
   * @example
   * ```ts
   * yield* ctx.saga(function* (undo) {
   *   undo(() => ctx.call(cancelFlight, trip));
   *   yield* ctx.call(bookFlight, trip);
   *   undo(() => ctx.call(cancelHotel, trip));
   *   yield* ctx.call(bookHotel, trip);
   * });
   * ```
   */
  saga<T>(body: (undo: Undo) => Generator<Future<any>, T, any>): FiberFuture<T>;

  /**
   * Runs a block that holds locks: of each, only as many blocks run at a time as it has permits, over all
   * orchestrations and processes of the store. Blocks get a lock in the order in which they asked for it. While an
   * entity is locked, it takes the calls of the block alone, and the calls of others wait.
   *
   * Several locks are taken in the order of their ids, so blocks do not wait for each other in a circle. A block that
   * asks for more locks would break this, so it is refused. So is an entity that locks itself.
   *
   * The locks are given back when the block has returned, has failed, or was cancelled and has cleaned up, and when
   * this execution ends in another way, such as a termination. While this instance is suspended, it keeps them.
   *
   * @param what - the name of a lock, a result of `defineLock`, an entity as `cart.at('user-7')`, or a list of 1 to 100
   * @param block - a `function*`, or the generator that a call of one returned. It begins when all locks are held
   * @returns a future of its result; it fails with the error of the block, with `LimitError` when 10 000 wait for a
   *   lock, and with `RuntimeStateError` when somebody stopped the child that holds the locks. Then the block is
   *   cancelled first
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * yield* ctx.lock([account.at('a'), account.at('b')], function* () {
   *   yield* ctx.entity(account, 'a').add(-10);
   *   yield* ctx.entity(account, 'b').add(10);
   * });
   * ```
   */
  lock<T>(
    what: Lockable | readonly Lockable[],
    block: (() => Generator<Future<any>, T, any>) | Generator<Future<any>, T, any>,
  ): FiberFuture<T>;
}

// map: a step for each item of a list, a limited number of them at a time.
//
// A fiber takes the items. It starts workers, fibers that it owns, which take one item after the other. So the number
// of fibers is that of the items under way, at any length of the list.

import { CancelledError, MapItemError } from '../errors/errors.ts';
import { all } from './all.ts';
import { currentFiber } from './current.ts';
import type { Fiber } from './fiber.ts';
import { BaseFuture, type Future } from './future.ts';
import { claim, describeValue, isGenerator } from './generator.ts';
import type { FiberScheduler } from './scheduler.ts';

/** The arguments of `ctx.map`, checked. */
export interface MapCall {
  readonly items: Iterable<unknown>;
  readonly fn: (item: unknown, index: number) => unknown;
  readonly concurrency: number;
  readonly key: ((item: unknown, index: number) => unknown) | undefined;
  readonly stopOnError: boolean;
}

type Steps<T> = Generator<Future<unknown>, T, any>;

/** Runs a step for each item, in a fiber of its own. */
export function map(scheduler: FiberScheduler, call: MapCall): Fiber<unknown[]> {
  return scheduler.spawn(function* map(): Steps<unknown[]> {
    return yield* new Mapping(scheduler, call).run();
  });
}

class Mapping {
  private readonly scheduler: FiberScheduler;
  private readonly call: MapCall;
  private readonly source: Iterator<unknown>;
  private readonly results: unknown[] = [];
  private taken = 0;
  private isDone = false;

  constructor(scheduler: FiberScheduler, call: MapCall) {
    this.scheduler = scheduler;
    this.call = call;
    this.source = call.items[Symbol.iterator]();
  }

  *run(): Steps<unknown[]> {
    const { scheduler, call } = this;
    const workers: Fiber<void>[] = [];
    try {
      while (workers.length < call.concurrency) {
        const item = this.take();
        if (item === undefined) break;
        workers.push(scheduler.spawn(() => this.work(item)));
      }
      yield all(scheduler, workers, { cancelLosers: true, awaitLosers: true }) as Future<unknown>;
    } finally {
      if (!this.isDone) this.source.return?.();
    }
    return this.results;
  }

  /** Runs the step of an item, and then those of the items that are left. */
  private *work(first: Item): Steps<void> {
    const fiber = currentFiber() as Fiber<unknown>;
    for (let item: Item | undefined = first; item !== undefined; item = this.take()) {
      const { index } = item;
      try {
        const value: unknown = yield* this.step(item, fiber);
        this.results[index] = this.call.stopOnError ? value : { status: 'fulfilled', value };
      } catch (reason) {
        // The map was cancelled, and the item has not failed.
        if (reason instanceof CancelledError && fiber.isTold) throw reason;
        if (this.call.stopOnError) this.isDone = true;
        const error = failureOf(item, fiber.label, reason);
        if (this.call.stopOnError) throw error;
        this.results[index] = { status: 'rejected', reason: error };
      }
    }
  }

  private *step(item: Item, fiber: Fiber<unknown>): Steps<unknown> {
    const { value, index } = item;
    fiber.label = `item ${index}`;
    item.key = this.keyOf(item);
    if (item.key !== undefined) fiber.label = `item ${index}, '${item.key}'`;
    const step = this.call.fn(value, index);
    if (step instanceof BaseFuture) return yield step as Future<unknown>;
    if (!isGenerator(step)) {
      throw new TypeError(`ctx.map: the function must return a future or be a function*, not ${describeValue(step)}`);
    }
    claim(step, `ctx.map: the block of item ${index}`);
    return yield* step as Steps<unknown>;
  }

  private keyOf({ value, index }: Item): string | undefined {
    const key = this.call.key?.(value, index);
    if (key === undefined || typeof key === 'string') return key;
    throw new TypeError(`ctx.map: the key of item ${index} must be a string, not ${describeValue(key)}`);
  }

  /** Takes the next item; `undefined` if there is none, or an item has failed. */
  private take(): Item | undefined {
    if (this.isDone) return undefined;
    const next = this.source.next();
    if (next.done === true) {
      this.isDone = true;
      return undefined;
    }
    const index = this.taken;
    this.taken += 1;
    return { value: next.value, index, key: undefined };
  }
}

interface Item {
  readonly value: unknown;
  readonly index: number;
  /** The user's name of the item, once it is known. */
  key: string | undefined;
}

function failureOf({ index, key }: Item, label: string | null, cause: unknown): MapItemError {
  const why = cause instanceof Error ? cause.message : describeValue(cause);
  return new MapItemError(`${label} failed: ${why}`, { index, ...(key === undefined ? {} : { key }), cause });
}

// Values that go with a fiber and with the fibers that it spawns.

import { DeterminismError } from '../errors/errors.ts';
import { currentFiber } from './current.ts';
import type { Fiber } from './fiber.ts';

/**
 * A value for each tree of fibers, as {@link contextLocal} makes it. A fiber begins with the values of the fiber that
 * spawned it. A value that it sets counts for itself, and for the fibers that it spawns from then on.
 */
export interface ContextLocal<T> {
  /**
   * Returns the value of the running fiber.
   *
   * @throws DeterminismError when no orchestration is running
   */
  get(): T;
  /**
   * Sets the value of the running fiber.
   *
   * @throws DeterminismError when no orchestration is running
   */
  set(value: T): void;
}

/**
 * Makes a value that need not be handed down. Each orchestration has its own value, and so has each tree of fibers in
 * it. Make it once, outside of orchestrations. The value is in memory only: a replay sets it again.
 *
 * @param initial - the value of a fiber for which none was set
 *
 * @example
 * ```ts
 * const tenant = contextLocal('nobody');
 *
 * function* audited(what: string) {
 *   yield* call(audit, { tenant: tenant.get(), what });
 * }
 * const order = defineOrchestration('order', function* (ctx, input: Order) {
 *   tenant.set(input.tenant);
 *   yield* all([audited('begun'), audited('charged')]);
 * });
 * ```
 */
export function contextLocal<T>(initial: T): ContextLocal<T>;
export function contextLocal<T>(): ContextLocal<T | undefined>;
export function contextLocal<T>(initial?: T): ContextLocal<T | undefined> {
  return new FiberLocal<T | undefined>(initial);
}

class FiberLocal<T> implements ContextLocal<T> {
  private readonly initial: T;

  constructor(initial: T) {
    this.initial = initial;
  }

  get(): T {
    const { locals } = fiberFor('get');
    return locals?.has(this) === true ? (locals.get(this) as T) : this.initial;
  }

  set(value: T): void {
    const fiber = fiberFor('set');
    // Other fibers have the same map.
    fiber.locals = new Map(fiber.locals).set(this, value);
  }
}

function fiberFor(method: string): Fiber<unknown> {
  const fiber = currentFiber();
  if (fiber !== null) return fiber;
  const called = `contextLocal().${method}`;
  throw new DeterminismError(`${called} was called while no orchestration was running: its values belong to fibers`, {
    called,
    instead: `call ${called} directly in the function* of an orchestration`,
  });
}

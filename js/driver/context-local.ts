// Values that go with a fiber and what it spawns.

import { DeterminismError } from '../errors/errors.ts';
import { currentFiber } from './current.ts';
import type { Fiber } from './fiber.ts';

/**
 * A value for each tree of fibers, as {@link contextLocal} makes it. A fiber begins with the values of the one that spawned it; what it sets counts
 * for itself and for what it spawns from then on.
 */
export interface ContextLocal<T> {
  /**
   * The value of the fiber that runs.
   *
   * @throws DeterminismError when no orchestration is running
   */
  get(): T;
  /**
   * Set the value of the fiber that runs.
   *
   * @throws DeterminismError when no orchestration is running
   */
  set(value: T): void;
}

/**
 * A value that need not be handed down: for each orchestration its own, and in it for each tree of fibers. Make it once, outside of
 * orchestrations. It is in memory only: a replay sets it again.
 *
 * @param initial - what a fiber has where nobody has set it
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
    // Others have the same map.
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

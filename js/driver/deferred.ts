// A future that the code settles itself.

import { CancelledError } from '../errors/errors.ts';
import { BaseFuture, FAILED, type Future, OK, PENDING, type State } from './future.ts';
import type { FiberScheduler } from './scheduler.ts';

/**
 * A future that the orchestration settles itself, once, for any number of fibers, as `ctx.deferred` makes it. The
 * future is in memory: a replay settles it again.
 *
 * @example
 * ```ts
 * const ready = ctx.deferred<Config>();
 * const workers = [1, 2, 3].map(() => ctx.spawn(function* () {
 *   const config = yield* ready;      // all of them get it
 *   yield* ctx.call(work, config);
 * }));
 * ready.resolve(yield* ctx.call(loadConfig));
 * yield* ctx.all(workers);
 * ```
 */
export interface Deferred<T> extends Future<T> {
  /** True once it has been settled or was cancelled. */
  readonly isSettled: boolean;
  /**
   * Settles the future with its value. Synchronous. The waiters go on when the running code waits.
   *
   * @returns true if this call settled it; false if it had settled before, and then nothing happens
   */
  resolve(value: T): boolean;
  /**
   * Makes the future fail with an error, which is thrown at each `yield` that waits for it. Synchronous.
   *
   * @returns as {@link resolve}
   */
  reject(error: unknown): boolean;
}

export class DeferredFuture<T> extends BaseFuture<T> implements Deferred<T> {
  declare readonly scheduler: FiberScheduler;
  get isSettled(): boolean {
    return this.state !== PENDING;
  }

  resolve(value: T): boolean {
    return this.settleOnce(OK, value, 'resolve');
  }

  reject(error: unknown): boolean {
    return this.settleOnce(FAILED, error, 'reject');
  }

  override abandon(reason: string | undefined): void {
    this.settle(FAILED, new CancelledError(reason));
  }

  override describe(): string {
    return 'a deferred value';
  }

  private settleOnce(state: Exclude<State, typeof PENDING>, value: unknown, method: string): boolean {
    this.scheduler.assertRunning(method, 'future');
    if (this.isSettled) return false;
    this.settle(state, value);
    this.scheduler.runCancels();
    return true;
  }
}

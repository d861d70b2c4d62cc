// `ctx.lock`: runs a block while a holder, a child of this instance, holds the locks for it.

import type { Deferred } from '../driver/deferred.ts';
import type { Future } from '../driver/future.ts';
import { ActivityError, RuntimeStateError } from '../errors/errors.ts';
import { isInstance, property } from '../util/show.ts';
import { grantOf, type HolderInput, holderOrchestration, unlock } from './lock-code.ts';
import { type AskedLock, heldLocks } from './locks.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

/** A block, as the methods of a context take it. */
export type Block<T> = (() => Generator<Future<any>, T, any>) | Generator<Future<any>, T, any>;

/** Runs a block under locks, as a fiber. The locks are given back when the block and its fibers have cleaned up. */
export function* underLocks<T>(
  ctx: OrchestrationContext,
  locks: readonly AskedLock[],
  block: Block<T>,
): Generator<Future<any>, T, any> {
  const holder = ctx.randomUUID();
  const lost = ctx.deferred<never>();
  const release = hold(ctx, { holder, by: ctx.instanceId, locks }, lost);
  try {
    yield* ctx.race(ctx.waitForEvent(grantOf(holder)), lost);
    heldLocks.set({ holder, ids: new Set(locks.map(({ id }) => id)) });
    const first = yield* ctx.race([ctx.spawn(block), lost], { cancelLosers: true });
    return first.value;
  } finally {
    release();
  }
}

/**
 * Starts a holder. It is not cancelled with this fiber or the instance, because their cleanup still needs the locks.
 *
 * @param lost - fails if the holder ends before it is released
 * @returns a function that releases it
 */
function hold(ctx: OrchestrationContext, input: HolderInput, lost: Deferred<never>): () => void {
  const released = ctx.deferred();
  ctx.uncancellable(function* holdLocks() {
    let cause = 'its holder was cancelled';
    try {
      const ended = ctx.callOrchestration(holderOrchestration, input);
      const first = yield* ctx.race([ended, released], { cancelLosers: true });
      if (first.index === 1) return;
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal !== undefined) return void lost.reject(refusal);
      cause = (error as Error).message;
      // An operator may have stopped the holder without its cleanup.
      for (const lock of input.locks) unlock(ctx, lock, input.holder, true);
    }
    const ids = input.locks.map(({ id }) => `'${id}'`).join(', ');
    lost.reject(new RuntimeStateError(`the lock of ${ids} was lost: ${cause}`));
  });
  return () => void released.resolve();
}

/** Returns the error of the lock that the holder could not ask for; `undefined` if the holder was ended by others. */
function refusalOf(error: unknown): Error | undefined {
  const cause = property(error, 'cause');
  return isInstance(cause, ActivityError) ? (cause.cause as Error) : undefined;
}

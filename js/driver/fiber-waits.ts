// The waits of the fibers of an execution, as text that is stored with a turn and shown to people.

import { Fiber } from './fiber.ts';
import { type BaseFuture, PENDING } from './future.ts';
import { MailboxFuture } from './mailbox.ts';
import { OperationFuture } from './operation.ts';
import type { FiberScheduler } from './scheduler.ts';

/** The most fibers that the text names, and the most awaited things in all. */
const WAITS_MAX = 64;

/**
 * Something that a fiber waits for: an operation by its id, a message of a mailbox, another fiber by its number, or
 * anything else by its description, such as a value from a channel.
 */
export type AwaitedThing =
  | number
  | readonly [kind: 'event' | 'queue', name: string]
  | readonly [kind: 'fiber', number: number]
  | readonly [kind: 'other', description: string];

/** The fibers of an execution and what they wait for, the first of them in order of the tree of fibers. */
export interface FiberWaits {
  /** The number of fibers that have not ended. */
  readonly count: number;
  /** The number of a fiber, from 0 for the main fiber; its name, if it has one; and what it waits for. */
  readonly waits: readonly (readonly [fiber: number, name: string | null, awaited: readonly AwaitedThing[]])[];
}

/**
 * Returns the text of a {@link FiberWaits}. `null` if only the main fiber is there and waits for nothing but
 * operations, which the engine knows.
 */
export function fiberWaits(scheduler: FiberScheduler): string | null {
  const { fibersAlive: count, mailboxes, main } = scheduler;
  if (count === 1 && mailboxes.isEmpty) return null;
  const waits: FiberWaits['waits'][number][] = [];
  let left = WAITS_MAX;
  const fibers: Fiber<unknown>[] = [main];
  // The list grows on the way, up to its limit: there may be very many fibers.
  for (const fiber of fibers) {
    for (let owned = fiber.firstOwned; owned !== null && fibers.length < WAITS_MAX; owned = owned.after)
      fibers.push(owned);
    if (fiber.state !== PENDING || left === 0) continue;
    const awaited = awaitedBy(fiber.waitingOn, left);
    left -= awaited.length;
    waits.push([fiber.id, fiber.name, awaited]);
  }
  return JSON.stringify({ count, waits } satisfies FiberWaits);
}

/** Returns the things that a future waits for, at most `max`. */
function awaitedBy(future: BaseFuture<unknown> | null, max: number): AwaitedThing[] {
  const awaited: AwaitedThing[] = [];
  const next = future === null ? [] : [future];
  while (next.length > 0 && awaited.length < max) {
    const one = next.pop() as BaseFuture<unknown>;
    if (one.state !== PENDING) continue;
    const { parts } = one;
    if (parts.length === 0 || one instanceof Fiber) awaited.push(thing(one));
    // The first part comes off the stack first.
    else for (let i = Math.min(parts.length, max) - 1; i >= 0; i--) next.push(parts[i] as BaseFuture<unknown>);
  }
  return awaited;
}

function thing(future: BaseFuture<unknown>): AwaitedThing {
  if (future instanceof OperationFuture) return future.operation;
  if (future instanceof MailboxFuture) return [future.mailbox.kind, future.mailbox.name];
  if (future instanceof Fiber) return ['fiber', future.id];
  return ['other', future.describe()];
}

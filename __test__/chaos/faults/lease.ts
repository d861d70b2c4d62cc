import { readEffects } from '../../support/effects.ts';
import { readRows } from '../../support/violations.ts';
import { type Arena, LEASE_MS } from '../arena.ts';

/**
 * Waits until a worker is registered. A worker that has just lost its lease is about to register anew, and until then
 * there is nothing to take over from it. Returns the number of leases that it had lost before.
 */
export async function registered(arena: Arena, victim: { readonly name: string }): Promise<number> {
  let lost = 0;
  await arena.until(`${victim.name} is registered`, () => {
    lost = losses(arena, victim.name);
    return isRegistered(arena, victim);
  });
  return lost;
}

function isRegistered(arena: Arena, victim: { readonly name: string }): boolean {
  return readRows(arena.site.address).workers.some(({ name }) => name === victim.name);
}

/**
 * Waits until the lease of a worker that is cut off since `from` has ended and others have taken over its work. Then it
 * lets the worker come back, and waits until the worker has noticed. Takeovers are not counted for that: a takeover
 * from another worker could be counted meanwhile. `lost` is the number of leases that the worker had lost when it was
 * last seen to be registered: it may lose that one just before it is cut off, and then it loses no other.
 */
export async function takenOver(
  arena: Arena,
  victim: { readonly name: string },
  lost: number,
  from: number,
  back: () => Promise<void>,
): Promise<void> {
  await arena.until(`the lease of ${victim.name} ends`, () => Date.now() > from + LEASE_MS);
  await arena.until(`the work of ${victim.name} is taken over`, () => !isRegistered(arena, victim));
  await back();
  await arena.until(`${victim.name} finds that it has lost its lease`, () => losses(arena, victim.name) > lost);
  arena.absent([victim], from);
}

function losses(arena: Arena, name: string): number {
  return readEffects(arena.effectLog).filter(({ event, worker }) => event === 'lost' && worker === name).length;
}

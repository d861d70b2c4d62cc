// Reasons for others to run again what a worker had begun.

import type { Absence } from '../crash/checker.ts';
import type { Effect } from '../support/effects.ts';
import { LEASE_MS } from './arena.ts';

/** How much later than its end a worker may find that its lease has ended: it runs on a machine that has other things to do. */
const NOTICED_MS = 5 * LEASE_MS;

/** What was done to workers, and what they have told themselves: a lease that was lost had ended some time before that was noticed. */
export function absencesOf(effects: readonly Effect[], known: readonly Absence[]): Absence[] {
  const lost = effects.filter(({ event }) => event === 'lost');
  return [...known, ...lost.map(({ worker, at }) => ({ worker, from: at - NOTICED_MS, by: at }))];
}

// Reasons for other workers to run again what a worker had begun.

import type { Absence } from '../crash/checker.ts';
import type { Effect } from '../support/effects.ts';
import { LEASE_MS } from './arena.ts';

/**
 * The most time between the end of a lease and the moment at which its worker notices that, ms: the machine has other
 * things to do.
 */
const NOTICED_MS = 5 * LEASE_MS;

/**
 * All absences: those that faults caused, and one for each lost lease that a worker reported. A lost lease had ended
 * some time before its worker noticed that.
 */
export function absencesOf(effects: readonly Effect[], known: readonly Absence[]): Absence[] {
  const lost = effects.filter(({ event }) => event === 'lost');
  return [...known, ...lost.map(({ worker, at }) => ({ worker, from: at - NOTICED_MS, by: at }))];
}

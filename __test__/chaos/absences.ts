// Reasons for other workers to run again what a worker had begun, and for a worker to begin what others have run.

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

/**
 * Returns the attempts that workers could not help beginning too late. The one thread of a worker may stand still, or
 * be stopped, after its last look at the lease and before the first line of an activity, which then runs when the
 * worker goes on. That is the last attempt that it begins before it notices the loss of its lease: at the next look it
 * finds the lease over.
 */
export function lateBegins(effects: readonly Effect[]): Set<Effect> {
  const last = new Map<string, Effect>();
  const late = new Set<Effect>();
  for (const effect of effects) {
    const { event, worker, at } = effect;
    if (event === 'begin') last.set(worker, effect);
    const begun = last.get(worker);
    if (event === 'lost' && begun !== undefined && at - begun.at <= NOTICED_MS) late.add(begun);
  }
  return late;
}

// The queue that half of the programs pass through, and the check of its limits.

import type { QueueLimits } from 'perdure';

import { type Entry, ofEachKey, overConcurrency } from '../crash/queue-log.ts';
import type { Effect } from '../support/effects.ts';
import type { Part } from './looks.ts';

export const GATE = 'gate';

/** The queues of a round. Attempts in `far` have slots, too: one that leaked would be missed by other programs. */
export const QUEUES = {
  [GATE]: { concurrency: 5, perKey: { concurrency: 2 }, fairness: 'key' },
  far: { concurrency: 3 },
} as const satisfies Record<string, QueueLimits>;

const KEYS = 3;

/** Returns the key of a program in the queue. */
export function keyAt(index: number): string {
  return `key ${index % KEYS}`;
}

/**
 * Returns the moments at which more programs had a slot than the limits allow. A program has its slot from before its
 * line `enter` until after its line `leave`. `cuts` are the parts of the log that were written while the power was cut:
 * a slot of such a moment proves nothing.
 */
export function overGate(
  effects: readonly Effect[],
  keyOf: (id: string) => string,
  cuts: readonly Part[] = [],
): string[] {
  const entries = new Map<string, Entry>();
  for (const [line, { event, id, worker, at }] of effects.entries()) {
    const known = entries.get(id);
    const isCut = cuts.some(({ from, to }) => from <= line && line < to);
    if (event === 'enter' && known === undefined && !isCut) {
      const open = { to: Infinity, toMs: Infinity };
      entries.set(id, { name: id, id, key: keyOf(id), worker, from: line, fromMs: at, ...open });
    }
    // A worker that stood still may write the line again after the end.
    if (event === 'leave' && known?.to === Infinity) entries.set(id, { ...known, to: line, toMs: at });
  }
  const { concurrency, perKey } = QUEUES[GATE];
  const all = [...entries.values()];
  return [
    ...overConcurrency(all, concurrency),
    ...ofEachKey(all, (ofKey) => overConcurrency(ofKey, perKey.concurrency)),
  ].map((found) => `in the queue: ${found}`);
}

// The effect log, in which activities record their own attempts (`openLog` of worker-parts.mjs).

import { existsSync, readFileSync } from 'node:fs';

/**
 * One line of the log. An attempt of an activity began or returned, or a worker found that it had lost its lease. The
 * latter line has only the fields `event`, `worker` and `at`. Between `enter` and `leave` an instance has a slot.
 */
export interface Effect {
  readonly event: 'begin' | 'end' | 'lost' | 'enter' | 'leave';
  /** Name of the process. */
  readonly worker: string;
  readonly id: string;
  /** The step within the instance. */
  readonly step: number;
  readonly attempt: number;
  readonly key: string;
  /** ms since 1970, by the clock that the store's times come from. */
  readonly at: number;
}

export function readEffects(log: string): Effect[] {
  const lines = readFileSync(log, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Effect);
}

/** Returns the lines so far. There are none before the first process has opened the log. */
export function effectsSoFar(log: string): Effect[] {
  return existsSync(log) ? readEffects(log) : [];
}

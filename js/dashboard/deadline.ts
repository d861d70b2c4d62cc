// The longest wait of a request.

import { Refusal } from './refusal.ts';

/** A wait that ends after a time, or earlier when the client leaves. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Ends the deadline. */
  clear(): void;
}

/**
 * Begins a wait. It has a timer of its own: Node 20 collects the signal of `AbortSignal.timeout` as garbage where only
 * `AbortSignal.any` refers to it.
 *
 * @param leaving - aborted when the client leaves
 */
export function deadline(ms: number, leaving?: AbortSignal): Deadline {
  const ending = new AbortController();
  const end = (): void => ending.abort();
  const timer = setTimeout(end, ms);
  if (leaving?.aborted) end();
  leaving?.addEventListener('abort', end, { once: true });
  return {
    signal: ending.signal,
    clear() {
      clearTimeout(timer);
      leaving?.removeEventListener('abort', end);
    },
  };
}

/** Longest wait for a worker to take a change, ms. */
const TAKEN_MS = 20_000;

/**
 * Waits until a worker has taken a change that is stored.
 *
 * @param what - the change, for an error: `this answer`
 * @param effect - what it does when a worker takes it later: `ends the token`
 * @throws Refusal when no worker has taken it in time
 */
export async function untilTaken<T>(
  what: string,
  effect: string,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, clear } = deadline(TAKEN_MS);
  try {
    return await run(signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    const why = `no worker has taken ${what} within ${TAKEN_MS / 1_000} s: it is stored, and ${effect} if one takes it`;
    throw new Refusal(409, 'TIMEOUT', why);
  } finally {
    clear();
  }
}

// The longest wait of a request.

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

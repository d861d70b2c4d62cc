// Abort signals of callers. A wait that has ended in any way has no listener at its signal any more.

import { isInstance, show } from './show.ts';

/** Work whose caller may stop waiting for it. */
export interface Abandonable<T> {
  readonly reply: Promise<T>;
  /** Stops the work, or its reply. */
  abandon(): void;
}

/** Checks an option that is an `AbortSignal`. */
export function abortSignal(value: unknown, path: string): void {
  if (!isInstance(value, AbortSignal)) throw new TypeError(`${path} must be an AbortSignal, got ${show(value)}`);
}

/**
 * Calls `then` once with the reason when the signal is aborted.
 *
 * @param signal - a signal that is not aborted yet; `undefined`: `then` is never called
 * @returns the function that stops listening
 */
export function onAbort(signal: AbortSignal | undefined, then: (reason: unknown) => void): () => void {
  if (signal === undefined) return () => {};
  const aborted = (): void => then(signal.reason);
  signal.addEventListener('abort', aborted, { once: true });
  return () => signal.removeEventListener('abort', aborted);
}

/**
 * Begins work and resolves with its reply. When the signal is aborted first, abandons the work and rejects with the
 * reason of the signal. Work whose signal is aborted already is not begun.
 */
export function untilAborted<T>(signal: AbortSignal | undefined, begin: () => Abandonable<T>): Promise<T> {
  return signal === undefined ? begin().reply : abortable(signal, begin);
}

async function abortable<T>(signal: AbortSignal, begin: () => Abandonable<T>): Promise<T> {
  signal.throwIfAborted();
  const { reply, abandon } = begin();
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = onAbort(signal, (reason) => {
      abandon();
      reject(reason);
    });
  });
  try {
    return await Promise.race([reply, aborted]);
  } finally {
    stop();
  }
}

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
  const waits = Waits.at(signal);
  const wait = { then };
  waits.add(wait);
  return () => waits.remove(wait);
}

/** A call of {@link onAbort}. */
interface AbortWait {
  readonly then: (reason: unknown) => void;
}

/**
 * The waits that one signal ends. They share a listener: a signal for the end of a process may have thousands of waits,
 * and Node warns of a leak from the eleventh listener on.
 */
class Waits {
  private static readonly ofSignal = new WeakMap<AbortSignal, Waits>();

  private readonly waits = new Set<AbortWait>();
  private readonly signal: AbortSignal;

  private constructor(signal: AbortSignal) {
    this.signal = signal;
  }

  static at(signal: AbortSignal): Waits {
    const known = Waits.ofSignal.get(signal);
    if (known !== undefined) return known;
    const waits = new Waits(signal);
    Waits.ofSignal.set(signal, waits);
    return waits;
  }

  add(wait: AbortWait): void {
    this.waits.add(wait);
    if (this.waits.size === 1) this.signal.addEventListener('abort', this.aborted, { once: true });
  }

  remove(wait: AbortWait): void {
    if (this.waits.delete(wait) && this.waits.size === 0) this.signal.removeEventListener('abort', this.aborted);
  }

  private readonly aborted = (): void => {
    for (const wait of [...this.waits]) {
      this.waits.delete(wait);
      wait.then(this.signal.reason);
    }
  };
}

/**
 * Begins work and resolves with its reply. When the signal is aborted first, abandons the work and rejects with the
 * reason of the signal. Work whose signal is aborted already is not begun.
 */
export function untilAborted<T>(signal: AbortSignal | undefined, begin: () => Abandonable<T>): Promise<T> {
  return signal === undefined ? begin().reply : abortable(signal, begin);
}

/** Makes few promises, because a promise is dear where async hooks follow it, as they do in an activity. */
function abortable<T>(signal: AbortSignal, begin: () => Abandonable<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const { reply, abandon } = begin();
    const aborted = (reason: unknown): void => {
      abandon();
      reject(reason);
    };
    if (signal.aborted) aborted(signal.reason);
    const stop = onAbort(signal, aborted);
    reply.then(
      (value) => {
        stop();
        resolve(value);
      },
      (error: unknown) => {
        stop();
        reject(error);
      },
    );
  });
}

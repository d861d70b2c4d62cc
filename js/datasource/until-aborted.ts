// Waits that end with an abort.

import { onAbort } from '../util/abort.ts';
import type { Promised } from './step.ts';

/**
 * Calls `work` and waits for its result, or until the signal is aborted. `cancel` is called at an abort; its errors are
 * left out.
 *
 * @throws the signal's reason
 */
export async function untilAborted<T>(
  signal: AbortSignal,
  work: () => Promised<T>,
  cancel: () => Promise<void>,
): Promise<T> {
  signal.throwIfAborted();
  let stop = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = onAbort(signal, (reason) => {
      cancel().catch(() => undefined);
      reject(reason);
    });
  });
  const result = (async () => work())();
  // After an abort, the error of the work is left out.
  result.catch(() => undefined);
  try {
    return await Promise.race([result, aborted]);
  } finally {
    stop();
  }
}

// Waits that end with an abort.

import { onAbort } from '../util/abort.ts';
import { isThenable } from '../util/thenable.ts';
import type { Promised } from './step.ts';

/**
 * Calls `work` and waits for its result, or until the signal is aborted. `cancel` is called at an abort; its errors are
 * left out, and so is an error of the work after it.
 *
 * @throws the signal's reason
 */
export function untilAborted<T>(signal: AbortSignal, work: () => Promised<T>, cancel: () => Promise<void>): Promise<T> {
  // Each step waits so several times. A promise is dear where async hooks follow it, as they do in an activity.
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const stop = onAbort(signal, (reason) => {
      cancel().catch(() => undefined);
      reject(reason);
    });
    const succeed = (value: T): void => {
      stop();
      resolve(value);
    };
    const fail = (error: unknown): void => {
      stop();
      reject(error);
    };
    try {
      const result = work();
      if (isThenable<PromiseLike<T>>(result)) result.then(succeed, fail);
      else succeed(result);
    } catch (error) {
      fail(error);
    }
  });
}

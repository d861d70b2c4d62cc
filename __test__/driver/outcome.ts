import type { Future } from '../../js/driver/future.ts';

/** Returns the value of a future, or the name and message of its error. */
export function* outcome(future: Future<unknown>): Generator<any, unknown, any> {
  try {
    return yield future;
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`;
  }
}

// Promises of any library.

import { property } from './show.ts';

/** Returns true for a value with a method `then`, as a promise of any library has it. */
export function isThenable<P extends PromiseLike<unknown>>(value: unknown): value is P {
  return typeof property(value, 'then') === 'function';
}

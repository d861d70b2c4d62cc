// The error for a future that user code uses as if it were its value: `yield*` was forgotten.

import { DeterminismError } from '../errors/errors.ts';

/** The names of the types that JavaScript asks for when it converts an object. */
const TYPES = { string: 'a string', number: 'a number', default: 'a string or a number' } as const;

export type ConversionHint = keyof typeof TYPES;

/** Returns the error for a future that is converted to a primitive value. */
export function convertedFuture(what: string, hint: ConversionHint, below: (...args: never[]) => unknown): Error {
  return usedAs(what, TYPES[hint], below);
}

/**
 * Returns the error for a future that is used as a value of another type.
 *
 * @param what - the description of the future
 * @param type - the type with its article
 * @param below - the method that user code called, to begin the stack with the line of the call
 */
export function usedAs(what: string, type: string, below: (...args: never[]) => unknown): Error {
  const error = new DeterminismError(
    `the future of ${what} was used as ${type}: write \`yield*\` before the call to wait for its value`,
    { called: `a future as ${type}`, instead: 'yield* before the call' },
  );
  Error.captureStackTrace(error, below);
  return error;
}

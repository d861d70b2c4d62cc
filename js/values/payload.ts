// Conversion of values and errors for the engine and the store, which use `null` for nothing.

import { CancelledError } from '../errors/errors.ts';
import { type CodecLimits, decode, encode } from './codec.ts';
import { decodeError, type ErrorData, encodeError } from './error-data.ts';
import { NO_TYPES, STORED_FORMS, type TypeRegistry } from './value-types.ts';

/**
 * Returns the stored text of a value; `undefined` becomes `null`.
 *
 * @param path - the user's name for the value, for the error: `input`
 * @param limits - the limits of its size
 * @param types - the registered classes
 * @throws PayloadError when it cannot be stored
 */
export function toPayload(value: unknown, path: string, limits: CodecLimits, types: TypeRegistry): string | null {
  return value === undefined ? null : (encode(value, path, limits, types) ?? null);
}

/**
 * Returns the value of a stored text.
 *
 * @throws PayloadError when the text is damaged, or holds an instance of a class that is not registered
 */
export function fromPayload(text: string | null, path: string, types: TypeRegistry): unknown {
  return text === null ? undefined : decode(text, path, types);
}

/**
 * Returns a copy of a value in which instances of registered classes are objects with their stored data, to be shown.
 * A value that cannot be stored stays as it is.
 */
export function inStoredForm(value: unknown, types: TypeRegistry): unknown {
  if (types.names.length === 0 || value === undefined) return value;
  const limits = { payloadBytes: Number.MAX_SAFE_INTEGER };
  try {
    return decode(encode(value, 'value', limits, types), 'value', STORED_FORMS);
  } catch {
    return value;
  }
}

/** Returns the stored text of an error, or of any other thrown value. Never throws. */
export function toErrorPayload(error: unknown, types: TypeRegistry): string {
  return JSON.stringify(encodeError(error, types));
}

/** Returns the error of a stored text. Never throws: damaged text gives an error that says so. */
export function fromErrorPayload(text: string | null, types: TypeRegistry): Error {
  try {
    return decodeError(JSON.parse(text ?? 'null') as ErrorData, types);
  } catch {
    // The parser's error is left out: it quotes the stored text.
    return new Error('the stored error cannot be read: its text is damaged');
  }
}

/**
 * Returns the error of a cancelled instance. `text` is that of its code's error, `null` if none of its code could run.
 */
export function cancellationError(text: string | null, id: string, types: TypeRegistry): Error {
  if (text !== null) return fromErrorPayload(text, types);
  return new CancelledError(`instance '${id}' was suspended, and none of its code ran`);
}

/** Returns the error of a terminated instance. `text` is that of the reason given. */
export function terminationError(text: string | null, id: string): CancelledError {
  const reason = fromPayload(text, 'reason', NO_TYPES);
  return new CancelledError(reason === undefined ? `instance '${id}' was terminated` : `terminated: ${reason}`);
}

// Conversion of values and errors for the engine and the store, which use `null` for nothing.

import { CancelledError } from '../errors/errors.ts';
import { type CodecLimits, DEFAULT_CODEC_LIMITS, decode, encode } from './codec.ts';
import { decodeError, type ErrorData, encodeError } from './error-data.ts';

/**
 * Returns the stored text of a value; `undefined` becomes `null`.
 *
 * @param path - the user's name for the value, for the error: `input`
 * @param limits - the limits of its size
 * @throws PayloadError when it cannot be stored
 */
export function toPayload(value: unknown, path: string, limits: CodecLimits = DEFAULT_CODEC_LIMITS): string | null {
  return value === undefined ? null : (encode(value, path, limits) ?? null);
}

/**
 * Returns the value of a stored text.
 *
 * @throws PayloadError when the text is damaged
 */
export function fromPayload(text: string | null, path: string): unknown {
  return text === null ? undefined : decode(text, path);
}

/** Returns the stored text of an error, or of any other thrown value. Never throws. */
export function toErrorPayload(error: unknown): string {
  return JSON.stringify(encodeError(error));
}

/** Returns the error of a stored text. Never throws: damaged text gives an error that says so. */
export function fromErrorPayload(text: string | null): Error {
  try {
    return decodeError(JSON.parse(text ?? 'null') as ErrorData);
  } catch {
    // The parser's error is left out: it quotes the stored text.
    return new Error('the stored error cannot be read: its text is damaged');
  }
}

/**
 * Returns the error of a cancelled instance. `text` is that of its code's error, `null` if none of its code could run.
 */
export function cancellationError(text: string | null, id: string): Error {
  if (text !== null) return fromErrorPayload(text);
  return new CancelledError(`instance '${id}' was suspended, and none of its code ran`);
}

/** Returns the error of a terminated instance. `text` is that of the reason given. */
export function terminationError(text: string | null, id: string): CancelledError {
  const reason = fromPayload(text, 'reason');
  return new CancelledError(reason === undefined ? `instance '${id}' was terminated` : `terminated: ${reason}`);
}

// Values and errors on their way to and from the engine and the store, where nothing is `null`.

import { CancelledError } from '../errors/errors.ts';
import { type CodecLimits, DEFAULT_CODEC_LIMITS, decode, encode } from './codec.ts';
import { decodeError, type ErrorData, encodeError } from './error-data.ts';

/**
 * The stored text of a value; `undefined` is `null`.
 *
 * @param path - what the user calls the value, for the error: `input`
 * @param limits - what it may be at most
 * @throws PayloadError when it cannot be stored
 */
export function toPayload(value: unknown, path: string, limits: CodecLimits = DEFAULT_CODEC_LIMITS): string | null {
  return value === undefined ? null : (encode(value, path, limits) ?? null);
}

/**
 * The value of a stored text.
 *
 * @throws PayloadError when the text is damaged
 */
export function fromPayload(text: string | null, path: string): unknown {
  return text === null ? undefined : decode(text, path);
}

/** The stored text of an error, or of anything else that was thrown. Never throws. */
export function toErrorPayload(error: unknown): string {
  return JSON.stringify(encodeError(error));
}

/** The error of a stored text. Never throws: damaged text gives an error that says so. */
export function fromErrorPayload(text: string | null): Error {
  try {
    return decodeError(JSON.parse(text ?? 'null') as ErrorData);
  } catch {
    // Without the parser's error: it quotes what was stored.
    return new Error('an error was stored here, but its text is damaged');
  }
}

/** What an instance that was cancelled ended with; `text` is of its code's error, `null` when none of its code could run. */
export function cancellationError(text: string | null, id: string): Error {
  if (text !== null) return fromErrorPayload(text);
  return new CancelledError(`instance '${id}' was suspended, and none of its code ran`);
}

/** What an instance that was terminated ended with; `text` is that of the reason given. */
export function terminationError(text: string | null, id: string): CancelledError {
  const reason = fromPayload(text, 'reason');
  return new CancelledError(reason === undefined ? `instance '${id}' was terminated` : `terminated: ${reason}`);
}

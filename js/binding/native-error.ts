// Errors of the addon. They cross as JSON text of `{ code, message, details? }`: the message of the Error that a
// synchronous call throws, or the text of a reply that fails.

import { type PerdureError, ProviderError } from '../errors/errors.ts';
import { fromNative, type NativeErrorData } from '../values/error-data.ts';

/** Returns a call of the addon whose errors are Perdure's. */
export function guard<A extends unknown[], R>(call: (...args: A) => R): (...args: A) => R {
  return (...args) => {
    try {
      return call(...args);
    } catch (error) {
      throw nativeError(error);
    }
  };
}

/** Waits for an asynchronous call of the addon. */
export async function guarded<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw nativeError(error);
  }
}

/**
 * Returns the error of a native call as one of Perdure's errors. Any other error, such as a TypeError of napi, is
 * returned unchanged.
 */
export function nativeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return errorOf(error.message) ?? error;
}

/** Returns the error of a reply that is not ok. */
export function replyError(text: string | null): PerdureError {
  return (
    errorOf(text ?? '') ??
    new ProviderError(`the addon returned an error that cannot be read: ${text}`, { retryable: false })
  );
}

function errorOf(text: string): PerdureError | undefined {
  if (!text.startsWith('{')) return undefined;
  try {
    const data = JSON.parse(text) as NativeErrorData;
    return typeof data.code === 'string' ? fromNative(data) : undefined;
  } catch {
    return undefined;
  }
}

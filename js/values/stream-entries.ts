// The texts of the entries of streams, and their limit.

import { LimitError, PayloadError } from '../errors/errors.ts';
import { Place, streamPath } from './codec-context.ts';
import type { StoredTexts } from './stored-text.ts';

/** Most bytes of entries that were written and are not on their way to the store. */
export const STREAM_BYTES_MAX = 16 * 1024 * 1024;

/** The separator of entries. No JSON has it. */
const SEPARATOR = '\n';

/**
 * Returns the text of an entry as the store keeps it.
 *
 * @throws PayloadError when the codec throws, or its text has a line feed
 */
export function storedEntry(texts: StoredTexts, instance: string, stream: string, text: string | null): string | null {
  const path = streamPath(stream);
  const stored = texts.write(text, path, Place.ofStream(instance, stream));
  return stored === null ? null : checkedEntry(stored, path);
}

/**
 * Returns a codec's text of an entry.
 *
 * @throws PayloadError when it has a line feed
 */
export function checkedEntry(text: string, path: string): string {
  if (!text.includes(SEPARATOR)) return text;
  throw new PayloadError(`${path} cannot be stored: the codec's text of it has a line feed`, { path });
}

/** Returns the texts of entries as one text. The text of `undefined` is empty. */
export function joinEntries(texts: readonly (string | null)[]): string {
  return texts.map((text) => text ?? '').join(SEPARATOR);
}

/** Returns the texts that {@link joinEntries} was given. */
export function splitEntries(text: string): (string | null)[] {
  return text.split(SEPARATOR).map((entry) => (entry === '' ? null : entry));
}

/** Returns the number of bytes that an entry counts for. */
export function entryBytes(text: string | null): number {
  return text === null ? 1 : Buffer.byteLength(text) + 1;
}

/**
 * Checks the bytes of the entries that are not on their way to the store.
 *
 * @param what - the beginning of the error: `the entries of stream 'a'`
 * @throws LimitError when they are too many
 */
export function checkStreamBytes(bytes: number, what: string): void {
  if (bytes <= STREAM_BYTES_MAX) return;
  throw new LimitError(`${what} that are not stored yet take more than ${STREAM_BYTES_MAX} bytes`, {
    limit: 'streamBytes',
    max: STREAM_BYTES_MAX,
  });
}

// The texts that a store keeps of values and errors, behind the codec of the provider.

import { PayloadError } from '../errors/errors.ts';
import { withNothingRunning } from '../util/running.ts';
import { property } from '../util/show.ts';
import type { CodecBridge } from './async-codec.ts';
import { containsErrors, isSameButForStacks } from './codec.ts';
import type { CodecContext, DecodeContext, Place } from './codec-context.ts';
import { NO_TYPES, type TypeRegistry } from './value-types.ts';

/** A text that a codec made, with the id of the key that it is to be read with. */
export interface EncodedText {
  /** The text, without NUL and lone surrogates, such as Base64. */
  readonly text: string;
  /** Names the key: 1 to 256 printable ASCII characters without spaces. It is stored beside the text, readable. */
  readonly keyId: string;
}

/**
 * Changes the texts of values on their way to the store and back, for instance to encrypt them.
 *
 * A codec that binds each text to its context (`aad` as additional authenticated data) detects a text that was moved
 * from another instance or place.
 */
export interface Codec {
  /**
   * True if every value in the store must be a text of the codec. A value that is stored as plain text is then a
   * `PayloadError`, so an encrypted value cannot be replaced by a plain one. Default: `false`, for a store that had no
   * codec at first; once the store was recoded, set it to `true`.
   */
  readonly required?: boolean;
  /**
   * Returns the text to store, which may differ each time. It must answer synchronously ({@link AsyncCodec} need not),
   * with a string without NUL and lone surrogates, such as Base64; or with such a string and the id of the key. The
   * text of an entry of a stream must not have a line feed, either.
   */
  encode(text: string, context: CodecContext): string | EncodedText;
  /**
   * Returns the text that {@link encode} was given, with the same context and the key that it named. It must throw when
   * it cannot tell, as authenticated encryption does.
   */
  decode(text: string, context: DecodeContext): string;
}

/** @throws TypeError when `value` is no {@link Codec} */
export function checkCodec(value: unknown, path: string): void {
  for (const method of ['encode', 'decode'] as const) {
    const found = typeof value === 'object' && value !== null ? property(value, method) : undefined;
    if (typeof found !== 'function')
      throw new TypeError(`${path} must be an object with the functions encode and decode: ${method} is missing`);
  }
  const required = property(value, 'required');
  if (required !== undefined && typeof required !== 'boolean')
    throw new TypeError(`${path}.required must be true or false`);
  const isAsync = property(value, 'async');
  if (isAsync !== undefined && typeof isAsync !== 'boolean') throw new TypeError(`${path}.async must be true or false`);
}

/**
 * Checks a codec that must answer synchronously.
 *
 * @throws TypeError when `value` is no {@link Codec}, or is asynchronous
 */
export function checkSyncCodec(value: unknown, path: string): void {
  checkCodec(value, path);
  if (property(value, 'async') === true)
    throw new TypeError(`${path} must be synchronous: a codec with async: true works only as the codec of a provider`);
}

/**
 * Prefix of a text that a codec made. No other stored text begins with it. So values from before a store had a codec
 * can be read beside encoded ones, and an encoded one is never taken for damaged.
 */
export const ENCODED = '#';

/** Prefix of a text whose codec named a key. The id of the key follows, and a space ends it. */
const KEYED = '##';
const KEY_ID = /^[!-~]{1,256}$/;
const KEYED_TEXT = /^##([!-~]{1,256}) /;

/** Returns the key that a stored text names: `null` if its codec named none, `undefined` if no codec made it. */
export function keyIdOf(stored: string): string | null | undefined {
  if (!stored.startsWith(ENCODED)) return undefined;
  return KEYED_TEXT.exec(stored)?.[1] ?? null;
}

/** Returns the prefix that all stored texts of a key have, and no others. */
export function keyPrefix(keyId: string): string {
  return `${KEYED}${keyId} `;
}

/**
 * Text that is stored for an error that the codec could not encode. It is always the same, so that it is recognized as
 * Perdure's own where plain text is refused. In the place of any other value it is refused, too.
 */
export const UNSTORABLE = JSON.stringify({
  name: 'PayloadError',
  message: "error cannot be stored: the codec's encode failed",
  type: 'PayloadError',
  code: 'PAYLOAD',
  fields: { path: 'error' },
});

/** Returns true if a text is {@link UNSTORABLE} in the place of an error. */
export function isUnstorable(text: string, place: Place | null): boolean {
  return text === UNSTORABLE && place?.isOfError === true;
}

/** Texts on their way to a store and back. Without a codec they are unchanged. */
export class StoredTexts {
  /** The classes whose instances the values may hold. */
  types: TypeRegistry = NO_TYPES;
  private readonly codec: Codec | undefined;
  private readonly isRequired: boolean;

  /** @param requires - `false`: values may be plain text, even if the codec requires encoded text */
  constructor(codec?: Codec, requires = true) {
    this.codec = codec;
    this.isRequired = requires && codec?.required === true;
  }

  /**
   * Returns the texts of an export of the store, which holds decoded values, even if the codec requires encoded text.
   */
  get ofExports(): StoredTexts {
    return new StoredTexts(this.codec, false).withTypes(this.types);
  }

  withTypes(types: TypeRegistry): this {
    this.types = types;
    return this;
  }

  get hasCodec(): boolean {
    return this.codec !== undefined;
  }

  /** The kind of codec. With `sync`, every thread of a runtime needs the codec itself. */
  get kind(): 'none' | 'sync' | 'async' {
    return this.hasCodec ? 'sync' : 'none';
  }

  /** The interface through which the store asks the codec; `null` if the store does not ask. */
  get bridge(): CodecBridge | null {
    return null;
  }

  /** Returns true if {@link rewrite} always returns the text unchanged. */
  leaves(text: string | null): boolean {
    return !this.hasCodec && (text === null || !containsErrors(text));
  }

  /** Returns true if {@link read} returns the text itself, in any place. */
  isPlain(text: string | null): boolean {
    return text === null || (this.codec === undefined && !text.startsWith(ENCODED));
  }

  /**
   * Returns the text to store.
   *
   * @param path - the user's name for the value, for the error: `input`
   * @param place - the owner of the value; not used without a codec
   * @throws PayloadError when the codec throws, or does not answer with a text
   */
  write(text: string | null, path: string, place: Place | null): string | null {
    const { codec } = this;
    if (codec === undefined || text === null) return text;
    let encoded: unknown;
    try {
      encoded = withNothingRunning(() => codec.encode(text, place as Place));
    } catch (cause) {
      throw new PayloadError(`${path} cannot be stored: the codec's encode threw`, { path, cause });
    }
    return storedOf(encoded, path);
  }

  /**
   * Returns the text to compare with history. This is the recorded text if it describes the same value, because a codec
   * need not encode a text twice alike, and the stacks of errors in it may differ.
   *
   * @throws PayloadError as {@link write} and {@link read}
   */
  rewrite(
    text: string | null,
    history: { recordedPayload(): string | null },
    path: string,
    place: Place | null,
  ): string | null {
    if (text === null) return null;
    const before = history.recordedPayload();
    return before !== null && isSameButForStacks(this.read(before, path, place), text, this.types)
      ? before
      : this.write(text, path, place);
  }

  /**
   * Returns the stored text of an error, as {@link write}. Never throws: if the codec does, the text is
   * {@link UNSTORABLE}, which says that and nothing else.
   */
  writeError(text: string, place: Place | null): string {
    try {
      return this.write(text, 'error', place) as string;
    } catch {
      // The codec's error is left out: it may quote the text.
      return UNSTORABLE;
    }
  }

  /**
   * Returns the text that was handed to {@link write}.
   *
   * @param place - the owner of the value; not used without a codec
   * @throws PayloadError when the text is encoded, and there is no codec here or it cannot decode the text; also when
   *   the text is not encoded, and the codec requires that
   */
  read(text: string | null, path: string, place: Place | null): string | null {
    if (text === null) return text;
    if (!text.startsWith(ENCODED)) {
      if (!this.isRequired || isUnstorable(text, place)) return text;
      throw new PayloadError(
        `${path} cannot be read: it is stored as plain text, but the codec requires encoded values`,
        { path },
      );
    }
    const { codec } = this;
    if (codec === undefined) {
      throw new PayloadError(
        `${path} cannot be read: it was stored through a codec, but the provider was opened without a codec`,
        { path },
      );
    }
    const { keyId, sealed } = sealedIn(text);
    let decoded: unknown;
    try {
      decoded = withNothingRunning(() => codec.decode(sealed, (place as Place).withKey(keyId)));
    } catch (cause) {
      throw new PayloadError(`${path} cannot be read: the codec's decode threw`, { path, cause });
    }
    if (typeof decoded === 'string') return decoded;
    throw new PayloadError(`${path} cannot be read: the codec's decode did not return a string`, { path });
  }

  /** The same as {@link write}, for code that reads and writes rows itself. */
  encoded(text: string, path: string, place: Place): string | Promise<string> {
    return this.write(text, path, place) as string;
  }

  /** The same as {@link read}, for code that reads and writes rows itself. */
  decoded(text: string, path: string, place: Place): string | Promise<string> {
    return this.read(text, path, place) as string;
  }
}

/** Returns the codec's text in a stored text, and the id of its key. */
export function sealedIn(stored: string): { keyId: string | null; sealed: string } {
  const keyId = keyIdOf(stored) ?? null;
  return { keyId, sealed: stored.slice(keyId === null ? ENCODED.length : keyPrefix(keyId).length) };
}

/** Returns the text to store for the result of a codec's encode. */
export function storedOf(encoded: unknown, path: string): string {
  if (isEncodable(encoded)) return ENCODED + encoded;
  const [text, keyId] = [property(encoded, 'text'), property(encoded, 'keyId')];
  if (!isEncodable(text)) {
    throw new PayloadError(
      `${path} cannot be stored: the codec's encode did not return a string without NUL and lone surrogates`,
      { path },
    );
  }
  if (typeof keyId === 'string' && KEY_ID.test(keyId)) return keyPrefix(keyId) + text;
  throw new PayloadError(
    `${path} cannot be stored: the keyId that the codec's encode returned is not ` +
      '1 to 256 printable ASCII characters without spaces',
    { path },
  );
}

/** Returns true if every store can keep the value as a text. */
export function isEncodable(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed() && !value.includes('\0');
}

// The texts that a store keeps of values and errors, behind the codec of whoever opened it.

import { PayloadError } from '../errors/errors.ts';
import { apart } from '../util/running.ts';
import { property } from '../util/show.ts';
import type { CodecBridge } from './async-codec.ts';
import { holdsErrors, isSameButForStacks } from './codec.ts';
import type { CodecContext, DecodeContext, Place } from './codec-context.ts';

/** A text that a codec made, with the key that it is to be read with. */
export interface EncodedText {
  /** Without NUL and lone surrogates, such as Base64. */
  readonly text: string;
  /** Names the key: 1 to 256 printable ASCII characters without spaces. It is stored beside the text, readable. */
  readonly keyId: string;
}

/**
 * Changes the texts of values on their way to the store and back, for instance to encrypt them.
 *
 * A codec that binds each text to its context (`aad` as additional authenticated data) finds a text that was moved from another instance or place.
 */
export interface Codec {
  /**
   * Whether every value in the store is a text of the codec: one that is stored as plain text is a `PayloadError` then, so nobody can put a value
   * of their own in the place of an encrypted one. Default: `false`, for a store that had no codec at first; once it was recoded, say `true`.
   */
  readonly required?: boolean;
  /**
   * The text to store. It may be another one each time. It must answer at once ({@link AsyncCodec} need not), with a string without NUL and lone
   * surrogates, such as Base64; or with that and the id of the key.
   */
  encode(text: string, context: CodecContext): string | EncodedText;
  /**
   * The text that {@link encode} was given, with the same context and the key that it named. It must throw when it cannot tell, as authenticated
   * encryption does.
   */
  decode(text: string, context: DecodeContext): string;
}

/** @throws TypeError when `value` is no {@link Codec} */
export function checkCodec(value: unknown, path: string): void {
  for (const method of ['encode', 'decode'] as const) {
    const found = typeof value === 'object' && value !== null ? property(value, method) : undefined;
    if (typeof found !== 'function')
      throw new TypeError(`${path} must be an object with the functions encode and decode: there is no ${method}`);
  }
  const required = property(value, 'required');
  if (required !== undefined && typeof required !== 'boolean')
    throw new TypeError(`${path}.required must be true or false`);
  const isAsync = property(value, 'async');
  if (isAsync !== undefined && typeof isAsync !== 'boolean') throw new TypeError(`${path}.async must be true or false`);
}

/** The same, for what has to be read at once. */
export function checkSyncCodec(value: unknown, path: string): void {
  checkCodec(value, path);
  if (property(value, 'async') === true)
    throw new TypeError(`${path} must answer at once: a codec with async: true is for a provider`);
}

/**
 * Stands before a text that a codec made. No other stored text begins with it, so values from before a store had a codec can be
 * read beside those that were encoded, and an encoded one is never taken for damaged.
 */
export const ENCODED = '#';

/** Stands before the id of its key, which a space ends, where the codec named one. */
const KEYED = '##';
const KEY_ID = /^[!-~]{1,256}$/;
const KEYED_TEXT = /^##([!-~]{1,256}) /;

/** The key that a stored text names: `null` for one of a codec that names none, `undefined` when no codec made it. */
export function keyIdOf(stored: string): string | null | undefined {
  if (!stored.startsWith(ENCODED)) return undefined;
  return KEYED_TEXT.exec(stored)?.[1] ?? null;
}

/** What the stored texts of a key begin with, and no others do. */
export function keyPrefix(keyId: string): string {
  return `${KEYED}${keyId} `;
}

/**
 * What is stored of an error that the codec could not encode: always the same, so that it is known for one of ours where plain text is refused. In the
 * place of any other value it is refused, too.
 */
export const UNSTORABLE = JSON.stringify({
  name: 'PayloadError',
  message: "error cannot be stored: the codec's encode failed",
  type: 'PayloadError',
  code: 'PAYLOAD',
  fields: { path: 'error' },
});

/** Whether a text is {@link UNSTORABLE}, where an error is to be. */
export function isUnstorable(text: string, place: Place | null): boolean {
  return text === UNSTORABLE && place?.isOfError === true;
}

/** Texts on their way to a store and back. Without a codec they stay as they are. */
export class StoredTexts {
  private readonly codec: Codec | undefined;
  private readonly isRequired: boolean;

  /** @param requires - `false`: values may be plain text, whatever the codec requires */
  constructor(codec?: Codec, requires = true) {
    this.codec = codec;
    this.isRequired = requires && codec?.required === true;
  }

  /** Those of an export of the store, which holds what was decoded, whatever the codec requires. */
  get ofExports(): StoredTexts {
    return new StoredTexts(this.codec, false);
  }

  get hasCodec(): boolean {
    return this.codec !== undefined;
  }

  /** What every thread of a runtime needs: `sync`, the codec itself. */
  get kind(): 'none' | 'sync' | 'async' {
    return this.hasCodec ? 'sync' : 'none';
  }

  /** What stands in front of the store. */
  get bridge(): CodecBridge | null {
    return null;
  }

  /** Whether {@link rewrite} returns the text unchanged in any case. */
  leaves(text: string | null): boolean {
    return !this.hasCodec && (text === null || !holdsErrors(text));
  }

  /** Whether {@link read} gives the text itself, whosever it is. */
  isPlain(text: string | null): boolean {
    return text === null || (this.codec === undefined && !text.startsWith(ENCODED));
  }

  /**
   * The text to store.
   *
   * @param path - what the user calls the value, for the error: `input`
   * @param place - whose value it is; without a codec it is not asked for
   * @throws PayloadError when the codec throws, or answers with anything but a text
   */
  write(text: string | null, path: string, place: Place | null): string | null {
    const { codec } = this;
    if (codec === undefined || text === null) return text;
    let encoded: unknown;
    try {
      encoded = apart(() => codec.encode(text, place as Place));
    } catch (cause) {
      throw new PayloadError(`${path} cannot be stored: the codec's encode threw`, { path, cause });
    }
    return storedOf(encoded, path);
  }

  /**
   * The text to be compared with what history holds: the recorded one, when it is of the same value, because a codec need not encode
   * a text twice alike, and the stacks of errors in it may be others.
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
    return before !== null && isSameButForStacks(this.read(before, path, place), text)
      ? before
      : this.write(text, path, place);
  }

  /** As {@link write}, for the text of an error. Never throws: where the codec does, the text is {@link UNSTORABLE}, which says that and nothing else. */
  writeError(text: string, place: Place | null): string {
    try {
      return this.write(text, 'error', place) as string;
    } catch {
      // Without what the codec threw, which may quote what it was given.
      return UNSTORABLE;
    }
  }

  /**
   * The text that was handed to {@link write}.
   *
   * @param place - whose value it is; without a codec it is not asked for
   * @throws PayloadError when it was encoded, and there is no codec here or it cannot decode it; and when it was not, and the codec requires that
   */
  read(text: string | null, path: string, place: Place | null): string | null {
    if (text === null) return text;
    if (!text.startsWith(ENCODED)) {
      if (!this.isRequired || isUnstorable(text, place)) return text;
      throw new PayloadError(
        `${path} cannot be read: it is stored as plain text, and the codec requires that every value is encoded`,
        { path },
      );
    }
    const { codec } = this;
    if (codec === undefined) {
      throw new PayloadError(
        `${path} cannot be read: it was stored through a codec, and the provider was opened without one`,
        { path },
      );
    }
    const { keyId, sealed } = sealedIn(text);
    let decoded: unknown;
    try {
      decoded = apart(() => codec.decode(sealed, (place as Place).withKey(keyId)));
    } catch (cause) {
      throw new PayloadError(`${path} cannot be read: the codec's decode threw`, { path, cause });
    }
    if (typeof decoded === 'string') return decoded;
    throw new PayloadError(`${path} cannot be read: the codec's decode did not return a string`, { path });
  }

  /** As {@link write}, for who reads and writes rows itself. */
  encoded(text: string, path: string, place: Place): string | Promise<string> {
    return this.write(text, path, place) as string;
  }

  /** As {@link read}, for who reads and writes rows itself. */
  decoded(text: string, path: string, place: Place): string | Promise<string> {
    return this.read(text, path, place) as string;
  }
}

/** What a codec made, out of the text that is stored of it. */
export function sealedIn(stored: string): { keyId: string | null; sealed: string } {
  const keyId = keyIdOf(stored) ?? null;
  return { keyId, sealed: stored.slice(keyId === null ? ENCODED.length : keyPrefix(keyId).length) };
}

/** What is stored of what a codec's encode returned. */
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
    `${path} cannot be stored: the keyId that the codec's encode returned is not 1 to 256 printable ASCII characters without spaces`,
    { path },
  );
}

/** Whether every store can keep it as a text. */
export function isEncodable(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed() && !value.includes('\0');
}

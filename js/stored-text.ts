// The texts that a store keeps of values and errors, behind the codec of whoever opened it.

import { PayloadError } from './error-classes.ts';
import { toErrorPayload } from './payload.ts';
import { property } from './show.ts';

/** Changes the texts of values on their way to the store and back, for instance to encrypt them. */
export interface Codec {
  /**
   * The text to store. It may be another one each time. It must answer at once, with a string without NUL and lone
   * surrogates, such as Base64.
   */
  encode(text: string): string;
  /** The text that {@link encode} was given. It must throw when it cannot tell, as authenticated encryption does. */
  decode(text: string): string;
}

/** @throws TypeError when `value` is no {@link Codec} */
export function checkCodec(value: unknown, path: string): void {
  for (const method of ['encode', 'decode'] as const) {
    const found = typeof value === 'object' && value !== null ? property(value, method) : undefined;
    if (typeof found !== 'function') throw new TypeError(`${path} must be an object with the functions encode and decode: there is no ${method}`);
  }
}

/**
 * Stands before a text that a codec made. No other stored text begins with it, so values from before a store had a codec can be
 * read beside those that were encoded, and an encoded one is never taken for damaged.
 */
const ENCODED = '#';

/** Texts on their way to a store and back. Without a codec they stay as they are. */
export class StoredTexts {
  private readonly codec: Codec | undefined;

  constructor(codec?: Codec) {
    this.codec = codec;
  }

  get hasCodec(): boolean {
    return this.codec !== undefined;
  }

  /**
   * The text to store.
   *
   * @param path - what the user calls the value, for the error: `input`
   * @throws PayloadError when the codec throws, or answers with anything but a text
   */
  write(text: string | null, path: string): string | null {
    if (this.codec === undefined || text === null) return text;
    let encoded: unknown;
    try {
      encoded = this.codec.encode(text);
    } catch (cause) {
      throw new PayloadError(`${path} cannot be stored: the codec's encode threw`, { path, cause });
    }
    if (isText(encoded)) return ENCODED + encoded;
    throw new PayloadError(`${path} cannot be stored: the codec's encode did not return a string without NUL and lone surrogates`, { path });
  }

  /**
   * The text to be compared with what history holds: the recorded one, when it is of the same value, because a codec need not encode
   * a text twice alike.
   *
   * @throws PayloadError as {@link write} and {@link read}
   */
  rewrite(text: string | null, history: { recordedPayload(): string | null }, path: string): string | null {
    if (this.codec === undefined || text === null) return text;
    const before = history.recordedPayload();
    return before !== null && this.read(before, path) === text ? before : this.write(text, path);
  }

  /** As {@link write}, for the text of an error. Never throws: where the codec does, the text says that and nothing else. */
  writeError(text: string): string {
    try {
      return this.write(text, 'error') as string;
    } catch (error) {
      // Without what the codec threw, which may quote what it was given.
      const { message, path } = error as PayloadError;
      return toErrorPayload(new PayloadError(message, { path }));
    }
  }

  /**
   * The text that was handed to {@link write}.
   *
   * @throws PayloadError when it was encoded, and there is no codec here or it cannot decode it
   */
  read(text: string | null, path: string): string | null {
    if (text === null || !text.startsWith(ENCODED)) return text;
    if (this.codec === undefined) {
      throw new PayloadError(`${path} cannot be read: it was stored through a codec, and the provider was opened without one`, { path });
    }
    let decoded: unknown;
    try {
      decoded = this.codec.decode(text.slice(ENCODED.length));
    } catch (cause) {
      throw new PayloadError(`${path} cannot be read: the codec's decode threw`, { path, cause });
    }
    if (typeof decoded === 'string') return decoded;
    throw new PayloadError(`${path} cannot be read: the codec's decode did not return a string`, { path });
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed() && !value.includes('\0');
}

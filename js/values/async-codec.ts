// A codec that answers later, such as one of WebCrypto or of a key management service. The store asks it for the texts
// of a whole write or page at a time, before they go to the store and after they came from it. All code in between sees
// values unencoded.

import { PayloadError, RetryAfterError } from '../errors/errors.ts';
import { isInstance, property } from '../util/show.ts';
import { isSameButForStacks } from './codec.ts';
import { type CodecContext, type DecodeContext, Place } from './codec-context.ts';
import {
  ENCODED,
  type EncodedText,
  isEncodable,
  isUnstorable,
  StoredTexts,
  sealedIn,
  storedOf,
  UNSTORABLE,
} from './stored-text.ts';

/**
 * A {@link Codec} whose functions may return a promise. Its texts can be read by a synchronous {@link Codec} that does
 * the same, and the other way round.
 *
 * A call has 10 s. After a transient error the store asks again for 30 s; then the store does not serve, which loses
 * nothing. Transient errors are: `RetryAfterError`, an abort or a timeout, an error of a connection (its `code`, such
 * as `ECONNRESET`), an HTTP response with `status` or `statusCode` 429 or 5xx, or `retryable: true`. Any other error is
 * final. A value that cannot be encoded suspends its instance, or fails the client's call, with a `PayloadError`.
 *
 * @example
 * ```ts
 * const codec: AsyncCodec = {
 *   async: true,
 *   encode: async (text, { aad }) => ({ keyId: 'k1', text: await seal(text, aad) }),
 *   decode: async (text, { aad, keyId }) => open(await keyOf(keyId), text, aad),
 * };
 * ```
 */
export interface AsyncCodec {
  readonly async: true;
  /** The same as {@link Codec.required}. */
  readonly required?: boolean;
  /** The same as {@link Codec.encode}. It is called for up to 64 texts at once. */
  encode(text: string, context: CodecContext): Promise<string | EncodedText> | string | EncodedText;
  /** The same as {@link Codec.decode}. It is called for up to 64 texts at once. */
  decode(text: string, context: DecodeContext): Promise<string> | string;
}

/** The most calls of a codec at a time for one question of the store. */
const AT_ONCE_MAX = 64;

/**
 * The most decode failures that are remembered, with their reasons, for later reads. A failure is found by the length
 * of its text and by the first `FAILURE_TEXT_MAX` characters.
 */
const FAILURES_MAX = 64;
const FAILURE_TEXT_MAX = 256;

/** Prefix of plain text that was found where the codec requires encoded text. */
const PLAIN = `${ENCODED}\0`;

/** A question of the store; its answer has one entry for each text. */
interface Question {
  readonly question: number;
  readonly encode: boolean;
  readonly texts: readonly (readonly [instance: string, execution: number | null, place: string, text: string])[];
}
type Answer = { readonly text: string } | { readonly why: string; readonly later?: true };

/** The interface through which a store asks its codec. */
export interface CodecBridge {
  readonly required: boolean;
  ask(question: string, answer: (question: number, texts: string) => void): void;
}

/** Texts of a store with an async codec in front of it. They arrive decoded, except those that could not be decoded. */
export class AsyncCodecTexts extends StoredTexts {
  private readonly asyncCodec: AsyncCodec | undefined;
  private readonly failures = new Map<string, PayloadError>();

  /** @param codec - `undefined` in a thread that has not opened the store */
  constructor(codec?: AsyncCodec) {
    super();
    this.asyncCodec = codec;
  }

  override get kind(): 'async' {
    return 'async';
  }

  override get hasCodec(): boolean {
    return true;
  }

  override get bridge(): CodecBridge | null {
    const codec = this.asyncCodec;
    if (codec === undefined) return null;
    return {
      required: codec.required === true,
      ask: (json, answer) => void this.answer(JSON.parse(json) as Question, answer),
    };
  }

  override isPlain(text: string | null): boolean {
    return text === null || !text.startsWith(ENCODED);
  }

  override write(text: string | null): string | null {
    return text;
  }

  /** Returns the recorded text if it describes the same value. The recorded text must be readable to be compared. */
  override rewrite(text: string | null, history: { recordedPayload(): string | null }, path: string): string | null {
    const before = this.read(history.recordedPayload(), path);
    return text !== null && isSameButForStacks(before, text, this.types) ? before : text;
  }

  override writeError(text: string): string {
    return text;
  }

  override read(text: string | null, path: string): string | null {
    if (this.isPlain(text)) return text;
    if (text?.startsWith(PLAIN)) throw plainText(path);
    const failure = this.failures.get(failureOf(text as string));
    throw new PayloadError(`${path} cannot be read: ${failure === undefined ? THREW : whyOf(failure)}`, {
      path,
      cause: failure?.cause,
    });
  }

  /** @throws PayloadError when it can never be encoded; the codec's own error when a later call may pass */
  override async encoded(text: string, path: string, place: Place): Promise<string> {
    let encoded: unknown;
    try {
      encoded = await this.asyncCodec?.encode(text, place);
    } catch (cause) {
      throw mayPass(cause)
        ? cause
        : new PayloadError(`${path} cannot be stored: the codec's encode threw`, { path, cause });
    }
    return storedOf(encoded, path);
  }

  /** @throws PayloadError when it can never be decoded; the codec's own error when a later call may pass */
  override async decoded(text: string, path: string, place: Place): Promise<string> {
    const codec = this.asyncCodec;
    if (!text.startsWith(ENCODED)) {
      if (codec?.required === true && !isUnstorable(text, place)) throw plainText(path);
      return text;
    }
    const { keyId, sealed } = sealedIn(text);
    let decoded: unknown;
    try {
      decoded = await codec?.decode(sealed, place.withKey(keyId));
    } catch (cause) {
      throw mayPass(cause) ? cause : new PayloadError(`${path} cannot be read: ${THREW}`, { path, cause });
    }
    if (isEncodable(decoded)) return decoded;
    throw new PayloadError(
      `${path} cannot be read: the codec's decode did not return a string without NUL and lone surrogates`,
      { path },
    );
  }

  private async answer(
    { question, encode, texts }: Question,
    answer: (question: number, texts: string) => void,
  ): Promise<void> {
    const answers: Answer[] = [];
    const left = texts.entries();
    const work = async (): Promise<void> => {
      for (const [n, [instance, execution, what, text]] of left) {
        const place = new Place(instance, execution, what);
        answers[n] = await (encode ? this.encode(text, place) : this.decode(text, place));
      }
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE_MAX, texts.length) }, work));
    answer(question, JSON.stringify(answers));
  }

  private async encode(text: string, place: Place): Promise<Answer> {
    try {
      return { text: await this.encoded(text, place.place, place) };
    } catch (error) {
      if (!isInstance(error, PayloadError)) return { why: "the codec's encode threw", later: true };
      return place.isOfError ? { text: UNSTORABLE } : { why: whyOf(error) };
    }
  }

  private async decode(text: string, place: Place): Promise<Answer> {
    try {
      return { text: await this.decoded(text, place.place, place) };
    } catch (error) {
      if (!isInstance(error, PayloadError)) return { why: THREW, later: true };
      this.note(text, error);
      return { why: whyOf(error) };
    }
  }

  private note(text: string, error: PayloadError): void {
    const [oldest] = this.failures.keys();
    if (this.failures.size >= FAILURES_MAX && oldest !== undefined) this.failures.delete(oldest);
    this.failures.set(failureOf(text), error);
  }
}

const THREW = "the codec's decode threw";

/** Returns the part of the message that the store repeats with a path of its own. */
function whyOf({ message }: PayloadError): string {
  return message.slice(message.indexOf(': ') + 2);
}

function failureOf(text: string): string {
  return `${text.length}:${text.slice(0, FAILURE_TEXT_MAX)}`;
}

function plainText(path: string): PayloadError {
  return new PayloadError(`${path} cannot be read: it is stored as plain text, but the codec requires encoded values`, {
    path,
  });
}

/** Error codes of connections, from operating systems and from undici, on which `fetch` is built. */
const CONNECTION =
  /^(E(CONN(REFUSED|RESET|ABORTED)|TIMEDOUT|PIPE|AI_AGAIN|NOTFOUND|(HOST|NET)UNREACH|NET(DOWN|RESET))|UND_ERR_\w+)$/;

/** The most errors in a chain of causes that are examined. */
const CAUSES_MAX = 5;

/** Returns true if an error says that the same call may pass later. */
function mayPass(error: unknown): boolean {
  for (
    let [cause, depth] = [error, 0];
    typeof cause === 'object' && cause !== null && depth < CAUSES_MAX;
    [cause, depth] = [property(cause, 'cause'), depth + 1]
  ) {
    if (isInstance(cause, RetryAfterError) || property(cause, 'retryable') === true) return true;
    const [name, code] = [property(cause, 'name'), property(cause, 'code')];
    if (name === 'AbortError' || name === 'TimeoutError' || (typeof code === 'string' && CONNECTION.test(code)))
      return true;
    const status = Number(property(cause, 'statusCode') ?? property(cause, 'status'));
    if (status === 429 || (status >= 500 && status < 600)) return true;
  }
  return false;
}

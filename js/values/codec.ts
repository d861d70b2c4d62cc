import { PayloadError, PerdureError } from '../errors/errors.ts';
import { isPlain } from '../util/plain.ts';
import { disregardPromises } from '../util/show.ts';
import { ERROR_TAG, errorsIn, stacklessErrorsIn } from './error-data.ts';
import { parseRich, stringifyRich } from './rich.ts';
import { NO_TYPES, type TypeRegistry, UnreadableType } from './value-types.ts';

/** The limits of a stored value. */
export interface CodecLimits {
  /** Length of its text, bytes in UTF-8; 2 MiB by default (the option `limits.payloadBytes`). */
  readonly payloadBytes: number;
}

/** The limits that apply if none are given. */
export const DEFAULT_CODEC_LIMITS: CodecLimits = { payloadBytes: 2 * 1024 * 1024 };

/**
 * Prefix of the text of a value that is more than JSON. No JSON text begins with it, so a reader of the store can tell
 * the two apart by the first byte.
 */
const RICH = '~';

/**
 * Returns the text that the store keeps of a value. A plain JSON value becomes plain JSON text. Any other value that
 * devalue can describe, and an error, becomes devalue's text behind a `~`. `undefined` has no text: the result is
 * undefined.
 *
 * Errors inside a value are kept in the form of `encodeError`.
 *
 * @param value - the user's value
 * @param path - the user's name for it, for the error: `input`
 * @throws PayloadError naming the path of the part that cannot be stored: a function, a symbol, a promise, an instance
 *   of a class that is not registered, a value that is nested too deep or is over the limit
 *
 * @example
 * ```ts
 * encode({ a: 1 }, 'input');        // '{"a":1}'
 * encode(new Date(0), 'input');     // '~[["Date","1970-01-01T00:00:00.000Z"]]'
 * encode({ f() {} }, 'input');      // PayloadError: input.f cannot be stored: it is a function
 * ```
 */
export function encode(
  value: unknown,
  path: string,
  limits: CodecLimits = DEFAULT_CODEC_LIMITS,
  types: TypeRegistry = NO_TYPES,
): string | undefined {
  if (value === undefined) return undefined;
  const max = limits.payloadBytes;
  const text = write(value, path, max, types);
  // No character takes up more than three bytes (a pair of surrogates is four in two).
  if (text.length * 3 > max && Buffer.byteLength(text) > max) {
    throw new PayloadError(
      `${path} cannot be stored: it takes ${Buffer.byteLength(text)} bytes, ` +
        `over the limit of ${max} bytes (limits.payloadBytes)`,
      {
        path,
      },
    );
  }
  return text;
}

function write(value: unknown, path: string, maxBytes: number, types: TypeRegistry): string {
  try {
    if (isPlain(value, maxBytes)) return JSON.stringify(value);
    return RICH + stringifyRich(value, { path, maxBytes, extensions: [errorsIn(types)] }, types);
  } catch (cause) {
    disregardPromises(value);
    if (cause instanceof PerdureError) throw cause;
    // A getter or proxy of the user threw, or the text is longer than a string can be.
    throw new PayloadError(`${path} cannot be stored: reading it failed`, { path, cause });
  }
}

/**
 * Returns the value of a text that {@link encode} made.
 *
 * @param path - the user's name for it, for the error
 * @throws PayloadError when it is no such text; the message quotes nothing of it
 */
export function decode(text: string | undefined, path = 'value', types: TypeRegistry = NO_TYPES): unknown {
  if (text === undefined) return undefined;
  try {
    return text.startsWith(RICH) ? parseRich(text.slice(RICH.length), [errorsIn(types)], types) : JSON.parse(text);
  } catch (error) {
    if (error instanceof UnreadableType) throw unreadable(error, path);
    throw new PayloadError(`${path} cannot be read: its stored text of ${text.length} characters is damaged`, { path });
  }
}

/** Errors of values that other code may be able to read. */
const unreadables = new WeakSet<object>();

function unreadable({ message, cause }: UnreadableType, path: string): PayloadError {
  const given = cause === undefined ? {} : { cause };
  const error = new PayloadError(`${path} cannot be read: ${message}`, { path, ...given });
  unreadables.add(error);
  return error;
}

/** Returns true if {@link decode} threw the error because a class is not registered here, or its `from` has failed. */
export function isUnreadable(error: unknown): boolean {
  return typeof error === 'object' && error !== null && unreadables.has(error);
}

/** Returns true if a text of {@link encode} may hold an error. A string that equals the tag of errors counts, too. */
export function containsErrors(text: string): boolean {
  return text.startsWith(RICH) && text.includes(`"${ERROR_TAG}"`);
}

/**
 * Returns true if two texts of {@link encode} describe the same value. Stacks of errors are not compared: they name
 * lines and folders of the code, which change when the code moves.
 */
export function isSameButForStacks(recorded: string | null, text: string, types = NO_TYPES): boolean {
  if (recorded === text) return true;
  if (recorded === null || !containsErrors(recorded) || !containsErrors(text)) return false;
  try {
    return withoutStacks(recorded, types) === withoutStacks(text, types);
  } catch {
    // The recorded text is damaged.
    return false;
  }
}

function withoutStacks(text: string, types: TypeRegistry): string {
  const extensions = [stacklessErrorsIn(types)];
  const options = { path: '', maxBytes: Number.MAX_SAFE_INTEGER, extensions };
  return stringifyRich(decode(text, '', types), options, types);
}

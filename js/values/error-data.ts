import { types } from 'node:util';

import { withJson } from '../errors/error-json.ts';
import { ERROR_CLASSES, kindOfError, type PerdureError } from '../errors/errors.ts';
import { boundedInspect } from '../util/bounded-inspect.ts';
import { isPlain, type Json } from '../util/plain.ts';
import { parseRich, stringifyRich } from './rich.ts';
import type { Extension } from './rich-check.ts';
import { NO_TYPES, type TypeRegistry } from './value-types.ts';

/**
 * An error, or any other thrown value, as plain JSON: the form in which the store keeps it.
 *
 * Store it as JSON text. As an object it could lose lone surrogates on its way through the addon.
 */
export interface ErrorData {
  /** `error.name`. */
  name: string;
  message: string;
  /** The built-in or Perdure class of the error, unless that is just `Error`. */
  type?: string;
  /** The name of its registered class: see `value-types.ts`. */
  class?: string;
  stack?: string;
  code?: string | number;
  cause?: ErrorData;
  /** The errors of an `AggregateError`. */
  errors?: ErrorData[];
  /** Own enumerable properties that are plain JSON. */
  fields?: Record<string, Json>;
  /** Own enumerable properties that are not plain JSON, such as a `Date`, as text of {@link stringifyRich}. */
  richFields?: Record<string, string>;
  /** The thrown value itself if it was no error. Absent if it could not be stored, such as a function. */
  thrown?: { json: Json } | { rich: string };
}

/** The longest chain of causes that is kept. */
const CAUSES_MAX = 32;
/** The longest message or stack that is kept, in characters. */
const TEXT_MAX = 16_384;
/** The longest own property that is kept, in characters. */
const FIELD_MAX = 65_536;
/** Total characters after which errors are kept without stacks and properties, and with short messages. */
const FULL_MAX = 262_144;
/** The longest message after `FULL_MAX` characters. */
const LEAN_TEXT_MAX = 256;
/** Further characters after which the remaining errors of an `AggregateError` are dropped. */
const LEAN_MAX = 65_536;

/** Name of the error that stands for a thrown value that is no error. */
const NON_ERROR = 'NonError';

/**
 * Returns an error as data for the store: name, message, stack, code, cause chain, the errors of an `AggregateError`
 * and own properties that can be stored. It takes any value, because any value may be thrown.
 *
 * Never throws, even if getters and proxies do. Cycles end where they close. The size is bounded: texts that are too
 * long are cut and say so.
 */
export function encodeError(error: unknown, types: TypeRegistry = NO_TYPES): ErrorData {
  return new Encoder(types).encode(error, 0);
}

/**
 * Returns the error of some data: an instance of the registered, Perdure or built-in class that it had, otherwise an
 * `Error` of the right name. A thrown value that was no error becomes an `Error` with that value as its `cause`.
 */
export function decodeError(data: ErrorData, types: TypeRegistry = NO_TYPES): Error {
  if (data.thrown === undefined) return restore(data, types);
  const { name, message } = data;
  return Object.assign(restore({ name, message }, types), { cause: decodeThrown(data, types) });
}

/** Returns the thrown value: an error as {@link decodeError} returns it, or the value that was no error. */
export function decodeThrown(data: ErrorData, types: TypeRegistry = NO_TYPES): unknown {
  if (data.thrown === undefined) return restore(data, types);
  return 'json' in data.thrown ? data.thrown.json : parsePart(data.thrown.rich, types);
}

/** Parses a part of an error. A part that cannot be read is shown by its data: the rest of the error says more. */
function parsePart(text: string, types: TypeRegistry): unknown {
  return parseRich(text, [errorsIn(types)], types, true);
}

/**
 * Error data in the form that the addon sends. Fields of the class, such as `retryable`, are in `details` or beside
 * `code`.
 */
export interface NativeErrorData {
  code: string;
  message: string;
  details?: Record<string, unknown> | null;
  [field: string]: unknown;
}

const NATIVE_TYPES: Readonly<Record<string, keyof typeof ERROR_CLASSES>> = {
  INSTANCE_EXISTS: 'InstanceExistsError',
  INSTANCE_NOT_FOUND: 'InstanceNotFoundError',
  QUEUE_NOT_FOUND: 'QueueNotFoundError',
  NOT_REGISTERED: 'NotRegisteredError',
  PAYLOAD: 'PayloadError',
  TIMEOUT: 'TimeoutError',
  CANCELLED: 'CancelledError',
  ACTIVITY: 'ActivityError',
  SUB_ORCHESTRATION: 'SubOrchestrationError',
  NONDETERMINISM: 'NondeterminismError',
  LIMIT: 'LimitError',
  PROVIDER: 'ProviderError',
  SCHEMA_VERSION: 'SchemaVersionError',
  RUNTIME_STATE: 'RuntimeStateError',
};

/**
 * Returns the Perdure error for error data from the addon. A code that is not known here gives a plain `PerdureError`.
 */
export function fromNative(data: NativeErrorData): PerdureError {
  const { code, message, details, ...fields } = data;
  const type = NATIVE_TYPES[code] ?? 'PerdureError';
  const error = instantiate(type, message, []) as PerdureError;
  Error.captureStackTrace(error, fromNative);
  define(error, 'code', code, true);
  for (const [key, value] of Object.entries({ ...fields, ...details })) {
    if (key === 'cause') define(error, key, value);
    else if (!NO_FIELDS.has(key) && value !== undefined && value !== null) define(error, key, value, true);
  }
  return error;
}

/** Tag of an error inside a value. */
export const ERROR_TAG = 'Error';

/** Returns the extension that allows errors inside values. */
export function errorsIn(types: TypeRegistry): Extension {
  return errorExtension((error) => encodeError(error, types), types);
}

/** The same without stacks, which differ once the code has moved. */
export function stacklessErrorsIn(types: TypeRegistry): Extension {
  return errorExtension((error) => new Encoder(types, false).encode(error, 0), types);
}

function errorExtension(write: (error: object) => ErrorData, types: TypeRegistry): Extension {
  return { name: ERROR_TAG, matches: isError, write, read: (data) => restore(data as ErrorData, types) };
}

const BUILT_IN = {
  Error,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
  AggregateError,
  DOMException,
} as const;

const TYPE_NAMES = new Map<unknown, string>(Object.entries(BUILT_IN).map(([name, type]) => [type.prototype, name]));

/** Properties that are kept under their own names, and not as fields. */
const NO_FIELDS = new Set(['name', 'message', 'stack', 'code', 'cause']);

class Encoder {
  /**
   * Errors that are kept already. At its second place an error has only its name, message, type and code. This also
   * ends cycles.
   */
  readonly #seen = new Set<unknown>();
  readonly #extensions: readonly Extension[];
  /** Depth of the error whose properties are being encoded. */
  #depth = 0;
  /** Characters left until the limits of size apply. */
  #left = FULL_MAX;
  readonly #types: TypeRegistry;
  readonly #keepsStacks: boolean;

  constructor(types: TypeRegistry, keepsStacks = true) {
    this.#types = types;
    this.#keepsStacks = keepsStacks;
    this.#extensions = [errorExtension((error) => this.encode(error, this.#depth + 1), types)];
  }

  encode(value: unknown, depth: number): ErrorData {
    return isError(value) ? this.#error(value, depth) : this.#thrown(value, depth);
  }

  #error(error: Error, depth: number): ErrorData {
    const name = read(error, 'name');
    const type = typeOf(error);
    const data: ErrorData = {
      name: typeof name === 'string' ? this.#text(name) : 'Error',
      message: this.#text(asText(read(error, 'message'))),
    };
    if (type !== undefined) data.type = type;
    const registered = this.#registered(error);
    if (registered !== undefined) data.class = registered;
    const code = read(error, 'code');
    if (typeof code === 'string') data.code = this.#text(code);
    else if (typeof code === 'number' && Number.isFinite(code)) data.code = code;
    if (this.#seen.has(error)) return data;
    this.#seen.add(error);

    const stack = this.#keepsStacks && this.#left > 0 ? read(error, 'stack') : undefined;
    if (typeof stack === 'string') data.stack = this.#text(stack);
    if (depth < CAUSES_MAX) this.#inner(error, data, depth);
    if (this.#left > 0) this.#fields(error, data, depth);
    return data;
  }

  #registered(error: Error): string | undefined {
    try {
      return this.#types.errorName(error);
    } catch {
      // A proxy that does not tell its prototype.
      return undefined;
    }
  }

  #inner(error: Error, data: ErrorData, depth: number): void {
    if (hasOwn(error, 'cause')) data.cause = this.encode(read(error, 'cause'), depth + 1);
    const errors = data.type === 'AggregateError' ? read(error, 'errors') : undefined;
    if (!Array.isArray(errors)) return;
    data.errors = [];
    for (const item of errors as unknown[]) {
      if (this.#left < -LEAN_MAX) break;
      data.errors.push(this.encode(item, depth + 1));
    }
  }

  #fields(error: Error, data: ErrorData, depth: number): void {
    const fields: [string, Json][] = [];
    const richFields: [string, string][] = [];
    for (const key of ownKeys(error)) {
      if (NO_FIELDS.has(key) || (key === 'errors' && data.errors !== undefined)) continue;
      const stored = this.#value(read(error, key), depth);
      if (stored === undefined) continue;
      this.#left -= key.length;
      if ('json' in stored) fields.push([key, stored.json]);
      else richFields.push([key, stored.rich]);
    }
    // fromEntries defines and does not assign: a `__proto__` key stays a key.
    if (fields.length > 0) data.fields = Object.fromEntries(fields);
    if (richFields.length > 0) data.richFields = Object.fromEntries(richFields);
  }

  #thrown(value: unknown, depth: number): ErrorData {
    const data: ErrorData = { name: NON_ERROR, message: this.#text(describe(value)) };
    const thrown = this.#value(value, depth);
    if (thrown !== undefined) data.thrown = thrown;
    return data;
  }

  /** Returns a value in the form in which it is kept within an error, or undefined if it cannot be kept. */
  #value(value: unknown, depth: number): { json: Json } | { rich: string } | undefined {
    const max = Math.min(FIELD_MAX, this.#left);
    const outer = this.#depth;
    this.#depth = depth;
    try {
      const isJson = isPlain(value, max);
      const text = isJson
        ? JSON.stringify(value)
        : stringifyRich(value, { path: '', maxBytes: max, extensions: this.#extensions }, this.#types);
      if (text.length > max) return undefined;
      this.#left -= text.length;
      return isJson ? { json: JSON.parse(text) as Json } : { rich: text };
    } catch {
      return undefined;
    } finally {
      this.#depth = outer;
    }
  }

  #text(text: string): string {
    const max = this.#left > 0 ? TEXT_MAX : LEAN_TEXT_MAX;
    const more = text.length - max;
    const kept = more <= 0 ? text : `${text.slice(0, max)}… (${more} more characters)`;
    this.#left -= kept.length;
    return kept;
  }
}

function restore(data: ErrorData, types: TypeRegistry): Error {
  const errors = (data.errors ?? []).map((one) => decodeThrown(one, types));
  const error = instantiate(data.type, data.message, errors, data.name);
  const own = types.errorClass(data.class);
  if (own !== undefined) Object.setPrototypeOf(error, own.prototype);
  if (!('toJSON' in error)) withJson(error);
  if (error.name !== data.name) define(error, 'name', data.name);
  // Assigned, not defined: defining it would have V8 format the stack of this place first.
  error.stack = data.stack ?? `${data.name}: ${data.message}`;
  if (data.cause !== undefined) define(error, 'cause', decodeThrown(data.cause, types));
  if (data.code !== undefined && (error as { code?: unknown }).code !== data.code)
    define(error, 'code', data.code, true);
  for (const [key, value] of Object.entries(data.fields ?? {})) define(error, key, value, true);
  for (const [key, text] of Object.entries(data.richFields ?? {})) {
    define(error, key, parsePart(text, types), true);
  }
  return error;
}

/**
 * Creates an error of a class without running the constructor of Perdure's classes: their fields come from the data.
 */
function instantiate(type: string | undefined, message: string, errors: unknown[], name?: string): Error {
  if (type === 'DOMException') return new DOMException(message, name);
  if (type === 'AggregateError') return new AggregateError(errors, message);
  const builtIn = lookUp(BUILT_IN, type);
  if (builtIn !== undefined) return Reflect.construct(builtIn, [message]) as Error;
  return Reflect.construct(Error, [message], lookUp(ERROR_CLASSES, type) ?? Error) as Error;
}

function lookUp<T extends object>(table: T, key: string | undefined): T[keyof T] | undefined {
  return key !== undefined && Object.hasOwn(table, key) ? table[key as keyof T] : undefined;
}

function define(target: Error, key: string, value: unknown, enumerable = false): void {
  Object.defineProperty(target, key, { value, enumerable, writable: true, configurable: true });
}

function isError(value: unknown): value is Error {
  try {
    return types.isNativeError(value) || value instanceof Error;
  } catch {
    return false;
  }
}

/** Returns the name of the nearest class that can be restored; undefined for `Error` itself. */
function typeOf(error: Error): string | undefined {
  const kind = kindOfError(error);
  if (typeof kind === 'string' && Object.hasOwn(ERROR_CLASSES, kind)) return kind;
  try {
    for (let at: unknown = error; at !== null; at = Object.getPrototypeOf(at)) {
      const name = TYPE_NAMES.get(at);
      if (name !== undefined) return name === 'Error' ? undefined : name;
    }
  } catch {
    // A proxy that does not tell its prototype.
  }
  return undefined;
}

function read(target: object, key: string): unknown {
  try {
    return (target as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

function hasOwn(target: object, key: string): boolean {
  try {
    return Object.hasOwn(target, key);
  } catch {
    return false;
  }
}

function ownKeys(target: object): string[] {
  try {
    return Object.keys(target);
  } catch {
    return [];
  }
}

function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined ? '' : describe(value);
}

/** Returns a thrown value in words, for the message. */
function describe(value: unknown): string {
  if (typeof value === 'string') return value;
  try {
    const message = typeof value === 'object' && value !== null ? (value as { message?: unknown }).message : undefined;
    return typeof message === 'string' ? message : boundedInspect(value, { depth: 2, breakLength: Infinity }).text;
  } catch {
    return 'a value that cannot be shown';
  }
}

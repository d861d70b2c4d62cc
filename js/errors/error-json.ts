// An error as plain JSON, for logs and responses. `JSON.stringify` of a plain `Error` gives `{}`.

import { boundedInspect } from '../util/bounded-inspect.ts';
import { isPlain, type Json } from '../util/plain.ts';
import { isInstance, isList, property } from '../util/show.ts';

/**
 * An error as plain JSON. It has the own fields of the error, too, such as `activityName`. A field that is not plain
 * JSON is its text, as `util.inspect` shows it.
 */
export interface ErrorJson {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  /** The cause: an error in this form, or a value that was thrown or given. */
  readonly cause?: Json | ErrorJson;
  readonly [field: string]: unknown;
}

/** The most errors that are shown with their fields and causes. Later ones have only name, message and code. */
const FULL_MAX = 32;
/** The most errors of a list, such as that of an `AggregateError`, that are shown. */
const LIST_MAX = 100;
/** The longest field that is shown, in characters. */
const FIELD_MAX = 65_536;
/** The longest text of a field that is not plain JSON. */
const TEXT_MAX = 1_000;

/** Properties that are shown in a place of their own, or not at all. */
const NO_FIELDS = new Set(['name', 'message', 'code', 'cause', 'stack', 'errors', 'toJSON']);

/**
 * Returns name, message, code, own fields and cause of an error, without stacks. Never throws. An error that was shown
 * before, as in a cycle, has only its name, message and code.
 */
export function errorJson(error: Error): ErrorJson {
  return show(error, new Set());
}

/** Gives an error that is none of Perdure's the method `toJSON`, without a trace in its keys. */
export function withJson<E extends Error>(error: E): E {
  return Object.defineProperty(error, 'toJSON', { value: toJSON, writable: true, configurable: true });
}

function toJSON(this: Error): ErrorJson {
  return errorJson(this);
}

/** @param above - the errors that were shown before */
function show(error: Error, above: Set<Error>): ErrorJson {
  const code = property(error, 'code');
  const head = {
    name: String(property(error, 'name')),
    message: String(property(error, 'message')),
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
  };
  if (above.has(error) || above.size >= FULL_MAX) return head;
  above.add(error);
  const fields = Object.keys(Object.getOwnPropertyDescriptors(error))
    .filter((key) => Object.prototype.propertyIsEnumerable.call(error, key) && !NO_FIELDS.has(key))
    .map((key) => [key, part(property(error, key), above)] as const);
  const errors = property(error, 'errors');
  const cause = property(error, 'cause');
  return {
    ...head,
    // fromEntries defines and does not assign: a `__proto__` key stays a key.
    ...Object.fromEntries(fields),
    ...(isList(errors) ? { errors: errors.slice(0, LIST_MAX).map((item) => part(item, above)) } : {}),
    ...(cause === undefined ? {} : { cause: part(cause, above) as Json | ErrorJson }),
  };
}

function part(value: unknown, above: Set<Error>): unknown {
  if (value === undefined || isPlain(value, FIELD_MAX)) return value;
  if (isInstance(value, Error)) return show(value, above);
  if (isInstance(value, Date) && !Number.isNaN(value.getTime())) return value.toISOString();
  return boundedInspect(value, { depth: 2, breakLength: Infinity, maxStringLength: TEXT_MAX }).text.slice(0, TEXT_MAX);
}

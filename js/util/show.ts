// Users' values of any type: looked at without harm, and described in a message without their content.

import { types } from 'node:util';

/** The number of characters that are shown of a text. */
const TEXT_MAX = 60;

/** Key under which a future describes itself, for messages about a future in the place of its value. */
export const FUTURE = Symbol('future');

/** The description of a future. */
export interface FutureNote {
  /** The work that it is the result of, such as `activity 'charge'`. */
  readonly what: string;
  /** The lines of the code that asked for it, as in a stack; empty if they are not known. */
  readonly lines: string;
}

/** The number of objects of a refused value that are searched for promises. */
const SEARCHED_MAX = 10_000;

const { then } = Promise.prototype;

/**
 * Handles the rejections of all promises in a refused value. No other code will, and Node would end the process. Finds
 * promises in arrays, Maps, Sets and properties. Runs no getter and no proxy.
 */
export function disregardPromises(refused: unknown): void {
  const found = new Set<unknown>([refused]);
  for (const value of found) {
    if (typeof value !== 'object' || value === null || types.isProxy(value)) continue;
    if (types.isPromise(value)) {
      disregard(value);
      continue;
    }
    for (const part of partsOf(value)) if (typeof part === 'object' && found.size < SEARCHED_MAX) found.add(part);
  }
}

function disregard(promise: Promise<unknown>): void {
  try {
    then.call(promise, undefined, () => {});
  } catch {
    // The class of the promise does not let it be awaited.
  }
}

function partsOf(value: object): Iterable<unknown> {
  if (types.isMap(value)) return Map.prototype.values.call(value);
  if (types.isSet(value)) return Set.prototype.values.call(value);
  if (ArrayBuffer.isView(value)) return [];
  return Object.values(Object.getOwnPropertyDescriptors(value)).map((part) => part.value as unknown);
}

/** Names a refused value in a message: a short text or a number as it is, any other value only by its kind. */
export function show(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `'${value.length > TEXT_MAX ? `${value.slice(0, TEXT_MAX)}…` : value}'`;
    case 'object':
      if (value === null) return 'null';
      for (const kind of ['activity', 'orchestration'] as const)
        if (isDefined(value, kind)) return `the ${kind} ${show(property(value, 'name'))}`;
      if (noteOf(value) !== undefined) return `the future of ${noteOf(value)?.what} (write \`yield*\` for its value)`;
      disregardPromises(value);
      return isList(value) ? 'an array' : 'an object';
    case 'function':
    case 'symbol':
    case 'bigint':
      return `a ${typeof value}`;
    default:
      return String(value);
  }
}

/**
 * True if a value looks like a result of `defineActivity` or `defineOrchestration`, here or in another copy of this
 * package.
 */
export function isDefined(value: unknown, kind: 'activity' | 'orchestration'): boolean {
  return (
    property(value, 'kind') === kind &&
    typeof property(value, 'fn') === 'function' &&
    typeof property(value, 'name') === 'string'
  );
}

/** Returns the description of a future; `undefined` for any other value. */
export function noteOf(value: unknown): FutureNote | undefined {
  return property(value, FUTURE) as FutureNote | undefined;
}

/** True if a value is an array; false for a revoked proxy. */
export function isList(value: unknown): value is unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** True if a value is an object that may hold options. */
export function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !isList(value);
}

/** True if `value instanceof type`; false for a proxy that does not tell its prototype. */
export function isInstance<T>(value: unknown, type: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof type;
  } catch {
    return false;
  }
}

/** Returns a property of a value; `undefined` if there is none, or if reading it throws. */
export function property(value: unknown, key: PropertyKey): unknown {
  try {
    return (value as Record<PropertyKey, unknown> | null | undefined)?.[key];
  } catch {
    return undefined;
  }
}

// A value of the user's that may be anything: looked at without harm, and told in a message without what is in it.

import { types } from 'node:util';

/** Longest text that is shown of one. */
const TEXT_MAX = 60;

/** So many objects of a refused value are searched for promises. */
const SEARCHED_MAX = 10_000;

const { then } = Promise.prototype;

/**
 * Handles the rejections of all promises in a refused value: nobody else will, and Node would end the process. Promises in arrays, Maps, Sets and
 * properties are found. No getter and no proxy is run.
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
    // One whose class does not let itself be waited for.
  }
}

function partsOf(value: object): Iterable<unknown> {
  if (types.isMap(value)) return Map.prototype.values.call(value);
  if (types.isSet(value)) return Set.prototype.values.call(value);
  if (ArrayBuffer.isView(value)) return [];
  return Object.values(Object.getOwnPropertyDescriptors(value)).map((part) => part.value as unknown);
}

/** Names a refused value in a message: a short text or a number as it is, of anything else only its kind. */
export function show(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `'${value.length > TEXT_MAX ? `${value.slice(0, TEXT_MAX)}…` : value}'`;
    case 'object':
      if (value === null) return 'null';
      for (const kind of ['activity', 'orchestration'] as const)
        if (isDefined(value, kind)) return `the ${kind} ${show(property(value, 'name'))}`;
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

/** Whether it looks like what `defineActivity` or `defineOrchestration` returned, here or in another copy of this package. */
export function isDefined(value: unknown, kind: 'activity' | 'orchestration'): boolean {
  return (
    property(value, 'kind') === kind &&
    typeof property(value, 'fn') === 'function' &&
    typeof property(value, 'name') === 'string'
  );
}

/** Whether it is an array; a proxy that was revoked is none. */
export function isList(value: unknown): value is unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** An object that may hold options. */
export function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !isList(value);
}

/** `value instanceof type`; a proxy that does not tell its prototype is none. */
export function isInstance<T>(value: unknown, type: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof type;
  } catch {
    return false;
  }
}

/** A property of it, `undefined` when it has none, or throws when it is asked. */
export function property(value: unknown, key: PropertyKey): unknown {
  try {
    return (value as Record<PropertyKey, unknown> | null | undefined)?.[key];
  } catch {
    return undefined;
  }
}

import { types } from 'node:util';

/** A value that JSON text holds exactly. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/**
 * The deepest nesting that is stored, plain or not. It is well below the depth that a JavaScript stack can walk, so
 * that a value that was written can also be read by a caller that is deep in its own recursion.
 */
export const MAX_DEPTH = 500;

interface WalkState {
  /** Characters that the value may still take up. */
  left: number;
  /** The objects around the value that the walk is at. */
  readonly ancestors: object[];
}

/**
 * True if `JSON.parse(JSON.stringify(value))` gives the same value back: objects and arrays without anything special
 * about them, finite numbers other than -0, strings, booleans and null.
 *
 * Also false for a value that would take more than `maxChars` characters or is nested deeper than {@link MAX_DEPTH}.
 * The check therefore ends in bounded time for cycles and for graphs whose JSON text would be exponentially large.
 */
export function isPlain(value: unknown, maxChars: number): value is Json {
  return walk(value, { left: maxChars, ancestors: [] });
}

function walk(value: unknown, state: WalkState): boolean {
  switch (typeof value) {
    case 'string':
      return (state.left -= value.length + 2) >= 0;
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0) && --state.left >= 0;
    case 'boolean':
      return --state.left >= 0;
    case 'object':
      return value === null ? --state.left >= 0 : walkObject(value, state);
    default:
      return false;
  }
}

function walkObject(value: object, state: WalkState): boolean {
  const { ancestors } = state;
  if (ancestors.length >= MAX_DEPTH || ancestors.includes(value)) return false;
  // JSON.stringify would read other content from these objects than the walk sees.
  if (types.isProxy(value) || typeof (value as { toJSON?: unknown }).toJSON === 'function') return false;
  if (Object.getOwnPropertySymbols(value).length > 0) return false;
  ancestors.push(value);
  const plain = Array.isArray(value) ? walkItems(value, state) : walkProperties(value, state);
  ancestors.pop();
  return plain;
}

function walkItems(list: unknown[], state: WalkState): boolean {
  if (Object.getPrototypeOf(list) !== Array.prototype || (state.left -= list.length + 2) < 0) return false;
  // A hole reads as undefined, which is not plain either.
  for (let i = 0; i < list.length; i += 1) {
    if (!walk(list[i], state)) return false;
  }
  return Object.keys(list).length === list.length;
}

function walkProperties(object: object, state: WalkState): boolean {
  if (Object.getPrototypeOf(object) !== Object.prototype) return false;
  for (const key of Object.keys(object)) {
    const property = Object.getOwnPropertyDescriptor(object, key);
    if (property === undefined || property.get !== undefined || property.set !== undefined) return false;
    if ((state.left -= key.length + 4) < 0 || !walk(property.value, state)) return false;
  }
  return true;
}

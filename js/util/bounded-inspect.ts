// `util.inspect` for any value, in bounded time. A few hundred bytes of a store can hold a map that is twice in a map
// that is twice in a map, and so on, or a list that is in a list two thousand times. Written out, such a value is
// longer than any memory.

import { type InspectOptions, inspect, types } from 'node:util';

import { isInstance, property } from './show.ts';

/**
 * The budget of one value. A character that is shown costs 1, each time it is shown. Spending all of it takes about a
 * second.
 */
const BUDGET = 10_000_000;

/**
 * The cost of every item besides its characters, and the extra cost of an object. `inspect` takes as long for them as
 * for that many characters.
 */
const ITEM = 10;
const OBJECT = 1_000;

/** The deepest nesting that is shown. */
const DEPTH_MAX = 200;

/**
 * The number of items, and of characters of each text, that are shown of a value whose own items are over the budget.
 */
const BRIEF = { items: 1_000, characters: 100 };

/** The limits of `inspect` for one list, map or set, and for one text. */
type Limits = typeof BRIEF;

/**
 * Returns the text of `util.inspect`, no deeper than {@link BUDGET} allows. `isWhole` is true if nothing was left out
 * for that.
 *
 * @param share - the part of the budget, for one of several values that are shown together
 */
export function boundedInspect(value: unknown, options: InspectOptions, share = 1): { text: string; isWhole: boolean } {
  const budget = BUDGET * share;
  const wanted = Math.min(options.depth ?? DEPTH_MAX, DEPTH_MAX);
  const limits = { items: options.maxArrayLength ?? 100, characters: options.maxStringLength ?? 10_000 };
  const depth = depthOf(value, wanted, limits, budget);
  if (depth >= 0) return { text: inspect(value, { ...options, depth }), isWhole: depth === wanted };
  const brief = {
    items: Math.min(limits.items, BRIEF.items),
    characters: Math.min(limits.characters, BRIEF.characters),
  };
  const text = inspect(value, {
    ...options,
    maxArrayLength: brief.items,
    maxStringLength: brief.characters,
    depth: depthOf(value, 0, brief, budget),
  });
  return { text, isWhole: false };
}

/**
 * Returns the greatest depth, up to `wanted`, that the budget allows; -1 if it does not even allow the items of the
 * value itself.
 */
function depthOf(value: unknown, wanted: number, limits: Limits, budget: number): number {
  let left = budget - costOf(value, limits);
  let level = [value];
  for (let depth = 0; depth <= wanted && level.length > 0; depth += 1) {
    const next: unknown[] = [];
    for (const object of level) {
      for (const item of itemsOf(object, limits)) {
        left -= costOf(item, limits);
        if (left < 0) return depth - 1;
        if (typeof item === 'object' && item !== null) next.push(item);
      }
    }
    level = next;
  }
  return wanted;
}

/** Returns the cost of an item where it stands, whether or not its content is shown. */
function costOf(item: unknown, { items, characters }: Limits): number {
  if (typeof item === 'string') return ITEM + Math.min(item.length, characters);
  if (typeof item === 'bigint') return ITEM + digitsOf(item);
  if (typeof item !== 'object' || item === null) return ITEM;
  return OBJECT + charactersOf(item, items);
}

/** Making decimal digits takes time that grows with the square of their number. Hexadecimal digits are cheap. */
function digitsOf(number: bigint): number {
  return number.toString(16).length ** 2 / 1_000;
}

function charactersOf(object: object, items: number): number {
  if (types.isProxy(object) || types.isMap(object) || types.isSet(object) || isIndexed(object)) return 0;
  if (types.isAnyArrayBuffer(object)) return 3 * Math.min(object.byteLength, items);
  if (types.isStringObject(object)) return ITEM * object.length;
  if (types.isBigIntObject(object)) return digitsOf(BigInt.prototype.valueOf.call(object));
  if (types.isRegExp(object)) return String(property(object, 'source')).length;
  if (isInstance(object, URL) || isInstance(object, URLSearchParams)) return String(object).length;
  const keys = Object.keys(object).reduce((sum, key) => sum + ITEM + key.length, 0);
  return isInstance(object, Error) ? keys + String(property(object, 'stack')).length : keys;
}

/**
 * Yields the values that are shown within an object. Getters are not called, as `inspect` calls none. A proxy, which no
 * store holds, is not looked into.
 */
function* itemsOf(object: unknown, { items }: Limits): Generator<unknown> {
  if (typeof object !== 'object' || object === null || types.isProxy(object) || types.isBoxedPrimitive(object)) return;
  let left = items;
  if (types.isMap(object)) {
    for (const entry of Map.prototype.entries.call(object)) {
      if (left-- <= 0) return;
      yield* entry;
    }
  } else if (types.isSet(object)) {
    for (const item of Set.prototype.values.call(object)) {
      if (left-- <= 0) return;
      yield item;
    }
  } else if (isIndexed(object)) {
    for (let i = 0; i < Math.min(object.length, items); i += 1) {
      // Holes are shown as one, however many there are.
      if (!Object.hasOwn(object, i))
        return yield* Object.keys(object)
          .slice(i)
          .map((key) => valueAt(object, key));
      yield valueAt(object, i);
    }
  } else {
    for (const key of Object.keys(object)) yield valueAt(object, key);
    // Shown even if they are not enumerable.
    if (isInstance(object, Error)) yield* [property(object, 'cause'), property(object, 'errors')];
    if (types.isDataView(object)) yield object.buffer;
  }
}

function isIndexed(object: object): object is ArrayLike<unknown> {
  return Array.isArray(object) || types.isTypedArray(object);
}

function valueAt(object: object, key: PropertyKey): unknown {
  return Object.getOwnPropertyDescriptor(object, key)?.value;
}

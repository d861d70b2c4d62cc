// `util.inspect` for values of anybody, in a time that has a bound: a few hundred bytes of a store can hold a map that is twice in a map that is
// twice in a map, and so on, which written out is longer than any memory.

import { inspect, type InspectOptions } from 'node:util';

/** So many objects are shown of one value, however often each is in it. */
const OBJECTS_MAX = 10_000;

/** Nothing is shown that is nested deeper. */
const DEPTH_MAX = 200;

/** What `util.inspect` says, no deeper than {@link OBJECTS_MAX} objects allow; `isWhole`: nothing was left out for that. */
export function boundedInspect(value: unknown, options: InspectOptions): { text: string; isWhole: boolean } {
  const wanted = Math.min(options.depth ?? DEPTH_MAX, DEPTH_MAX);
  const depth = depthOf(value, wanted, options.maxArrayLength ?? OBJECTS_MAX);
  return { text: inspect(value, { ...options, depth }), isWhole: depth === wanted };
}

/** The greatest depth, up to `wanted`, at which not too many objects are shown; `wanted`, where nothing is nested deeper. */
function depthOf(value: unknown, wanted: number, itemsMax: number): number {
  for (let depth = 0; depth < wanted; depth += 1) {
    const walk = { left: OBJECTS_MAX, isCut: false };
    visit(value, depth, itemsMax, walk);
    if (walk.left < 0) return Math.max(depth - 1, 0);
    if (!walk.isCut) return wanted;
  }
  return wanted;
}

function visit(value: unknown, depth: number, itemsMax: number, walk: { left: number; isCut: boolean }): void {
  if (typeof value !== 'object' || value === null) return;
  walk.left -= 1;
  if (walk.left < 0) return;
  if (depth < 0) {
    walk.isCut = true;
    return;
  }
  let items = 0;
  for (const item of itemsOf(value)) {
    if (walk.left < 0 || items >= itemsMax) return;
    items += 1;
    visit(item, depth - 1, itemsMax, walk);
  }
}

function itemsOf(value: object): Iterable<unknown> {
  if (Array.isArray(value) || value instanceof Set) return value;
  if (value instanceof Map) return pairsOf(value);
  return ArrayBuffer.isView(value) ? [] : Object.values(value);
}

function* pairsOf(map: Map<unknown, unknown>): Generator<unknown> {
  for (const [key, item] of map) {
    yield key;
    yield item;
  }
}

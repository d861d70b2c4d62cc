import { parse, stringify } from 'devalue';

import { type CheckOptions, checkRich, type Extension, kindOf } from './rich-check.ts';
import { TYPE_TAG, type TypeRegistry } from './value-types.ts';

/**
 * Returns the text of a value that JSON cannot hold, as devalue writes it: dates, maps, sets, big integers, `undefined`
 * inside, cycles and so on.
 *
 * @throws PayloadError naming the path of the first part that would not come back unchanged
 */
export function stringifyRich(value: unknown, options: CheckOptions, types: TypeRegistry): string {
  const extensions = [...types.extensions, BUFFER, ...options.extensions];
  const written = new Map<object, unknown>();
  checkRich(value, { ...options, extensions, written });
  const reducers = extensions.map(({ name, matches, write }) => [
    name,
    // In a list, because devalue takes anything falsy as "not mine".
    (part: unknown) =>
      typeof part === 'object' &&
      part !== null &&
      matches(part) && [written.has(part) ? written.get(part) : write(part)],
  ]);
  return stringify(value, Object.fromEntries(reducers), { operations: STRINGIFY });
}

/**
 * Returns the value of a text of {@link stringifyRich}, given the same extensions.
 *
 * @param isLenient - true: an instance of a registered class that cannot be read becomes an object with its data
 * @throws UnreadableType when an instance of a registered class cannot be read
 */
export function parseRich(
  text: string,
  extensions: readonly Extension[],
  types: TypeRegistry,
  isLenient?: boolean,
): unknown {
  const revivers: Revivers = Object.fromEntries(
    [BUFFER, ...extensions].map(({ name, read }) => [name, ([data]) => read(data)]),
  );
  const all = text.includes(`"${TYPE_TAG}`) ? withTypes(revivers, types, isLenient) : revivers;
  return parse(text, all, { operations: PARSE });
}

type Revivers = Record<string, (data: [unknown]) => unknown>;

/** Adds a reviver for every class, also for those that are not registered. */
function withTypes(revivers: Revivers, types: TypeRegistry, isLenient: boolean | undefined): Revivers {
  const reviver = (tag: string | symbol): Revivers[string] | undefined => {
    if (typeof tag !== 'string' || !tag.startsWith(TYPE_TAG)) return undefined;
    return ([data]) => types.read(tag.slice(TYPE_TAG.length), data, isLenient);
  };
  return new Proxy(revivers, {
    getOwnPropertyDescriptor: (target, tag) => {
      const value = reviver(tag);
      return value === undefined
        ? Reflect.getOwnPropertyDescriptor(target, tag)
        : { value, configurable: true, enumerable: true, writable: true };
    },
    get: (target, tag) => reviver(tag) ?? target[tag as string],
  });
}

/** Keeps a Buffer a Buffer. Without it a Buffer would come back as the Uint8Array that it also is. */
const BUFFER: Extension = {
  name: 'Buffer',
  matches: (value) => Buffer.isBuffer(value),
  write: (value) => (value as Buffer).toString('base64'),
  read: (text) => Buffer.from(text as string, 'base64'),
};

// devalue refuses `__proto__` as a key. Such a key therefore has one more leading NUL in the text than in the value, so
// that every key is possible. Every property is defined, never assigned, so no prototype is touched.
const PROTO_KEY = /^\0*__proto__$/;

function escapeKey(key: string): string {
  return PROTO_KEY.test(key) ? `\0${key}` : key;
}

function unescapeKey(key: string): string {
  return key.charCodeAt(0) === 0 && PROTO_KEY.test(key) ? key.slice(1) : key;
}

/** The operations by which devalue reads a value. */
const STRINGIFY = {
  tagOf: (value: object) => kindOf(value) ?? '',
  isThenable: () => false,
  shapeOf: (value: object) =>
    kindOf(value) === 'Object'
      ? {
          kind: Object.getPrototypeOf(value) === null ? ('null-proto' as const) : ('plain' as const),
          keys: Object.keys(value).map(escapeKey),
        }
      : { kind: 'not-plain' as const },
  get: (value: Record<string, unknown>, key: string | number) =>
    value[typeof key === 'string' ? unescapeKey(key) : key],
  // A view of a part of a buffer takes only its own bytes along, and not those around it.
  viewInfo: ({ buffer, byteOffset, byteLength }: ArrayBufferView) => ({
    buffer: byteLength === buffer.byteLength ? buffer : buffer.slice(byteOffset, byteOffset + byteLength),
    byteOffset: 0,
    byteLength,
    bufferByteLength: byteLength,
  }),
};

/** The operations by which devalue builds a value. */
const PARSE = {
  set: (target: object, key: string | number, value: unknown) => {
    const name = typeof key === 'string' ? unescapeKey(key) : key;
    Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
  },
};

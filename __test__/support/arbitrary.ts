// Arbitraries for fast-check: values of every kind that can be stored, names, and texts with a special meaning.

import fc from 'fast-check';

/** The seed of every run, so that a run repeats. When a property fails, `fc` prints the seed to use instead. */
export const SEED = 20_260_801;

const SPECIAL_TEXTS = [
  '',
  '\0',
  '\u0001',
  '\u00010',
  '\ud800',
  '\udc00',
  '\udc00\ud800',
  '😀',
  '~',
  '~[1]',
  '#',
  '"',
  '\\',
  '\\u0000',
  '{"a":1}',
  '\u2028',
  '\ufeff',
  '</script>',
  'e\u0301',
  '__proto__',
];

/** Any text of any code units: NUL, and surrogates alone and in pairs. */
export const text: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 8 }).map((units) => String.fromCharCode(...units)),
  fc.array(fc.constantFrom(...SPECIAL_TEXTS), { maxLength: 4 }).map((parts) => parts.join('')),
);

const KEYS = [
  '__proto__',
  '\0__proto__',
  'constructor',
  'prototype',
  'toString',
  'valueOf',
  'hasOwnProperty',
  'then',
  'toJSON',
  'length',
  '0',
  '',
  'a',
];

const key = fc.oneof(text, fc.constantFrom(...KEYS));

/** Values without parts. */
const leaf: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    true,
    false,
    0,
    -0,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    5e-324,
    Number.MAX_SAFE_INTEGER,
  ),
  fc.integer(),
  fc.double(),
  fc.bigInt(),
  text,
  fc.date({ noInvalidDate: false }),
  fc.constantFrom(/a\/b"<[\0]/giu, /(?<x>😀)\n/dsy, /(?:)/),
  fc.webUrl({ withQueryParameters: true, withFragments: true }).map((url) => new URL(url)),
  fc.array(fc.tuple(text, text), { maxLength: 3 }).map((pairs) => new URLSearchParams(pairs)),
  fc.uint8Array({ maxLength: 20 }),
  fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
  fc.uint8Array({ maxLength: 20 }).map((bytes) => Uint8Array.from(bytes).buffer),
  fc.uint8Array({ maxLength: 20 }).map((bytes) => new DataView(Uint8Array.from(bytes).buffer)),
  fc.int16Array({ maxLength: 5 }),
  fc.float64Array({ maxLength: 5 }),
  fc
    .array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { maxLength: 5 })
    .map((list) => BigInt64Array.from(list)),
  fc.oneof(fc.integer(), fc.boolean(), fc.bigInt(), fc.string()).map((primitive) => Object(primitive) as unknown),
);

const ERRORS = [Error, TypeError, RangeError, SyntaxError];

function withHoles(list: readonly unknown[], holes: readonly number[]): unknown[] {
  const sparse = [...list];
  for (const at of holes) if (at < sparse.length) delete sparse[at];
  return sparse;
}

/** Properties are defined, as `JSON.parse` does: `__proto__` is a key like any other. */
function objectOf(prototype: object | null, entries: readonly (readonly [string, unknown])[]): object {
  const object = Object.create(prototype) as object;
  for (const [name, value] of entries)
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
  return object;
}

function errorOf(which: number, message: string, cause: unknown, code: string): Error {
  const type = ERRORS[which] ?? Error;
  return Object.assign(new type(message, cause === undefined ? undefined : { cause }), { code });
}

const { tree } = fc.letrec<{ tree: unknown; node: unknown }>((tie) => ({
  tree: fc.oneof({ depthSize: 'small', withCrossShrink: true }, leaf, tie('node')),
  node: fc.oneof(
    fc.array(tie('tree'), { maxLength: 5 }),
    fc
      .tuple(fc.array(tie('tree'), { maxLength: 5 }), fc.array(fc.nat(5), { maxLength: 2 }))
      .map(([list, holes]) => withHoles(list, holes)),
    fc
      .tuple(
        fc.constantFrom(Object.prototype, Object.prototype, null),
        fc.array(fc.tuple(key, tie('tree')), { maxLength: 5 }),
      )
      .map(([prototype, entries]) => objectOf(prototype, entries)),
    fc.array(fc.tuple(tie('tree'), tie('tree')), { maxLength: 4 }).map((entries) => new Map(entries)),
    fc.array(tie('tree'), { maxLength: 4 }).map((items) => new Set(items)),
  ),
}));

const error = fc
  .tuple(fc.nat(3), text, leaf, text)
  .map(([which, message, cause, code]) => errorOf(which, message, cause, code));

/** An object that contains itself, through a map and a list, and one part of it twice. */
function cycle(part: unknown): object {
  const shared = { part };
  const map = new Map<unknown, unknown>([['shared', shared]]);
  const top: Record<string, unknown> = { map, list: [shared, shared] };
  map.set('top', top);
  top.self = top;
  return top;
}

/** Any value that can be stored. */
export const storable: fc.Arbitrary<unknown> = fc.oneof(
  { arbitrary: tree, weight: 6 },
  { arbitrary: fc.jsonValue({ stringUnit: 'binary' }), weight: 2 },
  { arbitrary: leaf, weight: 2 },
  { arbitrary: error, weight: 1 },
  { arbitrary: tree.map(cycle), weight: 1 },
);

/** An id or a name: 1 to 256 characters, no NUL, no lone surrogate. */
export const name: fc.Arbitrary<string> = fc
  .oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc.string({ unit: 'binary-ascii', minLength: 250, maxLength: 256 }),
    fc.constantFrom(
      '__proto__',
      'toString',
      'constructor',
      ' ',
      '/',
      "'; DROP TABLE instances; --",
      '%',
      '*',
      '\u0001',
      '\u0001\u0030',
      '\r\n',
      '😀'.repeat(128),
    ),
  )
  .filter((value) => value.length > 0 && value.length <= 256 && !value.includes('\0') && value.isWellFormed());

class Money {
  amount = 1;
}

/** Makers of values that cannot be stored. */
const refused: fc.Arbitrary<() => unknown> = fc.constantFrom<(() => unknown)[]>(
  () => () => 1,
  () => Symbol('s'),
  () => Promise.resolve(1),
  () => new Money(),
  () => new WeakMap(),
  () => new (class Prices extends Map {})(),
  () => (function* () {})(),
  () => ({
    get boom() {
      throw new Error('boom');
    },
  }),
  () =>
    new Proxy(
      {},
      {
        ownKeys() {
          throw new Error('boom');
        },
      },
    ),
  () => new SharedArrayBuffer(8),
);

/** A value that contains a part that cannot be stored. */
export const unstorable: fc.Arbitrary<unknown> = fc
  .tuple(refused, fc.array(fc.tuple(fc.nat(3), tree), { maxLength: 6 }))
  .map(([make, around]) =>
    around.reduce<unknown>((inner, [how, beside]) => {
      if (how === 0) return [beside, inner];
      if (how === 1) return { beside, inner };
      if (how === 2)
        return new Map([
          ['beside', beside],
          ['inner', inner],
        ]);
      return new Set([beside, inner]);
    }, make()),
  );

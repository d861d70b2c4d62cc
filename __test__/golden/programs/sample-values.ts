// Values of every kind, and texts that are hard to store.

/** Made anew each time: a cycle cannot be shared. */
export function riches(): Record<string, unknown> {
  const cycle: Record<string, unknown> = { name: 'cycle' };
  cycle.self = cycle;
  return {
    date: new Date(86_400_000),
    map: new Map<unknown, unknown>([
      ['a', 1],
      [{ key: true }, new Set([1, 'two'])],
    ]),
    set: new Set([null, undefined]),
    big: -(2n ** 70n),
    absent: undefined,
    numbers: [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 5e-324, Number.MAX_SAFE_INTEGER],
    regexp: /a\/b"(?<x>😀)/giu,
    url: new URL('https://example.com/a?b=c#d'),
    query: new URLSearchParams([
      ['a', '1'],
      ['a', '2'],
    ]),
    bytes: Uint8Array.of(0, 127, 255),
    buffer: Buffer.from('ab\0'),
    words: BigInt64Array.of(-1n, 2n ** 62n),
    floats: Float64Array.of(0.5, Number.NaN),
    view: new DataView(Uint8Array.of(1, 2).buffer),
    holes: [1, , 3],
    error: Object.assign(new RangeError('in a value', { cause: new Error('its cause') }), { code: 'E' }),
    bare: Object.assign(Object.create(null) as object, { a: 1 }),
    boxed: Object('text') as unknown,
    cycle,
  };
}

/** Texts that stores and JSON are known to lose. */
export const TEXTS = [
  '',
  '\0',
  'a\0b',
  '\ud800',
  '\udc00\ud800',
  '😀',
  'e\u0301',
  '\u2028',
  '\ufeff',
  '~',
  '~[1]',
  '#text',
  '"\\u0000"',
  '\r\n',
  "'; --",
];

/** Keys are defined as `JSON.parse` does: `__proto__` is a key like any other. */
export const odd: unknown = JSON.parse(
  '{"__proto__":{"polluted":true},"constructor":1,"toString":null,"":"empty","\\u0000":"NUL","then":2}',
);

import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';

import { ActivityError, PayloadError } from '../../js/errors/errors.ts';
import { decode, encode } from '../../js/values/codec.ts';

const limits = (payloadBytes: number) => ({ payloadBytes });

function roundTrip(value: unknown): unknown {
  return decode(encode(value, 'input'));
}

function refusal(value: unknown, max?: number): PayloadError {
  try {
    encode(value, 'input', max === undefined ? undefined : limits(max));
  } catch (error) {
    if (error instanceof PayloadError) return error;
    throw error;
  }
  throw new Error('was not refused');
}

/** `JSON.parse` makes `__proto__` a key like any other, which a literal does not. */
const json = (text: string): unknown => JSON.parse(text);

function nested(depth: number, wrap: (inner: unknown) => unknown, core: unknown = 0): unknown {
  let value = core;
  for (let i = 0; i < depth; i += 1) value = wrap(value);
  return value;
}

describe('plain values', () => {
  it.each([
    ['null', null],
    ['true', true],
    ['0', 0],
    ['-1.5', -1.5],
    ['1e+21', 1e21],
    ['"a"', 'a'],
    ['""', ''],
    ['[]', []],
    ['{}', {}],
    ['{"a":[1,{"b":null}],"c":"d"}', { a: [1, { b: null }], c: 'd' }],
  ])('are stored as the JSON text %s', (text, value) => {
    expect(encode(value, 'input')).toBe(text);
    expect(decode(text)).toEqual(value);
  });

  it('keep nothing of undefined', () => {
    expect(encode(undefined, 'input')).toBeUndefined();
    expect(decode(undefined)).toBeUndefined();
  });

  it.each([
    ['NUL', 'a\0b'],
    ['a lone high surrogate', 'a\ud800b'],
    ['a lone low surrogate', '\udc00'],
    ['a pair of surrogates', '😀'],
    ['line separators', '\u2028\u2029'],
    ['a text that looks like the other format', '~[1]'],
  ])('come back as they were: %s', (_, text) => {
    for (const value of [text, { [text]: text }, [text]]) {
      const stored = encode(value, 'input') as string;
      expect(stored[0]).not.toBe('~');
      expect(stored.isWellFormed()).toBe(true);
      expect(stored).not.toContain('\0');
      expect(decode(stored)).toEqual(value);
    }
  });

  it('may have __proto__ and other inherited names as keys', () => {
    const value = json('{"__proto__":{"polluted":1},"constructor":1,"toString":2}') as object;
    const stored = encode(value, 'input') as string;
    expect(stored[0]).toBe('{');
    const back = decode(stored) as object;
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(Object.entries(back)).toEqual(Object.entries(value));
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });
});

describe('values that are more than JSON', () => {
  it.each<[string, unknown]>([
    ['Date', new Date(1_700_000_000_000)],
    ['invalid Date', new Date(Number.NaN)],
    [
      'Map',
      new Map<unknown, unknown>([
        ['a', 1],
        [{ k: 1 }, new Date(0)],
      ]),
    ],
    ['Set', new Set([1, 'a', new Set()])],
    ['BigInt', 2n ** 80n],
    ['NaN', Number.NaN],
    ['Infinity', Number.POSITIVE_INFINITY],
    ['-Infinity', Number.NEGATIVE_INFINITY],
    ['-0', -0],
    ['undefined in an object', { a: undefined, b: 1 }],
    ['undefined in an array', [undefined, 1]],
    ['RegExp', /a\/b"<[\0]/giu],
    ['URL', new URL('https://example.org/a?b=c#d')],
    ['URLSearchParams', new URLSearchParams('a=1&a=2')],
    ['boxed primitives', [Object(1), Object('a'), Object(false), Object(1n), Object(-0)]],
    ['Uint8Array', new Uint8Array([1, 2, 255])],
    ['Float64Array', new Float64Array([1.5, Number.NaN, -0])],
    ['BigInt64Array', new BigInt64Array([-1n])],
    ['DataView', new DataView(new Uint8Array([1, 2]).buffer)],
    ['ArrayBuffer', new Uint8Array([1, 2]).buffer],
    ['Buffer', Buffer.from('perdure')],
    ['empty Buffer', Buffer.alloc(0)],
    ['object without prototype', Object.assign(Object.create(null) as object, { a: 1 })],
    ['strange text beside a Date', [new Date(0), '\0', '\ud800', '😀', '\u2028<>&', '~', '__proto__']],
    ['strange keys beside a Date', { '': 1, '\0': 2, '\ud800': 3, '"': 4, '\0__proto__': 5, d: new Date(0) }],
    [
      'getter',
      {
        get a() {
          return new Date(0);
        },
      },
    ],
  ])('come back as they were: %s', (_, value) => {
    const stored = encode(value, 'input') as string;
    expect(stored[0]).toBe('~');
    expect(stored.isWellFormed()).toBe(true);
    const back = decode(stored);
    expect(back).toStrictEqual(value);
    expect(Object.prototype.toString.call(back)).toBe(Object.prototype.toString.call(value));
    expect(Buffer.isBuffer(back)).toBe(Buffer.isBuffer(value));
  });

  it('keep holes, and long sparse arrays stay small', () => {
    const back = roundTrip([1, , 3]) as unknown[];
    expect(back).toHaveLength(3);
    expect(1 in back).toBe(false);
    const sparse: number[] = [];
    sparse[1_000_000] = 1;
    expect((encode(sparse, 'input') as string).length).toBeLessThan(100);
    expect((roundTrip(sparse) as number[])[1_000_000]).toBe(1);
  });

  it('keep cycles and shared parts', () => {
    interface Node {
      name: string;
      parent?: Node;
      children: Node[];
    }
    const root: Node = { name: 'root', children: [] };
    for (const name of ['a', 'b', 'c']) root.children.push({ name, parent: root, children: [] });
    const back = roundTrip(root) as Node;
    expect(back.children.map((child) => child.name)).toEqual(['a', 'b', 'c']);
    for (const child of back.children) expect(child.parent).toBe(back);
    const list: unknown[] = [];
    list.push(list);
    const backList = roundTrip(list) as unknown[];
    expect(backList[0]).toBe(backList);
    const map = new Map<string, unknown>();
    map.set('self', map);
    const backMap = roundTrip(map) as Map<string, unknown>;
    expect(backMap.get('self')).toBe(backMap);
  });

  it('keep a graph small whose JSON text would be huge', () => {
    const value = nested(60, (inner) => [inner, inner]);
    expect((encode(value, 'input') as string).length).toBeLessThan(2_000);
    let depth = 0;
    for (let at = roundTrip(value); Array.isArray(at); at = at[1]) depth += 1;
    expect(depth).toBe(60);
  });

  it('keep __proto__ keys, also beside rich values, in cycles and under escaped names', () => {
    const value = json('{"__proto__":{"polluted":1},"\\u0000__proto__":2,"\\u0000\\u0000__proto__":3}') as Record<
      string,
      unknown
    >;
    value.date = new Date(0);
    value.self = value;
    const back = roundTrip(value) as Record<string, unknown>;
    expect(Object.keys(back)).toEqual(Object.keys(value));
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(Object.getOwnPropertyDescriptor(back, '__proto__')?.value).toEqual({ polluted: 1 });
    expect(back['\0__proto__']).toBe(2);
    expect(back['\0\0__proto__']).toBe(3);
    expect(back.self).toBe(back);
    const bare = Object.defineProperty(Object.create(null) as object, '__proto__', { value: 1, enumerable: true });
    expect(Object.getOwnPropertyDescriptor(roundTrip(bare), '__proto__')?.value).toBe(1);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it('take only the visible bytes of a view along', () => {
    const whole = new Uint8Array(1_000).fill(7);
    const stored = encode(whole.subarray(10, 12), 'input') as string;
    expect(stored.length).toBeLessThan(100);
    expect(decode(stored)).toEqual(new Uint8Array([7, 7]));
    const buffer = Buffer.from('a secret and a value').subarray(15);
    expect(
      Buffer.from(encode(new Uint8Array(buffer.buffer, buffer.byteOffset, 5), 'input') as string, 'utf8').toString(),
    ).not.toContain('secret');
    expect((roundTrip(buffer) as Buffer).toString()).toBe('value');
  });

  it('keep the types of values of another realm', () => {
    const value = runInNewContext('({ list: [1], map: new Map([["a", 1]]), date: new Date(0) })') as object;
    expect(roundTrip(value)).toStrictEqual({ list: [1], map: new Map([['a', 1]]), date: new Date(0) });
  });

  it('may hold errors', () => {
    const cause = new ActivityError('no', { activityName: 'charge', attempt: 3, cause: new Error('why') });
    const value = { failed: [new TypeError('bad', { cause })], at: new Date(0) };
    const [error] = (roundTrip(value) as typeof value).failed;
    expect(error).toBeInstanceOf(TypeError);
    expect(error?.message).toBe('bad');
    expect(error?.stack).toBe(value.failed[0]?.stack);
    expect(error?.cause).toBeInstanceOf(ActivityError);
    expect(error?.cause).toMatchObject({ activityName: 'charge', attempt: 3, code: 'ACTIVITY' });
    const twice = roundTrip([cause, cause]) as unknown[];
    expect(twice[0]).toBe(twice[1]);
  });
});

class Money {
  amount = 1;
}

describe('values that cannot be stored', () => {
  it.each<[string, unknown, string, RegExp]>([
    ['a function', () => 1, 'input', /function/],
    ['a function inside', { items: [0, 1, 2, { price: () => 1 }] }, 'input.items[3].price', /function/],
    ['a method', { toJSON: () => 1 }, 'input.toJSON', /function/],
    ['a symbol', { a: Symbol('s') }, 'input.a', /symbol/],
    ['a symbol as a key', { a: { [Symbol('s')]: 1 } }, 'input.a', /symbol as a key/],
    ['a promise', [Promise.resolve(1)], 'input[0]', /promise/],
    ['a thenable', { then: () => 1 }, 'input.then', /function/],
    ['a class instance', { 'the price': new Money() }, 'input["the price"]', /instance of Money/],
    ['a subclass of Map', new (class Prices extends Map {})(), 'input', /instance of Prices/],
    ['a subclass of Array', [new (class Prices extends Array {})()], 'input[0]', /instance of Prices/],
    ['a subclass of Date', new (class Day extends Date {})(), 'input', /instance of Day/],
    ['an object with a strange prototype', Object.create({ a: 1 }), 'input', /instance of/],
    ['a WeakMap', new WeakMap(), 'input', /instance of WeakMap/],
    ['a boxed symbol', Object(Symbol('s')), 'input', /instance of Symbol/],
    ['a generator', (function* () {})(), 'input', /a generator, none of whose code has run: .yield\* block/],
    [
      'arguments',
      (function () {
        return arguments;
      })(),
      'input',
      /instance of/,
    ],
    ['a value of a map', new Map([['k', () => 1]]), 'input.get("k")', /function/],
    ['a value under an object', new Map([[{}, () => 1]]), 'input.values()[0]', /function/],
    ['a key of a map', new Map([[() => 1, 1]]), 'input.keys()[0]', /function/],
    ['a member of a set', new Set([1, () => 1]), 'input.values()[1]', /function/],
    ['a named property of an array', 'ab'.match(/b/), 'input.index', /named property/],
    ['a property of a Date', Object.assign(new Date(0), { note: 1 }), 'input.note', /property of a Date/],
    ['shared memory', new SharedArrayBuffer(8), 'input', /shared memory/],
    ['a view of shared memory', new Uint8Array(new SharedArrayBuffer(8)), 'input', /shared memory/],
  ])('%s: the path is named', (_, value, path, message) => {
    const error = refusal(value);
    expect(error.path).toBe(path);
    expect(error.message).toMatch(message);
    expect(error.message.startsWith(`${path} cannot be stored`)).toBe(true);
    expect(error).toMatchObject({ name: 'PayloadError', code: 'PAYLOAD' });
  });

  it('a getter or proxy that throws, with its error as the cause', () => {
    const boom = new Error('boom');
    expect(
      refusal({
        get a() {
          throw boom;
        },
      }).cause,
    ).toBe(boom);
    expect(
      refusal(
        new Proxy(
          {},
          {
            ownKeys() {
              throw boom;
            },
          },
        ),
      ).cause,
    ).toBe(boom);
  });

  it.each<[string, (inner: unknown) => unknown]>([
    ['objects', (inner) => ({ a: inner })],
    ['arrays', (inner) => [inner]],
    ['maps', (inner) => new Map([['a', inner]])],
    ['sets', (inner) => new Set([inner])],
  ])('a value that is nested too deep, without a RangeError: %s', (_, wrap) => {
    for (const core of [0, 1n]) {
      expect(refusal(nested(501, wrap, core)).message).toMatch(/nested deeper than 500 levels/);
      expect(refusal(nested(100_000, wrap, core)).message).toMatch(/nested deeper than 500 levels/);
      expect(() => roundTrip(nested(500, wrap, core))).not.toThrow();
    }
  });

  it('text over the limit, in UTF-8 bytes', () => {
    expect(encode('aaaa', 'input', limits(6))).toBe('"aaaa"');
    expect(refusal('aaaaa', 6)).toMatchObject({
      path: 'input',
      message: expect.stringContaining('limit of 6 bytes') as string,
    });
    expect(encode('éé', 'input', limits(6))).toBe('"éé"');
    expect(refusal('ééé', 6).path).toBe('input');
    expect(refusal('😀😀', 9).path).toBe('input');
    expect(refusal(['a'.repeat(3_000_000)]).message).toMatch(/over the limit of 2097152 bytes/);
    expect(refusal(new Date(0), 10).message).toMatch(/over the limit/);
  });

  it('binary data over the limit, before it becomes text', () => {
    expect(refusal({ file: new Uint8Array(64 * 1024 * 1024) })).toMatchObject({ path: 'input.file' });
    expect(refusal({ file: Buffer.alloc(3_000_000) })).toMatchObject({ path: 'input.file' });
    expect(refusal([Buffer.alloc(6), Buffer.alloc(6)], 10).path).toBe('input[1]');
  });
});

describe('damaged text', () => {
  it.each(['', '{', '~', '~[', '~[["Unknown",1]]', '~[[5]]', 'secret'])('%j is refused without showing it', (text) => {
    expect(() => decode(text, 'output')).toThrow(PayloadError);
    try {
      decode(text, 'output');
    } catch (error) {
      expect((error as PayloadError).path).toBe('output');
      expect((error as PayloadError).message).not.toContain('secret');
      expect((error as PayloadError).cause).toBeUndefined();
    }
  });

  it('touches no prototype', () => {
    const text = '~[{"__proto__":1},{"polluted":2},true]';
    try {
      decode(text);
    } catch {
      // Both outcomes are valid: refused, or kept as a key.
    }
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });
});

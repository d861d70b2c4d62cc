// Values as text: their kinds, and the limit of their length.

import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';

import { valueText as terminalText } from '../../js/cli/text.ts';
import { valueText } from '../../js/dashboard/value-text.ts';
import { boundedInspect } from '../../js/util/bounded-inspect.ts';

const whole = (value: unknown): string => {
  const { text, isWhole } = valueText(value, 1_000_000);
  expect(isWhole).toBe(true);
  return text;
};

describe('the text of a value', () => {
  it.each([
    { a: [1, 'two', null, true], 'b c': {}, d: [] },
    [],
    {},
    '',
    'text\n"quoted"',
    0,
    -1.5,
    null,
    false,
    [[[]]],
    Object.create(null),
  ])('is JSON where that says it all: %j', (value) => {
    expect(whole(value)).toBe(JSON.stringify(value, null, 2));
  });

  it('is shown like JavaScript if JSON cannot express it', () => {
    const value = {
      none: undefined,
      big: 12n,
      minus: -0,
      not: Number.NaN,
      date: new Date(0),
      map: new Map([['k', { deep: [[[['end']]]] }]]),
      set: new Set([1]),
      bytes: new Uint8Array([1, 2]),
      pattern: /x/g,
      url: new URL('https://a.example/'),
    };
    const text = whole(value);
    for (const part of [
      '"none": undefined',
      '"big": 12n',
      '"minus": -0',
      '"not": NaN',
      '1970-01-01T00:00:00.000Z',
      "'end'",
      'Set(1) { 1 }',
      'Uint8Array(2) [ 1, 2 ]',
      '/x/g',
      'https://a.example/',
    ])
      expect(text).toContain(part);
  });

  it('ends where a value comes back to itself', () => {
    const value: { list: unknown[] } = { list: [] };
    value.list.push(value, value.list);
    expect(whole(value)).toBe('{\n  "list": [\n    [circular],\n    [circular]\n  ]\n}');
  });

  it('of an error has its stack, fields and causes', () => {
    const cause = Object.assign(new RangeError('inner'), { stack: 'RangeError: inner\n    at there' });
    const error = Object.assign(new TypeError('outer', { cause }), {
      stack: 'TypeError: outer\n    at here',
      code: 'NO',
    });
    const expected = "TypeError: outer\n    at here\n{ code: 'NO' }\ncaused by:\nRangeError: inner\n    at there";
    expect(whole(error)).toBe(expected);
    const data = {
      name: 'TypeError',
      message: 'outer',
      stack: error.stack,
      fields: { code: 'NO' },
      cause: { name: 'RangeError', message: 'inner', stack: cause.stack },
    };
    expect(whole(data)).toBe(expected);
    const errors = [
      { name: 'TypeError', message: 'outer', stack: error.stack, fields: "{ code: 'NO' }" },
      { name: 'RangeError', message: 'inner', stack: cause.stack },
    ];
    expect(valueText(error, 20_000).errors).toEqual(errors);
    expect(valueText(data, 20_000).errors).toEqual(errors);
    // Neither a preview nor a text that was cut has the parts, which would be longer than the text.
    expect([valueText(error, 200).errors, valueText(new Error('x'.repeat(5_000)), 2_000).errors]).toEqual([
      undefined,
      undefined,
    ]);
    expect(valueText(new Error('outer', { cause: { status: 404 } }), 20_000).errors?.[1]).toEqual({
      name: '',
      message: '{\n  "status": 404\n}',
    });
    // An object that only resembles an error is none.
    expect(whole({ name: 'a', message: 'b' })).toBe('{\n  "name": "a",\n  "message": "b"\n}');
  });

  it('is cut where it is too long, and says so', () => {
    for (const value of [
      'x'.repeat(100),
      Array.from({ length: 100 }, (_, n) => n),
      { a: { b: { c: 'x'.repeat(100) } } },
      new Map([['k', 'x'.repeat(100)]]),
      new Set(Array.from({ length: 100 }, (_, n) => n)),
      new Error('x'.repeat(100)),
    ]) {
      const { text, isWhole } = valueText(value, 20);
      expect([text.length, isWhole]).toEqual([20, false]);
    }
    // This also holds if a part is too deep inside a value that is no JSON.
    expect(valueText(new Map([['k', { a: { b: { c: { d: 1 } } } }]]), 200).isWhole).toBe(false);
    // A surrogate pair is not cut in half.
    expect(valueText('😀😀', 4).text.isWellFormed()).toBe(true);
  });

  it('of a very long value is cut after its beginning', () => {
    let looks = 0;
    const value = new Proxy(
      Array.from({ length: 1_000_000 }, (_, n) => ({ n })),
      {
        get(list, key, receiver) {
          looks += 1;
          return Reflect.get(list, key, receiver) as unknown;
        },
      },
    );
    expect(valueText(value, 200).isWhole).toBe(false);
    expect(looks).toBeLessThan(50);
  });

  it('of a very deep value is cut', () => {
    let value: unknown = 0;
    for (let i = 0; i < 100_000; i += 1) value = [value];
    expect(valueText(value, 10_000_000).isWhole).toBe(false);
  });
});

// A few hundred bytes of a store: each map contains the previous one twice. Written out that is 2 to the power of 40 of
// them.
it.each<[string, () => unknown]>([
  [
    'maps',
    () =>
      Array.from({ length: 40 }).reduce<unknown>(
        (inner) =>
          new Map([
            [1, inner],
            [2, inner],
          ]),
        'end',
      ),
  ],
  [
    'maps by their keys',
    () =>
      Array.from({ length: 40 }).reduce<unknown>(
        (inner) =>
          new Map<unknown, unknown>([
            [inner, 1],
            ['other', inner],
          ]),
        'end',
      ),
  ],
  ['sets of lists', () => Array.from({ length: 40 }).reduce<unknown>((inner) => new Set([[inner], [inner]]), 'end')],
  [
    'an error with such maps',
    () =>
      Object.assign(new Error('why'), {
        found: Array.from({ length: 40 }).reduce<unknown>(
          (inner) => [inner, inner, inner, inner, inner, inner, inner, inner],
          'end',
        ),
      }),
  ],
])('a value that holds itself many times is not written out: %s', (_, make) => {
  const value = make();
  const { text, isWhole } = valueText(value, 100_000);
  expect(text.length).toBeLessThanOrEqual(100_000);
  if (!(value instanceof Error)) expect(isWhole).toBe(false);
  expect(terminalText(value, 80, false).length).toBeLessThan(10_000_000);
});

// The limit once counted only objects that `Object.values` reaches: a list of numbers that another one contains 2000
// times took ten seconds, and so did maps in the cause of an error.
const doubled = () =>
  Array.from({ length: 40 }).reduce<unknown>(
    (inner) =>
      new Map([
        [1, inner],
        [2, inner],
      ]),
    'end',
  );
const often = (value: unknown, times = 2_000) => new Map(Array.from({ length: times }, (_, n) => [n, value]));

it.each<[string, () => unknown]>([
  ['a cause', () => new Set([new Error('why', { cause: doubled() })])],
  ['the errors of an AggregateError', () => new Set([new AggregateError([doubled()], 'why')])],
  ['numbers', () => often(Array.from({ length: 10_000 }, (_, n) => n))],
  ['bytes', () => often(new Uint8Array(100_000))],
  ['a buffer', () => often([new ArrayBuffer(100_000)])],
  ['a text', () => often('x'.repeat(100_000))],
  ['a text of an object', () => Object.fromEntries(often('x'.repeat(100_000)))],
  ['keys', () => often({ ['x'.repeat(100_000)]: 1 })],
  [
    'keys of a value that is too deep to be shown',
    () => often(Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`key ${n}`, n]))),
  ],
  ['a big integer', () => often(10n ** 100_000n)],
  ['a big integer as an object', () => often(Object(10n ** 100_000n))],
  ['a regular expression', () => often(new RegExp('x'.repeat(100_000)))],
  ['a URL', () => often(new URL(`https://a.example/${'x'.repeat(100_000)}`))],
  ['parameters of a URL', () => often([new URLSearchParams({ x: 'x'.repeat(100_000) })])],
  ['a stack', () => often(Object.assign(new Error('why'), { stack: 'x'.repeat(100_000) }))],
])('a value is cut where it holds too much of %s', (_, make) => {
  const { text, isWhole } = boundedInspect(make(), {
    depth: Infinity,
    maxArrayLength: 100_000,
    maxStringLength: 100_000,
  });
  expect(isWhole).toBe(false);
  expect(text.length).toBeLessThan(10_000_000);
});

it('a value is shown as a whole where nothing is in it often, however long it is', () => {
  const sparse: unknown[] = [];
  sparse[4_000_000_000] = { a: { b: { c: 1 } } };
  for (const value of [
    new Set(Array.from({ length: 300_000 }, (_, n) => n)),
    new Map([['text', 'x'.repeat(2_000_000)]]),
    sparse,
  ]) {
    const { text, isWhole } = boundedInspect(value, {
      depth: Infinity,
      maxArrayLength: 1_000_000,
      maxStringLength: 10_000_000,
    });
    expect(isWhole).toBe(true);
    expect(text).toBe(inspect(value, { depth: Infinity, maxArrayLength: 1_000_000, maxStringLength: 10_000_000 }));
  }
});

it('a value is shown without calling its code', () => {
  const asked = {
    get a(): never {
      throw new Error('asked');
    },
  };
  const { proxy, revoke } = Proxy.revocable([], {});
  revoke();
  expect(boundedInspect([asked, proxy], { depth: 3 })).toEqual({
    text: '[ { a: [Getter] }, <Revoked Proxy> ]',
    isWhole: true,
  });
});

it('the causes of an error are all shown, with their properties, in the time of one value', () => {
  const found = Array.from({ length: 40 }).reduce<unknown>((inner) => [inner, inner, inner, inner], 'end');
  const chain = (length: number) =>
    Array.from({ length }).reduce<unknown>(
      (cause, _, n) => Object.assign(new Error(`error ${n}`, { cause }), { found, code: 'NO' }),
      undefined,
    );
  const { text } = valueText(chain(20), 100_000_000);
  expect(text.match(/^Error: error/gm)).toHaveLength(20);
  expect(text.match(/code: 'NO'/g)).toHaveLength(20);
  expect(text.length).toBeLessThan(7 * valueText(chain(1), 100_000_000).text.length);
});

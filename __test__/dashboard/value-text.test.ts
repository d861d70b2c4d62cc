// Values as text: what they are, and no longer than they may be.

import { describe, expect, it } from 'vitest';

import { valueText as terminalText } from '../../js/cli/text.ts';
import { valueText } from '../../js/dashboard/value-text.ts';

const whole = (value: unknown): string => {
  const { text, isWhole } = valueText(value, 1_000_000);
  expect(isWhole).toBe(true);
  return text;
};

describe('the text of a value', () => {
  it.each([{ a: [1, 'two', null, true], 'b c': {}, d: [] }, [], {}, '', 'text\n"quoted"', 0, -1.5, null, false, [[[]]], Object.create(null)])('is JSON where that says it all: %j', (value) => {
    expect(whole(value)).toBe(JSON.stringify(value, null, 2));
  });

  it('is what it is where JSON has no word for it', () => {
    const value = { none: undefined, big: 12n, minus: -0, not: Number.NaN, date: new Date(0), map: new Map([['k', { deep: [[[['end']]]] }]]), set: new Set([1]), bytes: new Uint8Array([1, 2]), pattern: /x/g, url: new URL('https://a.example/') };
    const text = whole(value);
    for (const part of ['"none": undefined', '"big": 12n', '"minus": -0', '"not": NaN', '1970-01-01T00:00:00.000Z', "'end'", 'Set(1) { 1 }', 'Uint8Array(2) [ 1, 2 ]', '/x/g', 'https://a.example/']) expect(text).toContain(part);
  });

  it('ends where a value comes back to itself', () => {
    const value: { list: unknown[] } = { list: [] };
    value.list.push(value, value.list);
    expect(whole(value)).toBe('{\n  "list": [\n    [circular],\n    [circular]\n  ]\n}');
  });

  it('of an error, or of its data, is its stack, what it carries, and its causes', () => {
    const cause = Object.assign(new RangeError('inner'), { stack: 'RangeError: inner\n    at there' });
    const error = Object.assign(new TypeError('outer', { cause }), { stack: 'TypeError: outer\n    at here', code: 'NO' });
    const expected = "TypeError: outer\n    at here\n{ code: 'NO' }\ncaused by:\nRangeError: inner\n    at there";
    expect(whole(error)).toBe(expected);
    const data = { name: 'TypeError', message: 'outer', stack: error.stack, fields: { code: 'NO' }, cause: { name: 'RangeError', message: 'inner', stack: cause.stack } };
    expect(whole(data)).toBe(expected);
    // What only looks a little like one is none.
    expect(whole({ name: 'a', message: 'b' })).toBe('{\n  "name": "a",\n  "message": "b"\n}');
  });

  it('is cut where it is too long, and says so', () => {
    for (const value of ['x'.repeat(100), Array.from({ length: 100 }, (_, n) => n), { a: { b: { c: 'x'.repeat(100) } } }, new Map([['k', 'x'.repeat(100)]]), new Set(Array.from({ length: 100 }, (_, n) => n)), new Error('x'.repeat(100))]) {
      const { text, isWhole } = valueText(value, 20);
      expect([text.length, isWhole]).toEqual([20, false]);
    }
    // Also where something is too deep inside of what is no JSON.
    expect(valueText(new Map([['k', { a: { b: { c: { d: 1 } } } }]]), 200).isWhole).toBe(false);
    // No half of a pair of surrogates is left.
    expect(valueText('😀😀', 4).text.isWellFormed()).toBe(true);
  });

  it('of something very long is made of its beginning alone', () => {
    let looks = 0;
    const value = new Proxy(Array.from({ length: 1_000_000 }, (_, n) => ({ n })), {
      get(list, key, receiver) {
        looks += 1;
        return Reflect.get(list, key, receiver) as unknown;
      },
    });
    expect(valueText(value, 200).isWhole).toBe(false);
    expect(looks).toBeLessThan(50);
  });

  it('of something very deep ends', () => {
    let value: unknown = 0;
    for (let i = 0; i < 100_000; i += 1) value = [value];
    expect(valueText(value, 10_000_000).isWhole).toBe(false);
  });
});

// A few hundred bytes of a store: each map holds the one before it twice. Written out that is 2 to the power of 40 of them.
it.each<[string, () => unknown]>([
  ['maps', () => Array.from({ length: 40 }).reduce<unknown>((inner) => new Map([[1, inner], [2, inner]]), 'end')],
  ['maps by their keys', () => Array.from({ length: 40 }).reduce<unknown>((inner) => new Map<unknown, unknown>([[inner, 1], ['other', inner]]), 'end')],
  ['sets of lists', () => Array.from({ length: 40 }).reduce<unknown>((inner) => new Set([[inner], [inner]]), 'end')],
  ['an error with such maps', () => Object.assign(new Error('why'), { found: Array.from({ length: 40 }).reduce<unknown>((inner) => [inner, inner, inner, inner, inner, inner, inner, inner], 'end') })],
])('a value that holds itself many times is not written out: %s', (_, make) => {
  const value = make();
  const { text, isWhole } = valueText(value, 100_000);
  expect(text.length).toBeLessThanOrEqual(100_000);
  if (!(value instanceof Error)) expect(isWhole).toBe(false);
  expect(terminalText(value, 80, false).length).toBeLessThan(10_000_000);
});

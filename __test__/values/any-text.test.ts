// Stored texts that another program or a faulty disk wrote. Each gives a value or a typed error that shows nothing of
// the text, and no prototype is touched. Most are texts of valid values with a small change.

import fc from 'fast-check';
import { expect, test } from 'vitest';

import { PayloadError } from '../../js/errors/errors.ts';
import { decode, encode } from '../../js/values/codec.ts';
import { encodeError } from '../../js/values/error-data.ts';
import { fromErrorPayload, toErrorPayload } from '../../js/values/payload.ts';
import { NO_TYPES } from '../../js/values/value-types.ts';
import { SEED, storable, text } from '../support/arbitrary.ts';
import { watchPrototypes } from '../support/prototypes.ts';

const RUNS = { seed: SEED, numRuns: 3_000 };

const PARTS = [
  '__proto__',
  '"__proto__":',
  'constructor',
  'prototype',
  '[',
  ']',
  '{',
  '}',
  ',',
  '"',
  '-1',
  '-7',
  '-8',
  '1e99',
  '4294967295',
  '4294967296',
  '9007199254740993',
  'null',
  '~',
  '#',
  '"Map"',
  '"Set"',
  '"Date"',
  '"RegExp"',
  '"BigInt"',
  '"null"',
  '"Object"',
  '"Buffer"',
  '"Error"',
  '"Uint8Array"',
  '"ArrayBuffer"',
  '"URL"',
  '\0',
  '\ud800',
];

interface Change {
  readonly at: number;
  readonly removed: number;
  readonly inserted: string;
}

const change: fc.Arbitrary<Change> = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  removed: fc.nat(6),
  inserted: fc.oneof(fc.constantFrom('', ...PARTS), text),
});

function changed(whole: string, changes: readonly Change[]): string {
  return changes.reduce((before, { at, removed, inserted }) => {
    const from = Math.floor(at * before.length);
    return before.slice(0, from) + inserted + before.slice(from + removed);
  }, whole);
}

const changes = fc.array(change, { minLength: 1, maxLength: 4 });

test('a changed text of a value is a value or a PayloadError', () => {
  const untouched = watchPrototypes();
  const property = fc.property(storable, changes, (value, made) => {
    const stored = changed(encode(value, 'input') ?? '', made);
    let read: unknown;
    try {
      read = decode(stored, 'input');
    } catch (error) {
      expect(error).toBeInstanceOf(PayloadError);
      expect((error as Error).message).toBe(
        `input cannot be read: its stored text of ${stored.length} characters is damaged`,
      );
      return;
    }
    // Any decoded value is plain data: it can be stored again, or is refused like any other value.
    try {
      encode(read, 'input');
    } catch (error) {
      expect(error).toBeInstanceOf(PayloadError);
    }
  });
  fc.assert(property, RUNS);
  untouched();
});

test('any text is a value or a PayloadError', () => {
  const untouched = watchPrototypes();
  const any = fc.oneof(
    text,
    fc.array(fc.constantFrom(...PARTS), { maxLength: 30 }).map((parts) => parts.join('')),
  );
  const property = fc.property(fc.constantFrom('', '~', '~[', '~[['), any, (start, rest) => {
    try {
      decode(start + rest);
    } catch (error) {
      expect(error).toBeInstanceOf(PayloadError);
    }
  });
  fc.assert(property, RUNS);
  untouched();
});

test.each([10_000, 100_000])('a text that is nested %i deep takes no stack', (levels) => {
  for (const deep of [
    '['.repeat(levels) + ']'.repeat(levels),
    `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`,
    `~${'['.repeat(levels)}${']'.repeat(levels)}`,
    // Each item of devalue's list refers to the next one.
    `~[${Array.from({ length: levels }, (_, n) => `[${n + 1}]`).join(',')},1]`,
  ]) {
    try {
      const value = decode(deep);
      expect(() => encode(value, 'input')).toThrow(PayloadError);
    } catch (error) {
      expect(error).toBeInstanceOf(PayloadError);
    }
    expect(fromErrorPayload(deep, NO_TYPES)).toBeInstanceOf(Error);
  }
});

test('a changed text of an error is an error', () => {
  const untouched = watchPrototypes();
  const property = fc.property(storable, changes, fc.boolean(), (value, made, isThrown) => {
    const thrown = isThrown
      ? value
      : Object.assign(new AggregateError([value, new RangeError('x')], 'no', { cause: value }), { value });
    expect(fromErrorPayload(changed(toErrorPayload(thrown, NO_TYPES), made), NO_TYPES)).toBeInstanceOf(Error);
  });
  fc.assert(property, RUNS);
  untouched();
});

test('data of an error may be of any shape', () => {
  const untouched = watchPrototypes();
  const names = Object.keys({
    ...encodeError(new Error('x')),
    cause: 0,
    errors: 0,
    code: 0,
    type: 0,
    fields: 0,
    richFields: 0,
    thrown: 0,
  });
  const property = fc.property(
    fc.dictionary(
      fc.constantFrom(...names),
      fc.oneof(fc.jsonValue(), fc.constantFrom('AggregateError', 'DOMException', '__proto__', 'PayloadError', '~[1]')),
    ),
    (data) => {
      expect(fromErrorPayload(JSON.stringify(data), NO_TYPES)).toBeInstanceOf(Error);
    },
  );
  fc.assert(property, RUNS);
  untouched();
});

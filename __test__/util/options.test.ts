import { describe, expect, test } from 'vitest';

import { defineActivity } from '../../js/activity/activity.ts';
import { checkActivityOptions, checkCallOptions, recordedOptions } from '../../js/activity/activity-options.ts';
import { checkName, checkOptions, nearest, oneOf, whole } from '../../js/util/options.ts';

/** A call for which options are recorded. */
const CALL = { name: 'a', input: { tenant: 'Ada' } };

describe('options', () => {
  test('a TypeError names the option, and the one that was probably meant', () => {
    const wrong = (options: unknown): string => {
      try {
        checkActivityOptions(options as never, "activity 'a'");
      } catch (error) {
        return `${(error as Error).name}: ${(error as Error).message}`;
      }
      return 'accepted';
    };
    expect(wrong({ retry: { maxAttemps: 3 } })).toBe(
      "TypeError: activity 'a': retry: unknown option `maxAttemps`; did you mean `maxAttempts`?",
    );
    expect(wrong({ retyr: 3 })).toBe("TypeError: activity 'a': unknown option `retyr`; did you mean `retry`?");
    expect(wrong({ total: 3 })).toBe("TypeError: activity 'a': unknown option `total`; did you mean `totalTimeout`?");
    expect(wrong({ zzz: 3 })).toBe(
      "TypeError: activity 'a': unknown option `zzz`; " +
        'the options are retry, timeout, totalTimeout, scheduleToStartTimeout, heartbeatTimeout, queue, key, ' +
        'session, priority',
    );
    expect(wrong({ retry: { maxAttempts: 0 } })).toMatch(
      /retry\.maxAttempts must be a whole number from 1 to 4294967295, got 0/,
    );
    expect(wrong({ retry: { jitter: 2 } })).toMatch(/retry\.jitter must be a number from 0 to 1, got 2/);
    for (const backoff of [Number.NaN, 0.5, Number.POSITIVE_INFINITY, 'Linear', null])
      expect(wrong({ retry: { backoff } })).toMatch(/retry\.backoff must be a number >= 1 or 'linear', got /);
    expect(wrong({ retry: { initialInterval: 'soon' } })).toMatch(/retry\.initialInterval must be a duration/);
    expect(wrong({ retry: { nonRetryable: ['a', 1] } })).toMatch(/retry\.nonRetryable\[1\] must be a string, got 1/);
    expect(wrong({ retry: { retryOn: 'ECONNRESET' } })).toMatch(/retry\.retryOn must be a list of strings, got /);
    expect(wrong({ retry: { retryOn: ['a', 5] } })).toMatch(/retry\.retryOn\[1\] must be a string, got 5/);
    expect(wrong({ retry: { retryOn: [] } })).toMatch(/retry\.retryOn must name at least one error; maxAttempts: 1 /);
    expect(wrong({ retry: 3 })).toMatch(/retry must be an object, got 3/);
    expect(wrong({ timeout: 0 })).toMatch(/timeout must be at least 1 ms, got 0/);
    expect(wrong(5)).toMatch(/the options must be an object, got 5/);
    expect(wrong(null)).toMatch(/the options must be an object, got null/);
    for (const right of [
      undefined,
      {},
      { retry: undefined, timeout: undefined },
      { retry: { maxAttempts: 1 }, timeout: '1m' },
    ]) {
      expect(wrong(right)).toBe('accepted');
    }
  });

  test('words and numbers', () => {
    expect(() => checkOptions({ d: 'ful' }, { d: oneOf('full', 'normal') }, 'open')).toThrow(
      "open: d must be one of 'full', 'normal', got 'ful'; did you mean 'full'?",
    );
    expect(() => whole(1)(1.5, 'n')).toThrow('n must be a whole number >= 1, got 1.5');
    expect(nearest('chrage', ['refund', 'charge'])).toEqual(['charge']);
    expect(nearest('x', ['a', 'b'])).toEqual([]);
  });

  test('a call overrides single options of the registration', () => {
    expect(recordedOptions(undefined, undefined, CALL)).toBeNull();
    const registered = { retry: { maxAttempts: 5, backoff: 3, nonRetryable: ['A'] }, timeout: '1s' } as const;
    const called = { retry: { maxAttempts: 1, backoff: undefined, initialInterval: '2s' } };
    const recorded = recordedOptions(registered, called as never, CALL);
    expect(JSON.parse(recorded ?? '')).toEqual({
      retry: { maxAttempts: 1, backoff: 3, initialIntervalMs: 2_000, nonRetryable: ['A'] },
      timeoutMs: 1_000,
    });
  });
});

describe('the key of a call', () => {
  const keyOf = (...[registered, called]: [object | undefined, object?]): unknown =>
    (JSON.parse(recordedOptions(registered, called, CALL) ?? '{}') as { key?: unknown }).key;
  const tenant = (input: { tenant: string }): string => input.tenant;

  test('is that of the call, or of the registration for its input', () => {
    expect(keyOf(undefined)).toBeUndefined();
    expect(keyOf({ queue: 'api' }, {})).toBeUndefined();
    expect(keyOf({ queue: 'api', key: 'a' })).toBe('a');
    expect(keyOf({ queue: 'api', key: tenant })).toBe('Ada');
    expect(keyOf({ queue: 'api', key: tenant }, { key: 'b' })).toBe('b');
    expect(keyOf({ queue: 'api' }, { key: 'b' })).toBe('b');
    expect(keyOf(undefined, { queue: 'api', key: 'b' })).toBe('b');
    expect(keyOf({ queue: 'api', key: tenant }, { queue: 'other' })).toBe('Ada');
    expect(keyOf({ queue: 'api', key: tenant }, { queue: 'default' })).toBeUndefined();
  });

  test('needs a queue that can have limits', () => {
    const needs = /^activity 'a': the option key needs the option queue, with another queue than 'default', because/;
    const called = (options: object, defined?: object): unknown => checkCallOptions(options, defined, "activity 'a'");
    for (const queue of [undefined, 'default']) {
      expect(() => called({ queue, key: 'b' })).toThrow(needs);
      expect(() => called({ key: 'b' }, { queue })).toThrow(needs);
      expect(() => checkActivityOptions({ queue, key: tenant } as never, "activity 'a'")).toThrow(needs);
      expect(() => defineActivity('a', () => {}, { queue, key: 'b' } as never)).toThrow(needs);
    }
    expect(() => called({ queue: 'default', key: 'b' }, { queue: 'api' })).toThrow(needs);
    expect(called({ key: 'b' }, { queue: 'api' })).toEqual({ key: 'b' });
    expect(called({ queue: 'api', key: 'b' })).toEqual({ queue: 'api', key: 'b' });
  });

  test('is a name of 1 to 256 characters', () => {
    for (const key of [5, null, '', 'x'.repeat(257), {}])
      expect(() => checkActivityOptions({ queue: 'api', key } as never, "activity 'a'")).toThrow(
        /^activity 'a': key: the value must /,
      );
    expect(() => checkCallOptions({ queue: 'api', key: tenant } as never, undefined, "activity 'a'")).toThrow(
      /^activity 'a': key: the value must be a string, got /,
    );
    for (const wrong of [undefined, 5, '', 'x'.repeat(257), Promise.resolve('a')])
      expect(() => keyOf({ queue: 'api', key: () => wrong })).toThrow(
        /^activity 'a': the result of the function of the option key: the value must /,
      );
    const reason = new RangeError('on purpose');
    const throwing = (): never => {
      throw reason;
    };
    expect(() => keyOf({ queue: 'api', key: throwing })).toThrow(
      new TypeError("activity 'a': the function of the option key has thrown for the input of the call", {
        cause: reason,
      }),
    );
  });
});

test('ids and names have 1 to 256 characters, no NUL and no lone surrogate', () => {
  for (const right of ['a', 'ä', '😀', 'x'.repeat(256), ' ', '__proto__']) checkName(right, 'name');
  const wrong: [unknown, RegExp][] = [
    ['', /must not be empty/],
    ['x'.repeat(257), /at most 256 characters, got 257/],
    ['a\0b', /NUL/],
    ['\ud800', /lone surrogate/],
    [5, /must be a string, got 5/],
    [undefined, /must be a string, got undefined/],
  ];
  for (const [value, message] of wrong) expect(() => checkName(value, 'name')).toThrow(message);
});

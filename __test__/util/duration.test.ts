import { describe, expect, it } from 'vitest';

import { parseDuration } from '../../js/util/duration.ts';

describe('parseDuration', () => {
  it.each([
    [0, 0],
    [250, 250],
    [1.4, 1],
    ['0ms', 0],
    ['250ms', 250],
    ['10s', 10_000],
    ['1.5s', 1_500],
    ['0.07s', 70],
    ['5m', 300_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
  ])('takes %o as %i ms', (value, ms) => {
    expect(parseDuration(value, 'timeout')).toBe(ms);
  });

  it.each([
    -1,
    -0.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    9e15,
    '',
    '10',
    's',
    '-1s',
    '1 s',
    ' 1s',
    '1s ',
    '1sec',
    '1S',
    '.5s',
    '1e3s',
    '1h30m',
    '999999999999d',
    '1constructor',
    null,
    undefined,
    true,
    10n,
    Symbol('s'),
    {},
    ['1s'],
    new Date(0),
  ])('refuses %o and names the option', (value) => {
    expect(() => parseDuration(value as string, 'retry.maxInterval')).toThrow(TypeError);
    expect(() => parseDuration(value as string, 'retry.maxInterval')).toThrow(/^retry\.maxInterval must be a duration/);
  });

  it('shows the value it got', () => {
    expect(() => parseDuration('1 hour', 'timeout')).toThrow("got '1 hour'");
    expect(() => parseDuration(-3, 'timeout')).toThrow('got -3');
  });
});

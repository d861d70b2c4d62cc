import { describe, expect, it } from 'vitest';

import {
  begunAfterEnd,
  entriesOf,
  type Line,
  ofEachKey,
  outOfOrder,
  overConcurrency,
  overPerWorker,
  overRate,
  type Start,
} from './queue-log.ts';

// The checks of the log of queues can fail: each test breaks one rule of a small log, and expects the sentence.

/** Returns lines of the log, 10 ms apart, from texts such as `begin key 1/0` and `call key 1/0 worker 2`. */
function lines(...texts: readonly string[]): Line[] {
  return texts.map((text, n) => {
    const [, event = '', id = '', worker = 'worker 1'] = /^(\w+)(?: (key \d\/\d))?(?: (worker \d))?/.exec(text) ?? [];
    const concurrency = event === 'limits' ? { concurrency: Number(text.split(' ')[1]) } : {};
    return { event: event as Line['event'], id, worker, attempt: 1, at: 1_000 + 10 * n, ...concurrency };
  });
}

const instances = (...texts: readonly string[]) => entriesOf(lines(...texts), 'instances');
const [A, B, C] = ['key 1/0', 'key 1/1', 'key 2/2'] as const;

describe('entries at once', () => {
  it('are counted from their first begin to their first end', () => {
    expect(overConcurrency(instances(`begin ${A}`, `begin ${A}`, `end ${A}`, `begin ${B}`, `end ${A}`), 1)).toEqual([]);
    expect(overConcurrency(instances(`begin ${A}`, `begin ${C}`, `end ${A}`), 1)).toEqual([
      `${A}, ${C} at once, and 1 may`,
    ]);
  });

  it('are compared with the limit of the moment, and of their key', () => {
    const lowered = ['begin key 1/0', 'end key 1/0', 'limits 1', `begin ${B}`, `begin ${C}`];
    expect(overConcurrency(instances(...lowered), 2, lines(...lowered))).toEqual([`${B}, ${C} at once, and 1 may`]);
    const check = (of: Parameters<typeof overConcurrency>[0]) => overConcurrency(of, 1);
    expect(ofEachKey(instances(`begin ${A}`, `begin ${C}`), check)).toEqual([]);
    expect(ofEachKey(instances(`begin ${A}`, `begin ${B}`), check)).toEqual([
      `of 'key 1': ${A}, ${B} at once, and 1 may`,
    ]);
  });

  it('do not contain those that were ended from outside', () => {
    expect(overConcurrency(instances(`begin ${A}`, `gone ${A}`, `begin ${B}`), 1)).toEqual([]);
  });
});

describe('a rate', () => {
  const rate = { limit: 1, perMs: 25, concurrency: 1 };

  it('allows the begins of its limit, and those of slots from before the span', () => {
    expect(overRate(instances(`begin ${A}`, `begin ${B}`), rate)).toEqual([]);
    expect(overRate(instances(`begin ${A}`, `begin ${B}`, `begin ${C}`), rate)[0]).toBe(
      '3 began in 25 ms from 1000 on, and 1 beside 1 may',
    );
  });

  it('takes each slot that is at work for one that has begun', () => {
    const busy = [`begin ${C}`, 'lost', 'lost', `begin ${A}`, `begin ${B}`, `end ${C}`];
    expect(overRate(instances(...busy), rate)[0]).toBe('2 began in 25 ms from 1030 on, and 1 beside 0 may');
  });
});

describe('the order of a key', () => {
  const starts = (...priorities: readonly number[]): Start[] =>
    [A, B].map((id, n) => ({ id, call: 0, priority: priorities[n] ?? 0 }));
  const begun = instances(`begin ${B}`, `end ${B}`, `begin ${A}`);

  it('is that of the priorities, and then of the starts', () => {
    expect(outOfOrder(begun, starts(0, 1), 1)).toEqual([]);
    expect(outOfOrder(begun, starts(0, 0), 1)).toEqual([`${B} began before ${A}`]);
    expect(outOfOrder(begun, starts(1, 0), 1)).toEqual([`${B} began before ${A}`]);
  });

  it('may differ by as many as have slots at once', () => {
    expect(outOfOrder(begun, starts(0, 0), 2)).toEqual([]);
  });
});

describe('the attempts of a worker', () => {
  const check = (...texts: readonly string[]) =>
    overPerWorker(lines(...texts), entriesOf(lines(...texts), 'attempts'), 1);
  const both = [`begin ${A}`, `begin ${B}`, `call ${A}`];

  it('are at most as many as its limit', () => {
    expect(check(...both, `call ${B}`)).toEqual([`${A} attempt 1, ${B} attempt 1 at once in worker 1`]);
    expect(check(...both, `called ${A}`, `call ${B}`)).toEqual([]);
    expect(check(...both, `call ${B} worker 2`)).toEqual([]);
  });

  it('may be more if it may have taken them over', () => {
    expect(check(...both, 'killed worker 2', `call ${B}`)).toEqual([]);
    expect(check(...both, `call ${B}`, 'lost')).toEqual([]);
  });
});

it('an instance that begins after its end is found', () => {
  const again = lines(`begin ${A}`, `end ${A}`, `begin ${A}`);
  expect(begunAfterEnd(again, entriesOf(again, 'instances'))).toEqual([`${A} again`]);
  const repeated = lines(`begin ${A}`, `begin ${A}`, `end ${A}`);
  expect(begunAfterEnd(repeated, entriesOf(repeated, 'instances'))).toEqual([]);
});

import { afterEach, describe, expect, it } from 'vitest';

import { Process } from '../support/process.ts';
import { failuresOf } from './flatness.ts';
import { LOG_BYTES_MAX } from './gauge.ts';
import { describe as describeReport } from './report.ts';
import { Series } from './series.ts';
import { soak } from './soak.ts';

// A short soak on each store. See main.ts for longer ones. Exact gauges are exact after seconds, too: at rest nothing
// is left in memory, and there are as many threads, descriptors and connections as before.

/** Decides the programs. To try another seed: `PERDURE_TEST_SEED=7 npm run test:js -- soak`. */
const SEED = Number(process.env.PERDURE_TEST_SEED ?? 1);

const MINUTES = 0.2;

afterEach(async () => {
  await Promise.all([...Process.running].map((running) => running.kill()));
});

it.for(['sqlite', 'postgres'] as const)(
  'nothing is left of a mixed load on %s',
  { timeout: 300_000 },
  async (provider) => {
    const report = await soak({
      provider,
      minutes: MINUTES,
      seed: SEED,
      processes: 2,
      threads: 2,
      rate: 6,
      isShort: true,
    });
    console.log(describeReport(report));
    expect(report.failures).toEqual([]);
  },
);

describe('a series', () => {
  /** Returns a series with one value every ten seconds. */
  const series = (gauge: ConstructorParameters<typeof Series>[1], ...values: number[]) => {
    const one = new Series('worker 1', gauge);
    for (const [i, value] of values.entries()) one.add(i * 10_000, value);
    return one;
  };
  const rest = (before: number, after: number) => [{ of: 'worker 1', gauge: 'descriptors', before, after }] as const;

  it('has a slope and medians', () => {
    const one = series('threads', 1, 2, 3, 4, 5, 6);
    expect([one.first, one.last, one.most]).toEqual([1.5, 5.5, 6]);
    expect(one.slopePerHour).toBeCloseTo(360);
    expect(series('threads', 7).slopePerHour).toBe(0);
  });

  it('is flat within its limit', () => {
    expect(failuresOf([series('threads', 5, 9, 5, 4, 5, 5), series('log size', 1, 2, 3)], rest(3, 3), false)).toEqual(
      [],
    );
  });

  it.each<[string, Parameters<typeof failuresOf>, RegExp]>([
    [
      'threads that come and stay',
      [[series('threads', 5, 5, 5, 5, 6, 6)], [], false],
      /worker 1: threads went from 5 to 6/,
    ],
    [
      'memory that grows',
      [[series('resident memory', 1e8, 1e8, 1.2e8, 1.4e8)], [], false],
      /resident memory went from/,
    ],
    ['a log that grows over its bound', [[series('log size', 1, LOG_BYTES_MAX + 1, 1)], [], true], /the log grew to/],
    ['descriptors that are left', [[], rest(3, 4), true], /worker 1: descriptors at rest went from 3 to 4/],
  ])('tells of %s', (_, given, message) => {
    expect(failuresOf(...given).join('\n')).toMatch(message);
  });

  it('judges a short run by exact figures only', () => {
    expect(failuresOf([series('resident memory', 1e8, 9e8)], [], true)).toEqual([]);
  });
});

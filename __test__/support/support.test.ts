import { type HistoryEvent, Runtime, SqliteProvider } from 'perdure';
import { describe, expect, it } from 'vitest';

import { historyViolations } from './history.ts';
import { endLeaked, leaks } from './leaks.ts';

// The checks that other tests rely on can fail.

describe('the guard against leaks', () => {
  it('lists open providers and started runtimes, and no ended ones', async () => {
    const provider = await SqliteProvider.inMemory();
    expect(leaks()).toEqual([
      expect.stringMatching(/^a provider in memory was left open, opened at\n[^]*support\.test\.ts/),
    ]);
    const runtime = new Runtime(provider);
    expect(leaks()).toHaveLength(1);
    await runtime.start();
    expect(leaks()).toHaveLength(2);
    await runtime.shutdown();
    expect(leaks()).toHaveLength(1);
    await provider.close();
    expect(leaks()).toEqual([]);
  });

  it('notices an end by disposal', async () => {
    {
      await using provider = await SqliteProvider.inMemory();
      await using runtime = new Runtime(provider);
      await runtime.start();
      expect(leaks()).toHaveLength(2);
    }
    expect(leaks()).toEqual([]);
  });

  it('ends runtimes first, and then providers', async () => {
    const provider = await SqliteProvider.inMemory();
    const runtime = new Runtime(provider);
    await runtime.start();
    expect(await endLeaked()).toHaveLength(2);
    expect(leaks()).toEqual([]);
  });
});

describe('the check of a history', () => {
  const event = (eventId: number, kind: HistoryEvent['kind'], refId?: number): HistoryEvent => ({
    eventId,
    kind,
    time: new Date(0),
    ...(refId === undefined ? {} : { refId }),
  });
  const good = [
    event(1, 'ExecutionStarted'),
    event(2, 'ActivityScheduled'),
    event(3, 'TimerCreated'),
    event(4, 'ActivityAttemptFailed', 2),
    event(5, 'ActivityCompleted', 2),
    event(6, 'OperationCancelled', 3),
    event(7, 'ExecutionCompleted'),
  ];
  const replaced = (i: number, ...events: HistoryEvent[]) => [...good.slice(0, i), ...events, ...good.slice(i + 1)];

  it('passes a good one', () => {
    expect(historyViolations(good, 'Completed')).toEqual([]);
    expect(historyViolations(good.slice(0, 6), 'Running')).toEqual([]);
  });

  it.each<[string, HistoryEvent[], 'Completed' | 'Failed' | 'Running', RegExp]>([
    ['a gap', replaced(3), 'Completed', /event 5 .* stands in place 4/],
    [
      'an event twice',
      replaced(3, event(4, 'ActivityAttemptFailed', 2), event(4, 'ActivityAttemptFailed', 2)),
      'Completed',
      /place 5/,
    ],
    ['no start', replaced(0, event(1, 'TimerCreated')), 'Completed', /is in place 1/],
    ['a second start', replaced(3, event(4, 'ExecutionStarted')), 'Completed', /event 4 \(ExecutionStarted\)/],
    ['two terminal events', replaced(5, event(6, 'ExecutionFailed')), 'Completed', /is followed by others/],
    ['another status', good, 'Failed', /status is Failed/],
    ['a terminal event of one that runs', good, 'Running', /status is Running/],
    ['an end without its event', good.slice(0, 6), 'Completed', /status is Completed/],
    ['two completions', replaced(5, event(6, 'ActivityFailed', 2)), 'Completed', /after event 2 was settled/],
    ['a completion of nothing', replaced(4, event(5, 'ActivityCompleted', 6)), 'Completed', /which is not before it/],
    [
      'a completion of something else',
      replaced(4, event(5, 'ActivityCompleted', 3)),
      'Completed',
      /refers to a TimerCreated/,
    ],
    ['an attempt after the completion', replaced(5, event(6, 'ActivityAttemptFailed', 2)), 'Completed', /was settled/],
    ['nothing at all', [], 'Completed', /last event missing/],
  ])('tells of %s', (_, history, status, message) => {
    expect(historyViolations(history, status).join('\n')).toMatch(message);
  });
});

// The timeline of a history: its bars and their rows.

import { describe, expect, it } from 'vitest';

import type { EventRow } from '../../js/dashboard/answers.ts';
import { Bars, firstAt } from '../../js/dashboard/bars.ts';

/** Returns the bars of a history, written as `at kind` with further fields. The events are numbered. */
function barsOf(
  ...events: readonly (readonly [atMs: number, kind: EventRow['kind'], more?: Partial<EventRow>])[]
): Bars {
  const bars = new Bars();
  for (const [i, [atMs, kind, more]] of events.entries()) bars.add({ id: i + 1, atMs, kind, ...more });
  return bars;
}

/** Returns each row as text: `kind state label from-to`. */
function picture(bars: Bars): string[] {
  return bars.rows.map((row) =>
    row.map(({ kind, state, label, fromMs, toMs }) => `${kind} ${state} ${label} ${fromMs}-${toMs ?? ''}`).join(', '),
  );
}

describe('the bars of a history', () => {
  it('are one row where one thing follows another', () => {
    const bars = barsOf(
      [0, 'ExecutionStarted', { name: 'order' }],
      [0, 'ActivityScheduled', { name: 'a' }],
      [10, 'ActivityCompleted', { ref: 2 }],
      [10, 'TimerCreated', { untilMs: 30 }],
      [30, 'TimerFired', { ref: 4 }],
      [50, 'EventReceived', { name: 'approve' }],
      [50, 'ChildScheduled', { name: 'packing', instance: 'p-1' }],
      [60, 'ChildFailed', { ref: 7 }],
      [60, 'ExecutionFailed'],
    );
    expect(picture(bars)).toEqual([
      'execution failed order 0-60',
      'activity ok a 0-10, timer ok timer 10-30, wait ok approve 30-50, child failed packing 50-60',
    ]);
    expect([bars.isOpen, bars.isWaiting, bars.fromMs, bars.lastMs, bars.count]).toEqual([false, false, 0, 60, 5]);
  });

  it('use as many rows as there are bars at the same time, and each bar the uppermost free row', () => {
    const bars = barsOf(
      [0, 'ExecutionStarted', { name: 'x' }],
      [0, 'ActivityScheduled', { name: 'a' }],
      [0, 'ActivityScheduled', { name: 'b' }],
      [0, 'ActivityScheduled', { name: 'c' }],
      [5, 'ActivityCompleted', { ref: 3 }],
      [5, 'ActivityScheduled', { name: 'd' }],
      [6, 'ActivityCompleted', { ref: 2 }],
      [7, 'ActivityScheduled', { name: 'e' }],
      [7, 'ActivityScheduled', { name: 'f' }],
    );
    expect(picture(bars).slice(1)).toEqual([
      'activity ok a 0-6, activity open e 7-',
      'activity ok b 0-5, activity open d 5-',
      'activity open c 0-',
      'activity open f 7-',
    ]);
  });

  it('are grouped by fiber, the main fiber first, and a new fiber reuses the rows of ended fibers', () => {
    const bars = barsOf(
      [0, 'ExecutionStarted', { name: 'x' }],
      [0, 'ActivityScheduled', { name: 'a', fiber: 1 }],
      [0, 'TimerCreated', { fiber: 2 }],
      [1, 'ActivityCompleted', { ref: 2 }],
      // A fiber keeps its row between two of its operations.
      [5, 'EventReceived', { name: 'go', fiber: 3 }],
      [6, 'ActivityScheduled', { name: 'b', fiber: 1 }],
      [7, 'ActivityScheduled', { name: 'c', fiber: 1 }],
      [8, 'TimerFired', { ref: 3 }],
      [9, 'ActivityCompleted', { ref: 6 }],
      [9, 'ActivityCompleted', { ref: 7 }],
      [9, 'ChildScheduled', { name: 'main', instance: 'm' }],
      [9, 'ActivityScheduled', { name: 'd', fiber: 4 }],
      [9, 'ActivityScheduled', { name: 'e', fiber: 4 }],
      [10, 'ActivityScheduled', { name: 'f', fiber: 5 }],
    );
    expect(picture(bars)).toEqual([
      'execution open x 0-',
      'child open main 9-',
      'activity ok a 0-1, activity ok b 6-9, activity open d 9-',
      'activity ok c 7-9, activity open e 9-',
      'timer ok timer 0-8, activity open f 10-',
      'wait ok go 1-5',
    ]);
    expect(bars.rows.map((row, at) => row.every((bar) => bar.row === at))).toEqual(Array(6).fill(true));
    expect(bars.rows.map((row) => row.map(({ fiber }) => fiber))).toEqual([[0], [0], [1, 1, 4], [1, 4], [2, 5], [3]]);
  });

  it('are one for each attempt, with the delay between them', () => {
    const bars = barsOf(
      [0, 'ExecutionStarted', { name: 'x' }],
      [0, 'ActivityScheduled', { name: 'a' }],
      [4, 'ActivityAttemptFailed', { ref: 2, attempt: 1, untilMs: 10 }],
      [12, 'ActivityAttemptFailed', { ref: 2, attempt: 2, untilMs: 20 }],
      [25, 'ActivityFailed', { ref: 2, attempt: 3 }],
    );
    expect(picture(bars)[1]).toBe(
      'activity failed a 0-4, retry ok retry delay of a 4-10, activity failed a 10-12, ' +
        'retry ok retry delay of a 12-20, activity failed a 20-25',
    );
    expect(bars.rows[1]?.map(({ attempt }) => attempt)).toEqual([1, undefined, 2, undefined, 3]);
  });

  it('end with the execution, or when they are given up', () => {
    const given = [
      [0, 'ExecutionStarted', { name: 'x' }],
      [0, 'TimerCreated', { untilMs: 1_000 }],
      [0, 'ActivityScheduled', { name: 'a' }],
      [3, 'OperationCancelled', { ref: 2 }],
    ] as const;
    expect(picture(barsOf(...given)).slice(1)).toEqual(['timer cancelled timer 0-3', 'activity open a 0-']);
    expect(picture(barsOf(...given, [9, 'ExecutionTerminated']))).toEqual([
      'execution cancelled x 0-9',
      'timer cancelled timer 0-3',
      'activity cancelled a 0-9',
    ]);
    // An activity that is given up before its next attempt has begun ends at the time of that attempt.
    expect(
      picture(
        barsOf(
          [0, 'ExecutionStarted'],
          [0, 'ActivityScheduled', { name: 'a' }],
          [1, 'ActivityAttemptFailed', { ref: 2, attempt: 1, untilMs: 50 }],
          [2, 'OperationCancelled', { ref: 2 }],
        ),
      )[1],
    ).toContain('activity cancelled a 50-50');
  });

  it('begin a wait where it was certain, in a row without running bars', () => {
    const bars = barsOf(
      [0, 'ExecutionStarted', { name: 'x' }],
      [0, 'ActivityScheduled', { name: 'a' }],
      [8, 'EventReceived', { name: 'e' }],
      [9, 'ActivityCompleted', { ref: 2 }],
      [20, 'QueueReceived', { name: 'q' }],
    );
    expect(picture(bars).slice(1)).toEqual(['activity ok a 0-9, wait ok q 9-20', 'wait ok e 0-8']);
    expect(bars.isWaiting).toBe(true);
  });

  it('continue when a clock is set back', () => {
    const bars = barsOf(
      [100, 'ExecutionStarted', { name: 'x' }],
      [100, 'ActivityScheduled', { name: 'a' }],
      [50, 'ActivityCompleted', { ref: 2 }],
      [60, 'ActivityScheduled', { name: 'b' }],
    );
    expect(picture(bars)[1]).toBe('activity ok a 100-100, activity open b 100-');
  });

  it('ignore events that refer to missing events', () => {
    expect(
      picture(
        barsOf(
          [0, 'ExecutionStarted', { name: 'x' }],
          [1, 'ActivityCompleted', { ref: 7 }],
          [1, 'TimerFired'],
          [2, 'ActivityAttemptFailed', { ref: 9 }],
        ),
      ),
    ).toEqual(['execution open x 0-']);
  });

  it('are soon made of very many events', () => {
    const bars = new Bars();
    bars.add({ id: 1, atMs: 0, kind: 'ExecutionStarted', name: 'x' });
    for (let i = 0; i < 20_000; i += 1) bars.add({ id: i + 2, atMs: i, kind: 'ActivityScheduled', name: 'a' });
    for (let i = 0; i < 20_000; i += 1)
      bars.add({ id: i + 20_002, atMs: 20_000 + i, kind: 'ActivityCompleted', ref: i + 2 });
    expect(bars.rows).toHaveLength(20_001);
    expect(bars.isWaiting).toBe(true);
  });

  it('are soon made of very many fibers', () => {
    const bars = new Bars();
    bars.add({ id: 1, atMs: 0, kind: 'ExecutionStarted', name: 'x' });
    for (let i = 0; i < 20_000; i += 2) {
      bars.add({ id: i + 2, atMs: i, kind: 'ActivityScheduled', name: 'a', fiber: i / 2 + 1 });
      bars.add({ id: i + 3, atMs: i + 1, kind: 'ActivityCompleted', ref: i + 2 });
    }
    expect(bars.rows.map((row) => row.length)).toEqual([1, 10_000]);
  });

  it('are found in a row by time', () => {
    const [, row = []] = barsOf(
      [0, 'ExecutionStarted'],
      [0, 'TimerCreated'],
      [5, 'TimerFired', { ref: 2 }],
      [10, 'TimerCreated'],
      [15, 'TimerFired', { ref: 4 }],
      [20, 'TimerCreated'],
    ).rows;
    expect([0, 5, 6, 15, 16, 99].map((at) => firstAt(row, at))).toEqual([0, 0, 1, 1, 2, 2]);
  });
});

import type { HistoryEvent } from 'perdure';
import { expect, it } from 'vitest';

import type { Effect } from '../support/worker.ts';
import { seeded } from '../support/worker-parts.mjs';
import { begunBefore, concurrentViolations, type Snapshot, unfinished, violations } from './checker.ts';

// The checker of the crash tests can fail: each test breaks one part of a small run and expects the sentence that
// reports it.

const event = (eventId: number, kind: HistoryEvent['kind'], at: number, refId?: number): HistoryEvent => ({
  eventId,
  kind,
  time: new Date(at),
  ...(refId === undefined ? {} : { refId }),
});

const HISTORY = [
  event(1, 'ExecutionStarted', 100),
  event(2, 'ActivityScheduled', 100),
  event(3, 'ActivityCompleted', 120, 2),
  event(4, 'ActivityScheduled', 120),
  event(5, 'ActivityCompleted', 220, 4),
  event(6, 'ExecutionCompleted', 220),
];

const begin = (worker: string, step: number, at: number, more: Partial<Effect> = {}): Effect => ({
  event: 'begin',
  worker,
  id: 'i',
  step,
  attempt: 1,
  key: `i/${step}`,
  at,
  ...more,
});

const snapshot = (events: readonly HistoryEvent[]): Snapshot => new Map([['i', events]]);

/** Step 1 ran in worker 1, which was killed in step 2. Worker 2 ran step 2 again. */
const EFFECTS = [begin('1', 1, 110), begin('1', 2, 130), begin('2', 2, 210)];
const KILLS = [{ worker: '1', found: snapshot(HISTORY.slice(0, 4)) }];
const END = snapshot(HISTORY);

it('finds nothing in a good run, and accepts work that a kill left unfinished', () => {
  expect(violations(EFFECTS, KILLS, END)).toEqual([]);
  expect(KILLS.flatMap((kill) => unfinished(EFFECTS, kill))).toEqual([EFFECTS[1]]);
});

it.each<[string, Effect[], Snapshot, Snapshot, RegExp]>([
  [
    'a step that began after a restart that found it completed',
    [...EFFECTS, begin('2', 1, 115)],
    KILLS[0]!.found,
    END,
    /i step 1 began in 2 although/,
  ],
  [
    'a step that began after its completion',
    [...EFFECTS, begin('2', 1, 121)],
    snapshot([]),
    END,
    /1 ms after its completion/,
  ],
  [
    'a step that began twice in one process',
    [...EFFECTS, begin('2', 2, 211)],
    KILLS[0]!.found,
    END,
    /attempt 1 in 2 began twice/,
  ],
  [
    'a step with two keys',
    [...EFFECTS.slice(0, 2), begin('2', 2, 210, { key: 'x' })],
    KILLS[0]!.found,
    END,
    /more than one/,
  ],
  [
    'two steps with one key',
    [begin('1', 1, 110), begin('2', 2, 210, { key: 'i/1' })],
    KILLS[0]!.found,
    END,
    /one idempotency key/,
  ],
  [
    'a step that began before it was stored',
    EFFECTS,
    snapshot(HISTORY.slice(0, 3)),
    END,
    /step 2 began in 1 and was not stored/,
  ],
  [
    'a step that history does not know',
    [...EFFECTS, begin('2', 3, 219)],
    KILLS[0]!.found,
    END,
    /step 3 began and is not/,
  ],
  ['an instance that is gone', EFFECTS, KILLS[0]!.found, new Map(), /history of i changed/],
  ['a history that lost an event', EFFECTS, KILLS[0]!.found, snapshot(HISTORY.slice(0, 3)), /history of i changed/],
  [
    'a history that is another one',
    EFFECTS,
    KILLS[0]!.found,
    snapshot([...HISTORY.slice(0, 2), event(3, 'ActivityCompleted', 121, 2), ...HISTORY.slice(3)]),
    /history of i changed/,
  ],
])('tells of %s', (_, effects, found, end, message) => {
  expect(violations(effects, [{ worker: '1', found }], end).join('\n')).toMatch(message);
});

it('finds nothing in a good run of workers at the same time', () => {
  expect(concurrentViolations(EFFECTS, [{ worker: '1', from: 200, by: 205 }], END)).toEqual([]);
});

it.each<[string, Effect[], { worker: string; from: number; by: number }, RegExp]>([
  [
    'a step that began again while its worker was not away',
    EFFECTS,
    { worker: '2', from: 200, by: 205 },
    /i step 2 began in 1 and again in 2, and 1 was not/,
  ],
  [
    'a step that began again too soon',
    EFFECTS,
    { worker: '1', from: 211, by: 215 },
    /step 2 began in 1 and again in 2/,
  ],
  [
    'a step that began again after its worker was back',
    EFFECTS,
    { worker: '1', from: 100, by: 120 },
    /step 2 began in 1 and again in 2/,
  ],
  [
    'a step that began after its completion',
    [...EFFECTS, begin('1', 1, 121)],
    { worker: '1', from: 100, by: 999 },
    /1 ms after its completion/,
  ],
])('tells of %s', (_, effects, absence, message) => {
  expect(concurrentViolations(effects, [absence], END).join('\n')).toMatch(message);
});

it('takes one attempt of a worker that stood still as begun before, and no more', () => {
  const absence = { worker: '3', from: 100, by: 105 };
  const late = [...EFFECTS, begin('3', 1, 300)];
  expect(concurrentViolations(late, [absence, { worker: '1', from: 200, by: 205 }], END).join('\n')).toMatch(
    /step 1 began in 3 .* after its completion/,
  );
  const taken = begunBefore(late, absence, 300);
  expect(taken).toHaveLength(late.length);
  expect(concurrentViolations(taken, [absence, { worker: '1', from: 200, by: 205 }], END)).toEqual([]);
  const twice = begunBefore([...late, begin('3', 2, 301)], absence, 300);
  expect(concurrentViolations(twice, [absence, { worker: '1', from: 200, by: 205 }], END).join('\n')).toMatch(
    /step 2 began in/,
  );
});

it('is given the same moments by the same seed', () => {
  const take = (seed: number) => Array.from({ length: 5 }, seeded(seed));
  expect(take(1)).toEqual(take(1));
  expect(take(1)).not.toEqual(take(2));
  for (const value of take(3)) expect(value >= 0 && value < 1).toBe(true);
});

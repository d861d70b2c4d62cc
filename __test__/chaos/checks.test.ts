import { describe, expect, it } from 'vitest';

import { repeatedWithoutReason } from '../crash/checker.ts';
import type { Effect } from '../support/effects.ts';
import type { EventRow, InstanceRow, StoreRows } from '../support/violations.ts';
import { absencesOf, lateBegins } from './absences.ts';
import type { Promotion } from './arena.ts';
import type { ClientEntry } from './client-log.ts';
import { overGate } from './gate.ts';
import { begunAgain, begunTooSoon, changed, type Look, untrue } from './looks.ts';
import { instancesOf, lastStatus, valueOf } from './model.ts';
import { judge, type Outcome } from './outcomes.ts';
import { type Root, rootOf } from './programs.ts';
import type { RoundResult } from './round.ts';
import { summarize } from './run.ts';

// The checks of chaos can fail: each test breaks one part of a small run and expects the sentence that reports it.

const instance = (more: Partial<InstanceRow> = {}) =>
  ({ key: 1, id: 'p1', status: 'Running', execution: 1, epoch: 1, completed_at: null, ...more }) as InstanceRow;
const event = (event_id: number, kind: string, ref_id: number | null = null, time = 100): EventRow => ({
  instance_key: 1,
  execution: 1,
  event_id,
  time,
  kind,
  ref_id,
  meta: null,
});
const look = (events: readonly EventRow[], more: Partial<InstanceRow> = {}, effects = 1): Look => ({
  rows: { instances: [instance(more)], history: events } as unknown as StoreRows,
  effectsBefore: effects,
  effectsAfter: effects,
  toldBefore: 1,
});
const begin = (at = 90, worker = 'worker 1'): Effect => ({
  event: 'begin',
  worker,
  id: 'p1',
  step: 2,
  attempt: 1,
  key: 'p1/1/2',
  at,
});

const STARTED = event(1, 'ExecutionStarted');
const SCHEDULED = event(2, 'ActivityScheduled');
const COMPLETED = event(3, 'ActivityCompleted', 2);

describe('looks at a store', () => {
  const looks = [look([STARTED, SCHEDULED]), look([STARTED, SCHEDULED, COMPLETED])];

  it('find nothing when all is well', () => {
    expect(begunTooSoon(looks, [begin()])).toEqual([]);
    expect(begunAgain(looks, [begin()])).toEqual([]);
    expect(changed(looks)).toEqual([]);
  });

  it('report steps that began before they were stored', () => {
    expect(begunTooSoon([look([STARTED])], [begin()])).toEqual([
      'p1/1/2 began in worker 1 and was not stored as scheduled',
    ]);
  });

  it('report steps that began again after their end, by order and by clock', () => {
    expect(begunAgain(looks, [begin(), begin(95, 'worker 2')])).toEqual([
      'p1/1/2 began again in worker 2 although the store said that it was finished',
    ]);
    expect(begunAgain([look([STARTED, SCHEDULED, COMPLETED], {}, 2)], [begin(), begin(101)])).toEqual([
      'p1/1/2 began in worker 1 1 ms after it was recorded as finished',
    ]);
  });

  it('do not count what began while the power was cut', () => {
    const tooSoon = look([STARTED], {}, 2);
    const effects = [begin(80), begin(90)];
    expect(begunTooSoon([tooSoon], effects, [{ from: 0, to: 2 }])).toEqual([]);
    expect(begunTooSoon([tooSoon], effects, [{ from: 1, to: 2 }])).toHaveLength(1);
  });

  it('except the last attempt that a worker begins before it notices the loss of its lease', () => {
    const lost = (at: number) => ({ event: 'lost', worker: 'worker 1', at }) as Effect;
    const found = (effects: readonly Effect[]) => {
      const late = lateBegins(effects);
      const inTime = effects.filter((effect) => !late.has(effect));
      return [...begunAgain(looks, effects, late), ...repeatedWithoutReason(inTime, absencesOf(effects, []))];
    };
    expect(found([begin(90, 'worker 2'), begin(101), lost(102)])).toEqual([]);
    expect(found([begin(90, 'worker 2'), begin(101), begin(101), lost(102)]), 'a second one').not.toEqual([]);
    expect(found([begin(90, 'worker 2'), begin(101), lost(20_000)]), 'long before').not.toEqual([]);
    expect(found([begin(90, 'worker 2'), begin(101)]), 'no loss').not.toEqual([]);
  });

  it.each<[string, Look, RegExp]>([
    [
      'an instance that is gone',
      { ...look([]), rows: { instances: [], history: [STARTED, SCHEDULED] } as unknown as StoreRows },
      /'p1' is gone/,
    ],
    ['an epoch that fell', look([STARTED, SCHEDULED], { epoch: 0 }), /the epoch of 'p1' went from 1 to 0/],
    ['an event that is lost', look([STARTED]), /event 1\/1\/2 \(ActivityScheduled\) changed/],
    [
      'an event that is another one',
      look([STARTED, event(2, 'TimerCreated')]),
      /event 1\/1\/2 \(ActivityScheduled\) changed/,
    ],
  ])('tell of %s', (_, later, message) => {
    expect(changed([look([STARTED, SCHEDULED]), later]).join('\n')).toMatch(message);
  });

  it('report an end that changed, and wrong answers to clients', () => {
    const ended = look([STARTED], { status: 'Completed', completed_at: 100 });
    expect(changed([ended, look([STARTED], { status: 'Failed', completed_at: 100 })])).toEqual([
      "'p1' was Completed and is Failed",
    ]);
    const told = (action: 'start' | 'end', what = ''): ClientEntry[] => [
      { program: 1, action, attempt: 1, phase: 'acknowledged', what, at: 1 },
    ];
    expect(untrue([ended], told('end', 'Failed'), (n) => `p${n}`)).toEqual([
      "a client was told that 'p1' is Failed, and it is Completed",
    ]);
    expect(untrue([ended], told('start'), () => 'p2')).toEqual([
      "the start of 'p2' was acknowledged, and it is not there",
    ]);
  });
});

describe('the queue of programs', () => {
  const line = (event: 'enter' | 'leave', id: string) => ({ event, id, worker: 'worker 1', at: 1 }) as Effect;
  const enter = (...ids: string[]) => ids.map((id) => line('enter', id));
  const found = (effects: readonly Effect[], cuts = [{ from: 0, to: 0 }]) => overGate(effects, (id) => id[0]!, cuts);

  it('has no more of them at once than its limits', () => {
    const most = [...enter('a1', 'a2', 'b1', 'b2', 'c1'), line('leave', 'a1')];
    expect(found([...most, ...enter('a3', 'a1'), line('leave', 'a1')])).toEqual([]);
    expect(found([...most, ...enter('c2', 'c3')]), 'in all').toHaveLength(2);
    expect(found(enter('a1', 'a2', 'a3')), 'of a key').toEqual(["in the queue: of 'a': a1, a2, a3 at once, and 2 may"]);
    expect(found(enter('a1', 'a2', 'a3'), [{ from: 0, to: 1 }]), 'while the power was cut').toEqual([]);
  });
});

describe('the outcome of a program', () => {
  const root: Root = {
    id: 'p1',
    segments: [[{ do: 'collect', mailbox: 'queue', name: 'box', count: 2 }]],
    ending: 'Completed',
    starts: 1,
    actions: [1, 2].map((seq) => ({ do: 'send', mailbox: 'queue', name: 'box', seq, pauseMs: 0 })),
  };
  const entry = (
    action: ClientEntry['action'],
    phase: ClientEntry['phase'] = 'acknowledged',
    attempt = 1,
  ): ClientEntry => ({ program: 1, action, attempt, phase, at: 1 });
  const entries = [entry('start'), entry(0), entry(1, 'unknown'), entry(1, 'acknowledged', 2), entry('end')];
  const outcome = (seen: readonly (readonly [number, number])[], more: Partial<Outcome> = {}): Outcome => ({
    status: 'Completed',
    executionId: 1,
    customStatus: lastStatus('p1'),
    output: { value: valueOf(root), seen: { box: seen } },
    ...more,
  });
  const found = (came: Outcome | undefined) => {
    const { lost, stuck, wrong } = judge(root, entries, () => came);
    return [
      ...lost.map((text) => `lost: ${text}`),
      ...stuck.map(({ text }) => `stuck: ${text}`),
      ...wrong.map((text) => `wrong: ${text}`),
    ];
  };

  it('is right when each message came once, one of unknown outcome or not, the last one perhaps twice', () => {
    expect(
      found(
        outcome([
          [1, 1],
          [2, 2],
        ]),
      ),
    ).toEqual([]);
    expect(
      found(
        outcome([
          [1, 1],
          [2, 1],
        ]),
      ),
    ).toEqual([]);
  });

  it.each<[string, Outcome | undefined, RegExp]>([
    [
      'a message that was acknowledged and lost',
      outcome([[2, 2]]),
      /^lost: message 1 1 of 'box' to 'p1' was acknowledged/,
    ],
    [
      'a message that came twice',
      outcome([
        [1, 1],
        [1, 1],
        [2, 2],
      ]),
      /^wrong: .* twice/,
    ],
    [
      'a message that was not sent',
      outcome([
        [1, 1],
        [1, 7],
        [2, 2],
      ]),
      /^wrong: .* 1 7 of 'box', which nobody sent/,
    ],
    [
      'messages out of order',
      outcome([
        [2, 2],
        [1, 1],
      ]),
      /^wrong: .* out of order/,
    ],
    [
      'another value',
      outcome(
        [
          [1, 1],
          [2, 2],
        ],
        {
          output: {
            value: 0,
            seen: {
              box: [
                [1, 1],
                [2, 2],
              ],
            },
          },
        },
      ),
      /^wrong: the value of 'p1' is 0/,
    ],
    [
      'a status of another program',
      outcome(
        [
          [1, 1],
          [2, 2],
        ],
        { customStatus: lastStatus('p2') },
      ),
      /^wrong: the custom status/,
    ],
    [
      'an execution too many',
      outcome(
        [
          [1, 1],
          [2, 2],
        ],
        { executionId: 2 },
      ),
      /^wrong: the number of executions/,
    ],
    ['another end', outcome([], { status: 'Failed' }), /^wrong: 'p1' is Failed/],
    ['no end', outcome([], { status: 'Running' }), /^stuck: 'p1' is Running/],
    ['nothing', undefined, /^lost: 'p1' is not there/],
  ])('is wrong with %s', (_, came, message) => {
    expect(found(came).join('\n')).toMatch(message);
  });

  it('is the same for the same seed', () => {
    expect(rootOf(7, 3)).toEqual(rootOf(7, 3));
    expect(rootOf(7, 3)).not.toEqual(rootOf(8, 3));
    const ids = Array.from({ length: 50 }, (_, i) => instancesOf(rootOf(7, i)).map(({ id }) => id)).flat();
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('a run', () => {
  const options = { provider: 'sqlite', seed: 1, workers: 3, minutes: 0, isShort: true } as const;
  const round = (
    tally: RoundResult['tally'],
    struck: RoundResult['struck'] = [{ fault: 'kill', ms: 1 }],
  ): RoundResult => ({
    options: { provider: 'sqlite', ground: 'disk', seed: 1, faults: [], workers: 3, isShort: true },
    tally,
    struck,
    promotions: [],
    violations: { lost: [], stuck: [], repeated: [], other: [] },
    settledMs: 1,
  });
  const failures = (result: RoundResult) => summarize(options, [result], [], ['kill'], 1).failures;

  it('holds when all has struck, nearly all has ended and something stale was rejected', () => {
    expect(failures(round({ programs: 100, finished: 95, zombies: 1, 'stale writes rejected': 1 }))).toEqual([]);
  });

  it.each<[string, RoundResult, RegExp]>([
    [
      'a fault never struck',
      round({ programs: 100, finished: 100 }, []),
      /the fault 'kill' was planned and never struck/,
    ],
    ['too few programs have ended', round({ programs: 100, finished: 94 }), /94 of 100 programs have ended/],
    ['no program ran', round({}), /0 of 0 programs/],
    ['nothing stale was rejected', round({ programs: 1, finished: 1, zombies: 1 }), /nothing stale was rejected/],
    [
      'something was lost',
      { ...round({ programs: 1, finished: 1 }), violations: { lost: ['x'], stuck: [], repeated: [], other: [] } },
      /seed 1: x/,
    ],
  ])('fails when %s', (_, result, message) => {
    expect(failures(result).join('\n')).toMatch(message);
  });

  it.each([
    ['short', true, { workersMs: 20_000, clientMs: 20_000 }],
    ['long', false, { workersMs: 5_000, clientMs: 10_000 }],
  ])('that is %s fails when a process does not continue in time after a promotion', (_, isShort, most) => {
    const after = (promotion: Promotion) =>
      summarize(
        { ...options, isShort },
        [{ ...round({ programs: 1, finished: 1 }), promotions: [{ workersMs: 1, clientMs: 1 }, promotion] }],
        [],
        ['kill'],
        1,
      ).failures;
    expect(after(most)).toEqual([]);
    expect(after({ ...most, workersMs: most.workersMs + 1 })).toEqual([
      `${most.workersMs + 1} ms passed from a promotion until all workers had written there, and ${most.workersMs} may`,
    ]);
    expect(after({ ...most, clientMs: most.clientMs + 1 })).toEqual([
      `${most.clientMs + 1} ms passed from a promotion until the client had written there, and ${most.clientMs} may`,
    ]);
  });
});

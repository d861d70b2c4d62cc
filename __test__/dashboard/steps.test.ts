// The steps of a timeline: one for each operation of a history, and groups of like ones.

import { expect, it } from 'vitest';

import type { EventRow } from '../../js/dashboard/answers.ts';
import { Bars } from '../../js/dashboard/bars.ts';
import {
  belongsTo,
  GROUP_MIN,
  isGroup,
  isTakeover,
  rowsOf,
  type Step,
  stepsOf,
  UNGROUPED_MAX,
  withTakeovers,
} from '../../js/dashboard/steps.ts';

type Given = readonly [atMs: number, kind: EventRow['kind'], more?: Partial<EventRow>];

/** Returns the steps of a history. The events are numbered. */
function stepsAfter(...events: readonly Given[]): Step[] {
  const bars = new Bars();
  for (const [i, [atMs, kind, more]] of events.entries()) bars.add({ id: i + 1, atMs, kind, ...more });
  return stepsOf(bars);
}

const told = ({ kind, state, name, fromMs, toMs, attempts, dueMs }: Step): string =>
  `${kind} ${name} ${state} ${fromMs}-${toMs ?? ''} attempts ${attempts}${dueMs === undefined ? '' : ` due ${dueMs}`}`;

it('are in the order in which they began, with attempts, children and due times', () => {
  const steps = stepsAfter(
    [0, 'ExecutionStarted', { name: 'order' }],
    [0, 'ActivityScheduled', { name: 'charge' }],
    [4, 'ActivityAttemptFailed', { ref: 2, attempt: 1, untilMs: 10 }],
    [4, 'TimerCreated', { untilMs: 900, fiber: 1 }],
    [5, 'ChildScheduled', { name: 'packing', instance: 'p-1' }],
    [12, 'ActivityCompleted', { ref: 2 }],
    [13, 'ActivityScheduled', { name: 'ship' }],
    [14, 'ActivityAttemptFailed', { ref: 7, attempt: 1, untilMs: 500 }],
    [15, 'EventReceived', { name: 'go' }],
  );
  expect(steps.map(told)).toEqual([
    'execution order open 0- attempts 1',
    'activity charge ok 0-12 attempts 2',
    'timer timer open 4- attempts 1 due 900',
    'child packing open 5- attempts 1',
    'activity ship open 13- attempts 2 due 500',
    'wait go ok 14-15 attempts 1',
  ]);
  expect(steps[2]?.fiber).toBe(1);
  expect(steps[3]?.instance).toBe('p-1');
  expect(steps[1]?.bars.map(({ kind, endEvent }) => [kind, endEvent])).toEqual([
    ['activity', 3],
    ['retry', undefined],
    ['activity', 6],
  ]);
});

it('belong to the events that began or ended them or an attempt, and an open step to no missing event', () => {
  const [execution, charge, wait] = stepsAfter(
    [0, 'ExecutionStarted', { name: 'order' }],
    [0, 'ActivityScheduled', { name: 'charge' }],
    [4, 'ActivityAttemptFailed', { ref: 2, attempt: 1, untilMs: 10 }],
    [12, 'EventReceived', { name: 'go' }],
  ) as [Step, Step, Step];
  expect([1, 2, 3, 4].map((event) => belongsTo(charge, event))).toEqual([false, true, true, false]);
  // Neither a running step nor a wait has an end event, and without a selection no event is selected.
  expect([execution, charge, wait].map((step) => step.endEvent)).toEqual([undefined, undefined, undefined]);
  expect([execution, charge, wait].map((step) => belongsTo(step, undefined))).toEqual([false, false, false]);
});

it('share a row with like ones only where there are very many', () => {
  const many = (count: number, name: string): Given[] =>
    Array.from({ length: count }, (_, i) => [i, 'ActivityScheduled', { name }]);
  const few = stepsAfter([0, 'ExecutionStarted', { name: 'x' }], ...many(UNGROUPED_MAX - 1, 'a'));
  expect(rowsOf(few)).toEqual(few);

  const rows = rowsOf(
    stepsAfter(
      [0, 'ExecutionStarted', { name: 'x' }],
      ...many(3, 'rare'),
      ...many(UNGROUPED_MAX, 'a'),
      ...many(GROUP_MIN, 'b'),
      [90, 'ActivityFailed', { ref: 5 }],
      [95, 'ActivityCompleted', { ref: 6 }],
    ),
  );
  expect(rows.map((row) => `${row.kind} ${row.name} ${isGroup(row) ? row.steps.length : ''}`)).toEqual([
    'execution x ',
    'activity rare ',
    'activity rare ',
    'activity rare ',
    `activity a ${UNGROUPED_MAX}`,
    `activity b ${GROUP_MIN}`,
  ]);
  expect(rows.filter(isGroup).map(({ counts, fromMs, toMs }) => ({ ...counts, fromMs, toMs }))).toEqual([
    { ok: 1, failed: 1, cancelled: 0, open: UNGROUPED_MAX - 2, fromMs: 2, toMs: undefined },
    { ok: 0, failed: 0, cancelled: 0, open: GROUP_MIN, fromMs: 59, toMs: undefined },
  ]);
});

it('have the deaths of workers between them, at their times', () => {
  const steps = stepsAfter(
    [0, 'ExecutionStarted', { name: 'order' }],
    [1, 'ActivityScheduled', { name: 'charge' }],
    [20, 'ActivityCompleted', { ref: 2 }],
    [20, 'ActivityScheduled', { name: 'ship' }],
  );
  const died = [10, 15, 30].map((atMs) => ({ atMs, eventId: 3, worker: `w${atMs}` }));
  const rows = withTakeovers(rowsOf(steps), died);
  expect(rows.map((row) => (isTakeover(row) ? row.takeover.worker : row.name))).toEqual([
    'order',
    'charge',
    'w10',
    'w15',
    'ship',
    'w30',
  ]);
});

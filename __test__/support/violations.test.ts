import { expect, it } from 'vitest';

import { type EventRow, type InstanceRow, rowViolations, type StoreRows } from './violations.ts';

// The checks of a store's rows can fail: each test breaks one part of a small store and expects the sentence that
// reports it.

const instance = (key: number, id: string, status: string, more: Partial<InstanceRow> = {}): InstanceRow => ({
  key,
  id,
  status,
  execution: 1,
  owner: null,
  epoch: 1,
  next_event_id: 2,
  turns: 1,
  wake_at: null,
  start_at: null,
  unread: 0,
  parent_id: null,
  parent_key: null,
  parent_execution: null,
  parent_event: null,
  report: null,
  completed_at: null,
  ...more,
});

const event = (instance_key: number, event_id: number, kind: string, more: Partial<EventRow> = {}): EventRow => ({
  instance_key,
  execution: 1,
  event_id,
  time: 1_000,
  kind,
  ref_id: null,
  meta: null,
  ...more,
});

const asks = (id: string) => ({ meta: JSON.stringify({ id, version: '1.0.0' }) });

/**
 * Instance 1 has ended in its second execution. 2 sleeps until its activity and its child 3 have ended. 4 is new, 5 is
 * owned, 6 is held, 8 is in line.
 */
const GOOD: StoreRows = {
  instances: [
    instance(1, 'ended', 'Completed', { execution: 2, next_event_id: 5, completed_at: 9 }),
    instance(2, 'parent', 'Running', { next_event_id: 4, unread: 1 }),
    instance(3, 'child', 'Running', {
      wake_at: 5_000,
      parent_id: 'parent',
      parent_key: 2,
      parent_execution: 1,
      parent_event: 3,
    }),
    instance(4, 'new', 'Pending', { epoch: 0, turns: 0, wake_at: 5 }),
    instance(5, 'owned', 'Running', { owner: 'w', next_event_id: 3 }),
    instance(6, 'held', 'Suspended', { report: '{}' }),
    instance(8, 'in line', 'Pending', { epoch: 0, turns: 0 }),
  ],
  history: [
    event(1, 1, 'ExecutionStarted'),
    event(1, 2, 'ExecutionContinuedAsNew'),
    event(1, 1, 'ExecutionStarted', { execution: 2 }),
    event(1, 2, 'TimerCreated', { execution: 2, meta: '{"fireAtMs":2000}' }),
    event(1, 3, 'TimerFired', { execution: 2, ref_id: 2, time: 2_000 }),
    event(1, 4, 'ExecutionCompleted', { execution: 2 }),
    event(2, 1, 'ExecutionStarted'),
    event(2, 2, 'ActivityScheduled'),
    event(2, 3, 'ChildScheduled', asks('child')),
    event(3, 1, 'ExecutionStarted'),
    event(4, 1, 'ExecutionStarted'),
    event(5, 1, 'ExecutionStarted'),
    event(5, 2, 'ActivityScheduled'),
    event(6, 1, 'ExecutionStarted'),
    event(7, 1, 'ExecutionStarted'),
    event(8, 1, 'ExecutionStarted'),
  ],
  messages: [{ instance_key: 2, kind: 'Queue', execution: null, ref_id: null }],
  tasks: [{ instance_key: 2, execution: 1, event_id: 2, attempt: 1, owner: 'w' }],
  heartbeats: [{ instance_key: 5, execution: 1, event_id: 2 }],
  workers: [{ id: 'w', name: 'worker' }],
  revocations: [{ worker: 'w', instance_key: 7 }],
  places: [
    { key: 8, queue: 'q', place: 0 },
    { key: 1, queue: 'q', place: 2 },
    { key: null, queue: 'q', place: 0 },
  ],
  deleted: [{ key: 7 }],
};

type Change = Partial<StoreRows>;

/** Returns the good store with other columns in one instance. */
const having = (id: string, more: Partial<InstanceRow>): Change => ({
  instances: GOOD.instances.map((row) => (row.id === id ? { ...row, ...more } : row)),
});

/** Returns the good store with other events in one execution. */
const telling = (key: number, execution: number, ...events: EventRow[]): Change => ({
  history: [...GOOD.history.filter((row) => row.instance_key !== key || row.execution !== execution), ...events],
});

const message = (instance_key: number, kind: string, ref_id: number | null = null): StoreRows['messages'][number] => ({
  instance_key,
  kind,
  execution: ref_id === null ? null : 1,
  ref_id,
});

it('finds nothing in a good store', () => {
  expect(rowViolations(GOOD)).toEqual([]);
});

it('pruned executions, and a child that its parent gave up, are no violations', () => {
  expect(rowViolations({ ...GOOD, history: GOOD.history.slice(2) })).toEqual([]);
  const cancelled = [
    ...telling(
      2,
      1,
      event(2, 1, 'ExecutionStarted'),
      event(2, 2, 'ActivityScheduled'),
      event(2, 3, 'ChildScheduled', asks('child')),
      event(2, 4, 'OperationCancelled', { ref_id: 3 }),
    ).history!,
  ];
  const instances = GOOD.instances.map((row) =>
    row.id === 'parent' ? { ...row, next_event_id: 5 } : row.id === 'child' ? { ...row, unread: 1 } : row,
  );
  expect(
    rowViolations({ ...GOOD, history: cancelled, instances, messages: [...GOOD.messages, message(3, 'Cancel')] }),
  ).toEqual([]);
});

it.each<[string, Change, RegExp]>([
  [
    'a gap in a history',
    telling(5, 1, event(5, 1, 'ExecutionStarted'), event(5, 3, 'ActivityScheduled')),
    /'owned', execution 1: event 3 .* stands in place 2/,
  ],
  [
    'a completion of nothing',
    telling(6, 1, event(6, 1, 'ExecutionStarted'), event(6, 2, 'ActivityCompleted', { ref_id: 1 })),
    /'held', .* refers to a ExecutionStarted/,
  ],
  [
    'an end that the status does not tell of',
    having('ended', { status: 'Failed' }),
    /status is Failed and the last event ExecutionCompleted/,
  ],
  [
    'an end that is not in the history',
    having('held', { status: 'Cancelled', completed_at: 1, report: null }),
    /the status is Cancelled/,
  ],
  ['another next event', having('owned', { next_event_id: 2 }), /the next event of 'owned' is 2 and its last one 2/],
  [
    'an execution without a history',
    having('owned', { execution: 2 }),
    /'owned' is in execution 2 and has the histories of 1/,
  ],
  ['an execution that is left out', telling(1, 2), /'ended' is in execution 2/],
  ['no history at all', telling(4, 1), /'new' is in execution 1 and has the histories of none/],
  [
    'an execution that did not continue',
    telling(1, 1, event(1, 1, 'ExecutionStarted')),
    /'ended', execution 1: the status is ContinuedAsNew/,
  ],
  [
    'a timer that fired early',
    telling(1, 2, ...GOOD.history.slice(2, 6).map((row) => ({ ...row, time: 1_999 }))),
    /a timer of 'ended' fired 1 ms early/,
  ],
  ['an unknown status', having('owned', { status: 'Lost' }), /'owned' has the status Lost/],
  ['an end without a time', having('ended', { completed_at: null }), /'ended' is Completed and completed_at is null/],
  ['a suspension without a reason', having('held', { report: null }), /'held' is Suspended and its report is null/],
  [
    'news for a worker that is gone',
    { revocations: [{ worker: 'gone', instance_key: 7 }] },
    /worker gone is to hear that it has lost instance 7, and is gone/,
  ],
  [
    'an owner that is not registered',
    having('owned', { owner: 'gone' }),
    /'owned' is owned by gone, which is not registered/,
  ],
  ['an owner of an ended instance', having('ended', { owner: 'w' }), /'ended' is Completed and owned by w/],
  ['a wake-up time of a held instance', having('held', { wake_at: 1 }), /'held' is Suspended and due at 1/],
  [
    'a start time of an instance that goes on',
    having('owned', { start_at: 1 }),
    /'owned' is Running and keeps the start time 1/,
  ],
  ['a wake-up time of an owned instance', having('owned', { wake_at: 1 }), /'owned' is owned and due at 1/],
  ['an epoch below nothing', having('owned', { epoch: -1 }), /'owned' has the epoch -1/],
  ['an owner without an epoch', having('owned', { epoch: 0 }), /'owned' has the epoch 0 and was acquired/],
  ['a wrong counter', having('parent', { unread: 2 }), /'parent' counts 2 messages and has 1/],
  ['events of a missing instance', { deleted: [] }, /events of instance 7, which is not there/],
  [
    'a deleted instance that is there',
    { deleted: [...GOOD.deleted, { key: 6 }] },
    /instance 6 is there and is to be swept away/,
  ],
  [
    'a message for a missing instance',
    { messages: [...GOOD.messages, message(9, 'Event')] },
    /a message \(Event\) waits for instance 9/,
  ],
  [
    'a message for an ended instance',
    { messages: [...GOOD.messages, message(1, 'Event')] },
    /waits for 'ended', which has ended/,
  ],
  [
    'a task of a missing instance',
    { tasks: [{ ...GOOD.tasks[0]!, instance_key: 9 }, ...GOOD.tasks] },
    /a task of event 2 of instance 9 is left/,
  ],
  [
    'a task of an ended instance',
    { tasks: [{ ...GOOD.tasks[0]!, instance_key: 1 }, ...GOOD.tasks] },
    /a task .* of 'ended' is left, and the instance has ended/,
  ],
  [
    'a task of another execution',
    { tasks: [{ ...GOOD.tasks[0]!, execution: 2 }, ...GOOD.tasks] },
    /is left of execution 2, and 1 runs/,
  ],
  [
    'a task of no activity',
    { tasks: [{ ...GOOD.tasks[0]!, event_id: 3 }, ...GOOD.tasks] },
    /a task of event 3 of 'parent' is left, and that is no open activity/,
  ],
  [
    'a task with an owner that is not registered',
    { tasks: [{ ...GOOD.tasks[0]!, owner: 'gone' }] },
    /a task of instance 2 is owned by gone/,
  ],
  [
    'a task whose attempt is over',
    { messages: [message(2, 'Attempted', 2)] },
    /event 2 of instance 2 is offered although/,
  ],
  [
    'a heartbeat of a missing instance',
    { heartbeats: [{ instance_key: 9, execution: 1, event_id: 2 }] },
    /a heartbeat of event 2 of instance 9 is left/,
  ],
  [
    'a heartbeat of an ended activity',
    telling(5, 1, event(5, 1, 'ExecutionStarted'), event(5, 2, 'TimerCreated')),
    /a heartbeat of event 2 of 'owned' is left/,
  ],
  [
    'a child of another',
    having('child', { parent_id: 'other' }),
    /'child' is a child of 'other' and its parent's key is that of 'parent'/,
  ],
  [
    'a child that its parent did not schedule',
    having('child', { parent_event: 2 }),
    /'parent' did not ask for its child 'child' with event 2/,
  ],
  [
    'a child that outlives its parent',
    having('parent', { status: 'Completed', completed_at: 1, unread: 0 }),
    /'child' runs on although 'parent'/,
  ],
  [
    'a child whose parent is gone',
    { instances: GOOD.instances.filter(({ id }) => id !== 'parent') },
    /'child' runs on although 'parent'/,
  ],
  [
    'a child that is lost',
    { instances: GOOD.instances.filter(({ id }) => id !== 'child') },
    /'parent' waits for the child of event 3, which is neither/,
  ],
  [
    'a child that ended without a message to its parent',
    having('child', { status: 'Terminated', completed_at: 1, wake_at: null }),
    /'parent' waits for the child of event 3/,
  ],
  [
    'a child that told twice',
    { messages: [message(2, 'ChildCompleted', 3), message(2, 'ChildFailed', 3)] },
    /'parent' is told twice of the child of event 3/,
  ],
  ['a new one that is never due', having('new', { wake_at: null }), /'new' is Pending, unowned and never due/],
  ['one that waits in no queue', { places: [] }, /'in line' is Pending, unowned and never due/],
  ['a slot of one that has not begun', { places: [{ key: 8, queue: 'q', place: 2 }] }, /'in line' is Pending, unowned/],
  ['one in line that is gone', { places: [...GOOD.places, { key: 9, queue: 'q', place: 1 }] }, /9 is in line in 'q'/],
  [
    'one in line that runs',
    { places: [...GOOD.places, { key: 2, queue: 'q', place: 0 }] },
    /'parent' is Running in the/,
  ],
  ['an activity without a task', { tasks: [] }, /'parent' sleeps, and nobody runs the activity of event 2/],
  [
    'a sleep with an activity of its own',
    having('owned', { owner: null }),
    /'owned' sleeps, and nobody runs the activity of event 2/,
  ],
])('reports %s', (_, change, words) => {
  expect(rowViolations({ ...GOOD, ...change }).join('\n')).toMatch(words);
});

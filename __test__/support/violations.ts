// The rules that hold for the rows of a store at any moment, after any fault of the processes that wrote them
// (testing.md, S3, S4, S7 to S9, S12, S15, S16, S20). The rows are read with other libraries than the addon's. The
// checks know nothing of either store.

import type { HistoryEvent } from 'perdure';

import { historyViolations } from './history.ts';
import type { StoreAddress } from './providers.ts';
import { queryAll } from './rows.ts';

export interface InstanceRow {
  readonly key: number;
  readonly id: string;
  readonly execution: number;
  readonly status: string;
  readonly owner: string | null;
  readonly epoch: number;
  readonly next_event_id: number;
  readonly turns: number;
  readonly wake_at: number | null;
  readonly start_at: number | null;
  readonly unread: number;
  readonly parent_id: string | null;
  readonly parent_key: number | null;
  readonly parent_execution: number | null;
  readonly parent_event: number | null;
  readonly report: string | null;
  readonly completed_at: number | null;
  /**
   * The suspicion against the instance, and its probation. No rule uses them: they help to examine an instance that
   * does not continue.
   */
  readonly suspicion?: number;
  readonly probation?: number;
}

export interface EventRow {
  readonly instance_key: number;
  readonly execution: number;
  readonly event_id: number;
  readonly time: number;
  readonly kind: string;
  readonly ref_id: number | null;
  /** JSON, as the engine made it. */
  readonly meta: string | null;
}

export interface MessageRow {
  readonly instance_key: number;
  readonly kind: string;
  readonly execution: number | null;
  readonly ref_id: number | null;
}

export interface TaskRow {
  readonly instance_key: number;
  readonly execution: number;
  readonly event_id: number;
  readonly attempt: number;
  readonly owner: string | null;
}

export interface HeartbeatRow {
  readonly instance_key: number;
  readonly execution: number;
  readonly event_id: number;
}

/** All rows of a store at one moment. */
export interface StoreRows {
  readonly instances: readonly InstanceRow[];
  readonly history: readonly EventRow[];
  readonly messages: readonly MessageRow[];
  readonly tasks: readonly TaskRow[];
  readonly heartbeats: readonly HeartbeatRow[];
  readonly workers: readonly { readonly id: string; readonly name: string }[];
  /** Instances that were taken from workers that have not released them. */
  readonly revocations: readonly { readonly worker: string; readonly instance_key: number }[];
  /** Places in queues, of instances by their key, and of attempts with the key null. */
  readonly places: readonly { readonly key: number | null; readonly queue: string; readonly place: number }[];
  /** Keys of instances whose history is still to be swept away. */
  readonly deleted: readonly { readonly key: number }[];
}

const QUERIES: Readonly<Record<keyof StoreRows, string>> = {
  instances: `SELECT key, id, execution, status, owner, epoch, next_event_id, turns, wake_at, start_at, unread,
    parent_id, parent_key, parent_execution, parent_event, report, completed_at, suspicion, probation FROM instances`,
  history: `SELECT instance_key, execution, event_id, time, kind, ref_id, meta FROM history
    ORDER BY instance_key, execution, event_id`,
  messages: 'SELECT instance_key, kind, execution, ref_id FROM messages',
  tasks: 'SELECT instance_key, execution, event_id, attempt, owner FROM tasks',
  heartbeats: 'SELECT instance_key, execution, event_id FROM heartbeats',
  workers: 'SELECT id, name FROM workers',
  revocations: 'SELECT worker, instance_key FROM revocations',
  // The numbers of attempts begin at 2^62, which no number of JavaScript can be.
  places: `SELECT CASE WHEN key < 4611686018427387904 THEN key END AS key, queue, place FROM queue_places`,
  deleted: 'SELECT key FROM deleted_instances',
};

export function readRows(address: StoreAddress): StoreRows {
  const answers = queryAll(address, Object.values(QUERIES));
  return Object.fromEntries(Object.keys(QUERIES).map((name, i) => [name, answers[i]])) as unknown as StoreRows;
}

/** Returns every rule that the rows break, as a sentence. */
export function rowViolations(rows: StoreRows): string[] {
  const store = new Store(rows);
  return [
    ...orphans(store),
    ...rows.instances.flatMap((instance) => [
      ...columns(store, instance),
      ...histories(store, instance),
      ...early(store, instance),
      ...parentOf(store, instance),
      ...childrenOf(store, instance),
      ...waits(store, instance),
    ]),
  ];
}

/**
 * Returns the rows that are left besides rows and histories of instances, when all instances have ended and all workers
 * were shut down, as sentences.
 */
export function leftViolations(rows: StoreRows): string[] {
  const found = rows.instances
    .filter((instance) => !isEnded(instance))
    .map(({ id, status }) => `'${id}' is ${status} and has not ended`);
  const attempts = rows.places.filter(({ key }) => key === null);
  if (attempts.length > 0) found.push(`${attempts.length} attempts have places in queues`);
  for (const table of ['messages', 'tasks', 'heartbeats', 'workers', 'revocations'] as const) {
    if (rows[table].length > 0)
      found.push(`${rows[table].length} rows of ${table} are left: ${JSON.stringify(rows[table].slice(0, 3))}`);
  }
  return found;
}

const TERMINAL = new Set(['Completed', 'Failed', 'Cancelled', 'Terminated']);
const STATUSES = new Set([...TERMINAL, 'Pending', 'Running', 'Suspended']);

/** Kinds of events after which an activity, a child or a timer is over. */
const SETTLES = new Set([
  'ActivityCompleted',
  'ActivityFailed',
  'TimerFired',
  'ChildCompleted',
  'ChildFailed',
  'OperationRefused',
  'OperationCancelled',
]);

/** The place of an instance, or an attempt, that has a slot. */
const SLOT = 2;

const CHILD_ENDS = new Set(['ChildCompleted', 'ChildFailed']);

/** Indexes of the rows by the instance that they belong to. */
class Store {
  readonly rows: StoreRows;
  readonly instances = new Map<number, InstanceRow>();
  readonly workers: ReadonlySet<string>;
  /** Instances that have a place in a queue and no slot. */
  readonly inLine: ReadonlySet<number | null>;
  readonly #messages: ReadonlyMap<number, MessageRow[]>;
  /** By instance, then by execution. */
  readonly #history = new Map<number, Map<number, EventRow[]>>();
  readonly #tasks: ReadonlySet<string>;

  constructor(rows: StoreRows) {
    this.rows = rows;
    for (const instance of rows.instances) this.instances.set(instance.key, instance);
    this.workers = new Set(rows.workers.map(({ id }) => id));
    this.inLine = new Set(rows.places.flatMap(({ key, place }) => (place === SLOT ? [] : [key])));
    this.#messages = groupBy(rows.messages, (message) => message.instance_key);
    for (const [key, events] of groupBy(rows.history, (event) => event.instance_key)) {
      this.#history.set(
        key,
        groupBy(events, (event) => event.execution),
      );
    }
    this.#tasks = new Set(rows.tasks.map((task) => placeOf(task.instance_key, task.execution, task.event_id)));
  }

  messages(key: number): readonly MessageRow[] {
    return this.#messages.get(key) ?? [];
  }

  executions(key: number): ReadonlyMap<number, readonly EventRow[]> {
    return this.#history.get(key) ?? new Map();
  }

  events(key: number, execution: number): readonly EventRow[] {
    return this.executions(key).get(execution) ?? [];
  }

  isOffered(key: number, execution: number, event: number): boolean {
    return this.#tasks.has(placeOf(key, execution, event));
  }

  /** Returns true if a message carries the result of an operation of an execution. */
  isTold(key: number, execution: number, event: number): boolean {
    return this.messages(key).some((message) => message.execution === execution && message.ref_id === event);
  }
}

export function groupBy<K, V>(values: readonly V[], keyOf: (value: V) => K): Map<K, V[]> {
  const groups = new Map<K, V[]>();
  for (const value of values) {
    const group = groups.get(keyOf(value));
    if (group === undefined) groups.set(keyOf(value), [value]);
    else group.push(value);
  }
  return groups;
}

function placeOf(key: number, execution: number, event: number): string {
  return `${key} ${execution} ${event}`;
}

function isEnded(instance: InstanceRow): boolean {
  return TERMINAL.has(instance.status);
}

/** Returns the open operations of one kind. */
function open(events: readonly EventRow[], kind: string): EventRow[] {
  const settled = new Set(events.filter((event) => SETTLES.has(event.kind)).map((event) => event.ref_id));
  return events.filter((event) => event.kind === kind && !settled.has(event.event_id));
}

/** S20: every row belongs to an instance or worker that exists and still needs it. */
function orphans(store: Store): string[] {
  const found: string[] = [];
  const swept = new Set(store.rows.deleted.map(({ key }) => key));
  const gone = new Set(
    store.rows.history.map((event) => event.instance_key).filter((key) => !store.instances.has(key) && !swept.has(key)),
  );
  for (const key of gone) found.push(`there are events of instance ${key}, which is not there`);
  for (const key of swept) if (store.instances.has(key)) found.push(`instance ${key} is there and is to be swept away`);
  for (const { instance_key: key, kind } of store.rows.messages) {
    const instance = store.instances.get(key);
    if (instance === undefined) found.push(`a message (${kind}) waits for instance ${key}, which is not there`);
    else if (isEnded(instance)) found.push(`a message (${kind}) waits for '${instance.id}', which has ended`);
  }
  const needless = (what: string, key: number, execution: number, scheduled: number) => {
    const instance = store.instances.get(key);
    const at = `a ${what} of event ${scheduled} of ${instance === undefined ? `instance ${key}` : `'${instance.id}'`}`;
    if (instance === undefined) found.push(`${at} is left, and the instance is gone`);
    else if (isEnded(instance)) found.push(`${at} is left, and the instance has ended`);
    else if (execution !== instance.execution)
      found.push(`${at} is left of execution ${execution}, and ${instance.execution} runs`);
    else if (!open(store.events(key, execution), 'ActivityScheduled').some((event) => event.event_id === scheduled)) {
      found.push(`${at} is left, and that is no open activity`);
    }
  };
  for (const task of store.rows.tasks) {
    needless('task', task.instance_key, task.execution, task.event_id);
    if (task.owner !== null && !store.workers.has(task.owner)) {
      found.push(`a task of instance ${task.instance_key} is owned by ${task.owner}, which is not registered`);
    }
    if (store.isTold(task.instance_key, task.execution, task.event_id)) {
      found.push(
        `event ${task.event_id} of instance ${task.instance_key} is offered although the end of its attempt waits`,
      );
    }
  }
  for (const { worker, instance_key: key } of store.rows.revocations) {
    if (!store.workers.has(worker))
      found.push(`worker ${worker} is to hear that it has lost instance ${key}, and is gone`);
  }
  // The place of an instance that has a slot is swept by the next pass over its queue.
  for (const { key, queue, place } of store.rows.places) {
    if (key === null || place === SLOT) continue;
    const instance = store.instances.get(key);
    if (instance === undefined) found.push(`instance ${key} is in line in '${queue}', and is gone`);
    else if (instance.epoch > 0 || isEnded(instance))
      found.push(`'${instance.id}' is ${instance.status} in the epoch ${instance.epoch}, and in line in '${queue}'`);
  }
  for (const beat of store.rows.heartbeats) needless('heartbeat', beat.instance_key, beat.execution, beat.event_id);
  return found;
}

/** S7 to S9: the row of an instance agrees with itself, with the workers and with the waiting messages. */
function columns(store: Store, instance: InstanceRow): string[] {
  const { id, status, owner, epoch, wake_at: wakeAt, turns, execution } = instance;
  const found: string[] = [];
  const isActive = status === 'Pending' || status === 'Running';
  if (!STATUSES.has(status)) found.push(`'${id}' has the status ${status}`);
  if (isEnded(instance) !== (instance.completed_at !== null))
    found.push(`'${id}' is ${status} and completed_at is ${instance.completed_at}`);
  if ((status === 'Suspended') !== (instance.report !== null))
    found.push(`'${id}' is ${status} and its report is ${instance.report}`);
  if (owner !== null && !isActive) found.push(`'${id}' is ${status} and owned by ${owner}`);
  if (owner !== null && !store.workers.has(owner)) found.push(`'${id}' is owned by ${owner}, which is not registered`);
  if (wakeAt !== null && !isActive) found.push(`'${id}' is ${status} and due at ${wakeAt}`);
  if (instance.start_at !== null && status !== 'Suspended')
    found.push(`'${id}' is ${status} and keeps the start time ${instance.start_at}`);
  if (wakeAt !== null && owner !== null) found.push(`'${id}' is owned and due at ${wakeAt}`);
  if (epoch < 0) found.push(`'${id}' has the epoch ${epoch}`);
  if (epoch === 0 && (owner !== null || turns > 0 || execution > 1))
    found.push(`'${id}' has the epoch 0 and was acquired`);
  const waiting = store.messages(instance.key).length;
  if (instance.unread !== waiting) found.push(`'${id}' counts ${instance.unread} messages and has ${waiting}`);
  return found;
}

/** S3, S4, S7, S16: the histories of all executions agree with the row. */
function histories(store: Store, instance: InstanceRow): string[] {
  const { key, id, execution, status } = instance;
  const found: string[] = [];
  const executions = [...store.executions(key).keys()];
  const first = Math.min(...executions);
  // Former executions may have been pruned, the oldest first.
  if (executions.length !== execution - first + 1 || !executions.includes(execution)) {
    found.push(`'${id}' is in execution ${execution} and has the histories of ${executions.join(', ') || 'none'}`);
  }
  for (const [number, events] of store.executions(key)) {
    const standing = number < execution ? 'ContinuedAsNew' : status;
    const told = historyViolations(events.map(asEvent), standing as Parameters<typeof historyViolations>[1]);
    found.push(...told.map((violation) => `'${id}', execution ${number}: ${violation}`));
  }
  const last = store.events(key, execution).at(-1)?.event_id ?? 0;
  if (instance.next_event_id !== last + 1)
    found.push(`the next event of '${id}' is ${instance.next_event_id} and its last one ${last}`);
  return found;
}

function asEvent({ event_id: eventId, kind, ref_id: refId, time }: EventRow): HistoryEvent {
  return { eventId, kind: kind as HistoryEvent['kind'], time: new Date(time), ...(refId === null ? {} : { refId }) };
}

/** S12: no timer fires before its time. */
function early(store: Store, { key, id, execution }: InstanceRow): string[] {
  const events = store.events(key, execution);
  return events.flatMap((event) => {
    if (event.kind !== 'TimerFired') return [];
    const timer = events.find(({ event_id }) => event_id === event.ref_id);
    const due = (JSON.parse(timer?.meta ?? '{}') as { fireAtMs?: number }).fireAtMs ?? Infinity;
    return event.time < due ? [`a timer of '${id}' fired ${due - event.time} ms early`] : [];
  });
}

/** S15: each child is one that its parent asked for, and is told to end when the parent no longer waits for it. */
function parentOf(store: Store, child: InstanceRow): string[] {
  const { key, id, parent_key: parentKey, parent_execution: execution, parent_event: event } = child;
  if (parentKey === null || execution === null || event === null) return [];
  const found: string[] = [];
  const parent = store.instances.get(parentKey);
  if (parent !== undefined) {
    if (parent.id !== child.parent_id)
      found.push(`'${id}' is a child of '${child.parent_id}' and its parent's key is that of '${parent.id}'`);
    const asked = store.events(parentKey, execution).find(({ event_id }) => event_id === event);
    const wanted = (JSON.parse(asked?.meta ?? '{}') as { id?: string }).id;
    const isPruned = asked === undefined && execution < parent.execution;
    if (!isPruned && (asked?.kind !== 'ChildScheduled' || wanted !== id))
      found.push(`'${parent.id}' did not ask for its child '${id}' with event ${event}`);
  }
  const isAwaited =
    parent !== undefined &&
    !isEnded(parent) &&
    parent.execution === execution &&
    open(store.events(parentKey, execution), 'ChildScheduled').some(({ event_id }) => event_id === event);
  const isCancelled =
    store.messages(key).some(({ kind }) => kind === 'Cancel') ||
    [...store.executions(key).values()].flat().some(({ kind }) => kind === 'CancelRequested');
  if (!isAwaited && !isEnded(child) && !isCancelled)
    found.push(`'${id}' runs on although '${child.parent_id}' does not wait for it any more`);
  return found;
}

/**
 * S15, S20: each child that an instance waits for is running, or exactly one message with its result waits to be read.
 */
function childrenOf(store: Store, parent: InstanceRow): string[] {
  const { key, id, execution } = parent;
  if (isEnded(parent)) return [];
  const found: string[] = [];
  const events = store.events(key, execution);
  for (const { event_id: event } of open(events, 'ChildScheduled')) {
    const runs = store.rows.instances.some(
      (child) =>
        child.parent_key === key &&
        child.parent_execution === execution &&
        child.parent_event === event &&
        !isEnded(child),
    );
    if (!runs && !store.isTold(key, execution, event))
      found.push(`'${id}' waits for the child of event ${event}, which is neither there nor told of`);
  }
  const told = new Set(events.filter(({ kind }) => CHILD_ENDS.has(kind)).map((end) => end.ref_id));
  for (const message of store.messages(key)) {
    if (message.execution !== execution || message.ref_id === null || !message.kind.startsWith('Child')) continue;
    if (told.has(message.ref_id)) found.push(`'${id}' is told twice of the child of event ${message.ref_id}`);
    told.add(message.ref_id);
  }
  return found;
}

/**
 * S20: an instance without an owner is woken by its time, by the end of an activity that is offered, or by a message.
 * Any instance may wait for a message to a mailbox, which leaves no trace, so the check is that none of its operations
 * is lost.
 */
function waits(store: Store, instance: InstanceRow): string[] {
  const { key, id, execution, status, owner, wake_at: wakeAt } = instance;
  if (owner !== null || wakeAt !== null) return [];
  if (store.inLine.has(key)) return [];
  if (status === 'Pending') return [`'${id}' is Pending, unowned and never due`];
  if (status !== 'Running') return [];
  const lost = open(store.events(key, execution), 'ActivityScheduled').filter(
    ({ event_id: event }) => !store.isOffered(key, execution, event) && !store.isTold(key, execution, event),
  );
  return lost.map(({ event_id: event }) => `'${id}' sleeps, and nobody runs the activity of event ${event}`);
}

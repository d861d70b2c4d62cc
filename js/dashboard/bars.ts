// The bars of a timeline: the operations of a history in rows, each from its beginning to its end.
//
// A fiber takes as many rows as it has operations at the same time: `all` over three activities takes three rows of one
// fiber, `all` over three blocks takes a row of each of three fibers. The main fiber has the uppermost rows. Another
// fiber shares its rows with fibers that began after its end.

import type { DrawnTakeover, EventRow } from './answers.ts';

export type BarKind = 'execution' | 'activity' | 'retry' | 'timer' | 'wait' | 'child' | 'takeover' | 'other';
export type BarState = 'ok' | 'failed' | 'cancelled' | 'open';

export interface Bar {
  readonly kind: BarKind;
  state: BarState;
  /** Name of the orchestration, activity, child, event or queue. */
  readonly label: string;
  /** Number of the fiber that requested the operation, or waited; 0 is the main one. */
  readonly fiber: number;
  /** Index in `Bars.rows`. It changes when a fiber above needs more rows. */
  row: number;
  readonly fromMs: number;
  /** End of the bar; `undefined` while the bar is open. */
  toMs: number | undefined;
  /** The event that began the bar; for a wait the event that ended it. */
  readonly event: number;
  /** The event that ended the bar, if that is another one. */
  endEvent?: number;
  /** Number of the attempt, from 1. */
  readonly attempt?: number;
  /** Time at which a timer fires, ms since 1970. */
  readonly dueMs?: number;
  /** Id of the child. */
  readonly instance?: string;
}

/** Returns the bar of a takeover, which is a moment. No row of a fiber has it. */
export function takeoverBar({ atMs, eventId, worker }: DrawnTakeover): Bar {
  const label = `worker ${worker} died`;
  return { kind: 'takeover', state: 'failed', label, fiber: 0, row: 0, fromMs: atMs, toMs: atMs, event: eventId };
}

/** An operation that has begun and not ended. */
interface Open {
  bar: Bar;
  /** Index of the row within its fiber. */
  readonly row: number;
}

/** The state of an execution's bar after each event that ends it. */
const ENDS: Readonly<Record<string, BarState>> = {
  ExecutionCompleted: 'ok',
  ExecutionContinuedAsNew: 'ok',
  ExecutionFailed: 'failed',
  ExecutionCancelled: 'cancelled',
  ExecutionTerminated: 'cancelled',
};

/** The rows of one fiber: each bar is in the uppermost row that was free. */
class FiberRows {
  /** The bars of each row, in order of time. */
  readonly rows: Bar[][] = [];
  /** The time until which each row is taken; `Infinity` while its last bar is open. */
  readonly takenUntil: number[] = [];
  #lowestFree = 0;

  /** Beginning of the fiber's first bar. */
  get fromMs(): number {
    return this.rows[0]?.[0]?.fromMs ?? 0;
  }

  /** Returns the uppermost row that has been free since `sinceMs`. */
  free(sinceMs: number): number {
    let row = this.#lowestFree;
    const isFree = (row: number): boolean => (this.takenUntil[row] ?? -Infinity) <= sinceMs;
    while (!isFree(row)) row += 1;
    // `#lowestFree` skips only rows with an open bar. Any other row above may be free for a later bar.
    while (this.takenUntil[this.#lowestFree] === Infinity) this.#lowestFree += 1;
    return row;
  }

  add(row: number, bar: Bar): void {
    while (this.rows.length <= row) this.rows.push([]);
    this.rows[row]?.push(bar);
    this.takenUntil[row] = bar.toMs ?? Infinity;
  }

  /** Marks a row as free from `atMs` on. */
  end(row: number, atMs: number): void {
    this.takenUntil[row] = atMs;
    this.#lowestFree = Math.min(this.#lowestFree, row);
  }
}

export class Bars {
  #execution: Bar | undefined;
  /** The fibers in the order in which they began, the main one first. */
  readonly #fibers = new Map([[0, new FiberRows()]]);
  readonly #open = new Map<number, Open>();
  readonly #byEvent = new Map<number, Bar[]>();
  #lastMs = 0;
  /** The arranged rows, until a bar is added or ends. */
  #rows: Bar[][] | undefined;
  count = 0;
  hasChildren = false;

  /** The bars by row, each row in order of time. The first row is the execution. */
  get rows(): readonly (readonly Bar[])[] {
    return (this.#rows ??= this.#arrange());
  }

  /** The bars of each operation in order of time, by the event that began it. The first is the execution. */
  get byEvent(): ReadonlyMap<number, readonly Bar[]> {
    return this.#byEvent;
  }

  /** Beginning of the timeline, ms since 1970. */
  get fromMs(): number {
    return this.#execution?.fromMs ?? 0;
  }

  /** Time of the last recorded event, ms since 1970. */
  get lastMs(): number {
    return this.#lastMs;
  }

  /** True while the execution has not ended. */
  get isOpen(): boolean {
    return this.#execution?.toMs === undefined;
  }

  /** True while no recorded operation is open: the execution then waits for a message, or for a worker. */
  get isWaiting(): boolean {
    return this.isOpen && this.#open.size === 0;
  }

  /** Adds the next event of the history. */
  add(event: EventRow): void {
    const { id, atMs, kind, name = '', title = name } = event;
    const before = this.#lastMs;
    this.#rows = undefined;
    // The clock of a machine may be set back. The timeline never goes back.
    this.#lastMs = Math.max(before, atMs);
    const end = ENDS[kind];
    if (end !== undefined) return this.#endAll(id, end);
    switch (kind) {
      case 'ExecutionStarted':
        return this.#beginExecution(event);
      case 'ActivityScheduled':
        return this.#begin('activity', event, title, 1);
      case 'ActivityAttemptFailed':
        return this.#retry(event);
      case 'TimerCreated':
        return this.#begin('timer', event, 'timer');
      case 'ChildScheduled':
        this.hasChildren = true;
        return this.#begin('child', event, name);
      case 'ActivityCompleted':
      case 'TimerFired':
      case 'ChildCompleted':
        return this.#end(event, 'ok');
      case 'ActivityFailed':
      case 'ChildFailed':
        return this.#end(event, 'failed');
      case 'OperationCancelled':
        return this.#end(event, 'cancelled');
      case 'EventReceived':
      case 'QueueReceived':
        return this.#addWait(event, title, before);
      case 'EventSent':
      case 'QueueSent':
      case 'InstanceStarted':
      case 'CancelRequested':
      case 'PatchApplied':
      case 'EventAbsent':
      case 'QueueEmpty':
        return this.#addMoment(event);
      default:
    }
  }

  #beginExecution({ id, atMs, name = '' }: EventRow): void {
    this.#lastMs = atMs;
    this.#execution = {
      kind: 'execution',
      state: 'open',
      label: name,
      fiber: 0,
      row: 0,
      fromMs: atMs,
      toMs: undefined,
      event: id,
    };
    this.#byEvent.set(id, [this.#execution]);
    this.count += 1;
  }

  /**
   * Adds a wait for a message. The history does not record the beginning of the wait. The fiber waited at least since
   * the previous event.
   */
  #addWait({ id, fiber = 0 }: EventRow, label: string, beforeMs: number): void {
    this.#add({
      kind: 'wait',
      state: 'ok',
      label,
      fiber,
      row: 0,
      fromMs: beforeMs,
      toMs: this.#lastMs,
      event: id,
    });
  }

  /** Adds an event without a duration. */
  #addMoment({ id, kind, name = '', title = name, fiber = 0 }: EventRow): void {
    this.#add({
      kind: 'other',
      state: kind === 'CancelRequested' ? 'cancelled' : 'ok',
      label: title || 'cancel requested',
      fiber,
      row: 0,
      fromMs: this.#lastMs,
      toMs: this.#lastMs,
      event: id,
    });
  }

  #begin(kind: BarKind, { id, fiber = 0, untilMs, instance }: EventRow, label: string, attempt?: number): void {
    const bar: Bar = {
      kind,
      state: 'open',
      label,
      fiber,
      row: 0,
      fromMs: this.#lastMs,
      toMs: undefined,
      event: id,
      ...(attempt === undefined ? {} : { attempt }),
      ...(untilMs === undefined ? {} : { dueMs: untilMs }),
      ...(instance === undefined ? {} : { instance }),
    };
    this.#open.set(id, { bar, row: this.#add(bar) });
  }

  /** Ends an attempt, and begins the next one at the end of its delay. */
  #retry({ id, ref, attempt = 1, untilMs = this.#lastMs }: EventRow): void {
    const open = this.#open.get(ref ?? 0);
    if (open === undefined) return;
    const { bar, row } = open;
    bar.state = 'failed';
    bar.toMs = this.#lastMs;
    bar.endEvent = id;
    const until = Math.max(untilMs, this.#lastMs);
    const { label, fiber, event } = bar;
    const again: Bar = {
      kind: 'activity',
      state: 'open',
      label,
      fiber,
      row: 0,
      fromMs: until,
      toMs: undefined,
      event,
      attempt: attempt + 1,
    };
    this.#add(
      {
        kind: 'retry',
        state: 'ok',
        label: `retry delay of ${label}`,
        fiber,
        row: 0,
        fromMs: this.#lastMs,
        toMs: until,
        event,
      },
      row,
    );
    this.#add(again, row);
    open.bar = again;
  }

  #end({ id, ref = 0 }: Pick<EventRow, 'id' | 'ref'>, state: BarState): void {
    const open = this.#open.get(ref);
    if (open === undefined) return;
    const { bar, row } = open;
    this.#open.delete(ref);
    bar.state = state;
    bar.endEvent = id;
    // An activity that was cancelled during its delay did not run again.
    bar.toMs = Math.max(this.#lastMs, bar.fromMs);
    this.#of(bar.fiber).end(row, this.#lastMs);
  }

  #endAll(id: number, state: BarState): void {
    for (const ref of [...this.#open.keys()]) this.#end({ id, ref }, 'cancelled');
    const execution = this.#execution;
    if (execution === undefined) return;
    execution.state = state;
    execution.toMs = this.#lastMs;
    execution.endEvent = id;
  }

  /** Puts a bar into the given row of its fiber, or into the uppermost free one. Returns the row. */
  #add(bar: Bar, given?: number): number {
    const rows = this.#of(bar.fiber);
    const row = given ?? rows.free(bar.fromMs);
    rows.add(row, bar);
    const same = this.#byEvent.get(bar.event);
    if (same === undefined) this.#byEvent.set(bar.event, [bar]);
    else same.push(bar);
    this.count += 1;
    return row;
  }

  #of(fiber: number): FiberRows {
    let rows = this.#fibers.get(fiber);
    if (rows === undefined) this.#fibers.set(fiber, (rows = new FiberRows()));
    return rows;
  }

  /** Arranges all rows: each fiber gets the uppermost adjacent rows that are free from its beginning on. */
  #arrange(): Bar[][] {
    const all: Bar[][] = [this.#execution === undefined ? [] : [this.#execution]];
    const takenUntil = [Infinity];
    let lowestFree = 1;
    for (const [fiber, { rows, takenUntil: until, fromMs }] of this.#fibers) {
      while (takenUntil[lowestFree] === Infinity) lowestFree += 1;
      let first = lowestFree;
      for (let row = first; row < first + rows.length; row += 1) {
        if ((takenUntil[row] ?? -Infinity) > fromMs) first = row + 1;
      }
      for (const [i, bars] of rows.entries()) {
        const row = first + i;
        // The main fiber keeps its rows until the end.
        takenUntil[row] = fiber === 0 ? Infinity : (until[i] ?? Infinity);
        const there = (all[row] ??= []);
        for (const bar of bars) {
          bar.row = row;
          there.push(bar);
        }
      }
    }
    return all;
  }
}

/** Returns the index of the first bar of a row that ends at that time or later, by bisection. */
export function firstAt(row: readonly Bar[], atMs: number): number {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((row[middle]?.toMs ?? Infinity) < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

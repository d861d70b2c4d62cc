// The picture of a history: what went on from when to when, in rows.
//
// A history says in which order fibers asked for things, not which fiber it was. So a row is not a fiber but the least that fibers can be: what
// overlaps in time is in different rows, and what begins when another thing has ended takes the uppermost row that is free. Code that does one thing
// after the other is one row; `all` over three branches is three.

import type { EventRow } from './answers.ts';

export type BarKind = 'execution' | 'activity' | 'retry' | 'timer' | 'wait' | 'child' | 'other';
export type BarState = 'ok' | 'failed' | 'cancelled' | 'open';

export interface Bar {
  readonly kind: BarKind;
  state: BarState;
  readonly label: string;
  readonly row: number;
  readonly fromMs: number;
  /** `undefined` while it goes on. */
  toMs: number | undefined;
  /** The event that it began with; of a wait the one that ended it. */
  readonly event: number;
  /** The event that ended it, where that is another one. */
  endEvent?: number;
  /** Which attempt, from 1. */
  readonly attempt?: number;
}

/** What has begun and not ended. */
interface Open {
  bar: Bar;
  readonly row: number;
}

/** How executions end. */
const ENDS: Readonly<Record<string, BarState>> = {
  ExecutionCompleted: 'ok',
  ExecutionContinuedAsNew: 'ok',
  ExecutionFailed: 'failed',
  ExecutionCancelled: 'cancelled',
  ExecutionTerminated: 'cancelled',
};

export class Bars {
  /** By row, each in order of time. The first row is the execution. */
  readonly rows: Bar[][] = [[]];
  readonly #open = new Map<number, Open>();
  /** Of each row: until when it is taken; `Infinity` while something goes on there. */
  readonly #takenUntil: number[] = [Infinity];
  #lowestFree = 1;
  #lastMs = 0;
  count = 0;
  hasChildren = false;

  /** Where the picture begins, ms since 1970. */
  get fromMs(): number {
    return this.rows[0]?.[0]?.fromMs ?? 0;
  }

  /** The last that is recorded. */
  get lastMs(): number {
    return this.#lastMs;
  }

  /** Whether the execution has not ended. */
  get isOpen(): boolean {
    return this.rows[0]?.[0]?.toMs === undefined;
  }

  /** Whether nothing goes on that is recorded: then it waits for a message, or for a worker. */
  get isWaiting(): boolean {
    return this.isOpen && this.#open.size === 0;
  }

  /** The next event of the history. */
  add(event: EventRow): void {
    const { id, atMs, kind, name = '' } = event;
    const before = this.#lastMs;
    // The clock of a machine may be set back; the picture goes on.
    this.#lastMs = Math.max(before, atMs);
    const end = ENDS[kind];
    if (end !== undefined) return this.#endAll(id, end);
    switch (kind) {
      case 'ExecutionStarted':
        this.#lastMs = atMs;
        this.#push({ kind: 'execution', state: 'open', label: name, row: 0, fromMs: atMs, toMs: undefined, event: id });
        return;
      case 'ActivityScheduled':
        return this.#begin('activity', event, name, 1);
      case 'ActivityAttemptFailed':
        return this.#retry(event);
      case 'TimerCreated':
        return this.#begin('timer', event, 'timer');
      case 'ChildScheduled':
        this.hasChildren = true;
        return this.#begin('child', event, `${name} ${event.instance ?? ''}`);
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
      case 'QueueReceived': {
        // Since when it was awaited is not recorded; since the last event before it was for certain.
        const row = this.#rowFree(before);
        this.#push({ kind: 'wait', state: 'ok', label: name, row, fromMs: before, toMs: this.#lastMs, event: id });
        this.#takenUntil[row] = this.#lastMs;
        return;
      }
      case 'EventSent':
      case 'QueueSent':
      case 'InstanceStarted':
      case 'CancelRequested':
      case 'PatchApplied': {
        const row = this.#rowFree(this.#lastMs);
        const state = kind === 'CancelRequested' ? 'cancelled' : 'ok';
        this.#push({ kind: 'other', state, label: name || 'cancel requested', row, fromMs: this.#lastMs, toMs: this.#lastMs, event: id });
        this.#takenUntil[row] = this.#lastMs;
        return;
      }
      default:
    }
  }

  #begin(kind: BarKind, { id }: EventRow, label: string, attempt?: number): void {
    const row = this.#rowFree(this.#lastMs);
    this.#takenUntil[row] = Infinity;
    const bar: Bar = { kind, state: 'open', label, row, fromMs: this.#lastMs, toMs: undefined, event: id, ...(attempt === undefined ? {} : { attempt }) };
    this.#push(bar);
    this.#open.set(id, { bar, row });
  }

  /** An attempt is over, and the next one begins when its delay is. */
  #retry({ id, ref, attempt = 1, untilMs = this.#lastMs }: EventRow): void {
    const open = this.#open.get(ref ?? 0);
    if (open === undefined) return;
    const { bar, row } = open;
    bar.state = 'failed';
    bar.toMs = this.#lastMs;
    bar.endEvent = id;
    const until = Math.max(untilMs, this.#lastMs);
    const { label, event } = bar;
    this.#push({ kind: 'retry', state: 'ok', label: `waits to try ${label} again`, row, fromMs: this.#lastMs, toMs: until, event });
    open.bar = { kind: 'activity', state: 'open', label, row, fromMs: until, toMs: undefined, event, attempt: attempt + 1 };
    this.#push(open.bar);
  }

  #end({ id, ref = 0 }: Pick<EventRow, 'id' | 'ref'>, state: BarState): void {
    const open = this.#open.get(ref);
    if (open === undefined) return;
    this.#open.delete(ref);
    open.bar.state = state;
    open.bar.endEvent = id;
    // An activity that was given up in its delay did not run again.
    open.bar.toMs = Math.max(this.#lastMs, open.bar.fromMs);
    this.#takenUntil[open.row] = this.#lastMs;
    this.#lowestFree = Math.min(this.#lowestFree, open.row);
  }

  #endAll(id: number, state: BarState): void {
    for (const ref of [...this.#open.keys()]) this.#end({ id, ref }, 'cancelled');
    const execution = this.rows[0]?.[0];
    if (execution === undefined) return;
    execution.state = state;
    execution.toMs = this.#lastMs;
    execution.endEvent = id;
  }

  /** The uppermost row that has been free since then. */
  #rowFree(sinceMs: number): number {
    let row = this.#lowestFree;
    const isFree = (row: number): boolean => (this.#takenUntil[row] ?? -Infinity) <= sinceMs;
    while (!isFree(row)) row += 1;
    // Rows above it may be free later, if not since then.
    while (this.#takenUntil[this.#lowestFree] === Infinity) this.#lowestFree += 1;
    return row;
  }

  #push(bar: Bar): void {
    while (this.rows.length <= bar.row) this.rows.push([]);
    this.rows[bar.row]?.push(bar);
    this.count += 1;
  }
}

/** The first bar of a row that ends at that time or later, by bisection. */
export function firstAt(row: readonly Bar[], atMs: number): number {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((row[middle]?.toMs ?? Infinity) < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

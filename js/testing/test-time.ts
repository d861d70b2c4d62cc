// The time of a test runtime: all work goes on as far as it can, and only then the clock moves.
//
// Invariants:
//
//   T1. The clock moves only when all is at rest: no job waits for a lane, no reply for its client, nothing in the
//       addon can go on, and no activity is at work. So the effects of one timer are over before the next timer is due.
//   T2. The clock moves to the next due time and no further, however far it is to go in the end.
//   T3. The clock moves by itself only while an instance is awaited, and only after a round of the event loop in which
//       the test could make another request.
//   T4. Between two looks nothing is polled: each possible change calls `stir`.

import type { NativeTestStore } from '../binding/native-classes.ts';
import type { Abandonable } from '../util/abort.ts';
import type { Timer, Timers } from '../util/timers.ts';

/** The facts about a test runtime that its time needs. */
export interface TimeHost {
  /** Does all work that is possible in the addon. Returns true if no work waits for this thread either. */
  settle(): boolean;
  /** Returns the time of the addon's next timer, ms since 1970. */
  nextDueMs(): number | null;
  /** Returns true if an activity is at work, which may take its time. */
  isBusy(): boolean;
  /** Returns true if an instance is awaited. */
  isAwaited(): boolean;
  /** Called after the patience, when a wait cannot end: all is at rest, or an activity stays at work. */
  stuck(): void;
}

/** A wait for time itself. */
interface TimeWaiter {
  resolve(): void;
  reject(error: Error): void;
}

/** The target of `advance`. */
interface AdvanceTarget extends TimeWaiter {
  readonly atMs: number;
}

/** A timer by this clock. */
interface TestTimer extends Timer {
  atMs: number;
  readonly number: number;
  readonly then: () => void;
}

// Captured at import: a test may have fake timers.
const later = setImmediate;
const start = setTimeout;
const stop = clearTimeout;

export class TestTime implements Timers {
  private readonly native: NativeTestStore;
  private readonly host: TimeHost;
  private readonly skips: boolean;
  private readonly patienceMs: number;
  private readonly due = new Set<TestTimer>();
  private timers = 0;
  private target: AdvanceTarget | null = null;
  /** The waits until all is at rest. */
  private resting: TimeWaiter[] = [];
  private isStirred = false;
  private isOver = false;
  private patience: NodeJS.Timeout | undefined;

  constructor(native: NativeTestStore, host: TimeHost, skips: boolean, patienceMs: number) {
    this.native = native;
    this.host = host;
    this.skips = skips;
    this.patienceMs = patienceMs;
  }

  get nowMs(): number {
    return this.native.nowMs();
  }

  /** Time of the next timer that is due, ms since 1970. */
  get nextDueMs(): number | null {
    const own = this.first()?.atMs;
    const native = this.host.nextDueMs();
    return own === undefined ? native : Math.min(own, native ?? own);
  }

  after(ms: number, then: () => void): Timer {
    this.timers += 1;
    const due: TestTimer = {
      atMs: this.nowMs + ms,
      number: this.timers,
      then,
      refresh: () => {
        due.atMs = this.nowMs + ms;
      },
      clear: () => {
        this.due.delete(due);
      },
    };
    this.due.add(due);
    this.stir();
    return due;
  }

  /** Notes that some work may be able to go on. */
  stir(): void {
    stop(this.patience);
    if (this.isStirred || this.isOver) return;
    this.isStirred = true;
    later(this.look);
  }

  /** Sets the clock forward, step by step. A clock that is abandoned stands where it is. */
  advance(toMs: number): Abandonable<void> {
    let target: AdvanceTarget | undefined;
    const reply = new Promise<void>((resolve, reject) => {
      target = { atMs: toMs, resolve, reject };
      this.target = target;
      this.stir();
    });
    const abandon = (): void => {
      if (this.target === target) this.target = null;
      this.stir();
    };
    return { reply, abandon };
  }

  /** True while the clock is being advanced. */
  get isAdvancing(): boolean {
    return this.target !== null;
  }

  /** Rejects the waits of `advance` and `rest`, which cannot end. Returns true if there were any. */
  giveUp(error: Error): boolean {
    const waiting = this.takeWaiting();
    for (const { reject } of waiting) reject(error);
    return waiting.length > 0;
  }

  /** Resolves once all is at rest. */
  rest(): Abandonable<void> {
    let waiter: TimeWaiter | undefined;
    const reply = new Promise<void>((resolve, reject) => {
      waiter = { resolve, reject };
      this.resting.push(waiter);
      this.stir();
    });
    const abandon = (): void => {
      this.resting = this.resting.filter((other) => other !== waiter);
      this.stir();
    };
    return { reply, abandon };
  }

  /** Ends time: the clock and the timers do not move any more. */
  end(error: Error): void {
    this.isOver = true;
    stop(this.patience);
    this.due.clear();
    this.giveUp(error);
    this.native.close();
  }

  private readonly look = (): void => {
    this.isStirred = false;
    if (this.isOver) return;
    // Work in progress arrives through the event loop, before the next look.
    if (!this.host.settle()) this.stir();
    else if (!this.host.isBusy()) this.atRest();
    else if (this.target !== null || this.resting.length > 0) this.wait();
  };

  private atRest(): void {
    const { target, resting } = this;
    this.resting = [];
    for (const { resolve } of resting) resolve();
    // These waits come first, and their code may make requests.
    if (resting.length > 0) return this.stir();
    const next = this.nextDueMs;
    if (target !== null) {
      if (next !== null && next <= target.atMs) return this.leap(next);
      this.target = null;
      this.leap(target.atMs);
      target.resolve();
    } else if (this.host.isAwaited()) {
      if (next !== null && this.skips) this.leap(next);
      else this.wait();
    }
  }

  private leap(toMs: number): void {
    this.native.set(toMs);
    for (let due = this.first(); due !== undefined && due.atMs <= toMs; due = this.first()) {
      this.due.delete(due);
      due.then();
    }
    this.stir();
  }

  /** Waits for a `stir`; reports a stuck test after the patience. */
  private wait(): void {
    this.patience = start(() => this.host.stuck(), this.patienceMs);
  }

  private takeWaiting(): TimeWaiter[] {
    const waiting = this.target === null ? this.resting : [...this.resting, this.target];
    this.target = null;
    this.resting = [];
    return waiting;
  }

  private first(): TestTimer | undefined {
    let first: TestTimer | undefined;
    for (const due of this.due) {
      if (first === undefined || due.atMs < first.atMs || (due.atMs === first.atMs && due.number < first.number))
        first = due;
    }
    return first;
  }
}

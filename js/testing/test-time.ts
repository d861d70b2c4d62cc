// The time of a test runtime: everything goes on as far as it can, and only then the clock does.
//
// Invariants:
//
//   T1. The clock moves only when all is at rest: no job waits for a lane, no reply for its client, nothing in the addon can go on, and no activity
//       is at work. So what something causes is over before the next thing is due.
//   T2. It moves to what is due next and no further, however far it is to go in the end.
//   T3. It moves by itself only while somebody waits for an instance, and has been given the time of the event loop to ask for something else first.
//   T4. Between two looks nothing is polled: whatever could have changed anything stirs.

import type { NativeTestStore } from '../binding/binding.ts';
import type { Timer, Timers } from '../util/timers.ts';

/** What time has to know of what goes on in it. */
export interface TimeHost {
  /** Let everything go on that can in the addon. True: and nothing waits for this thread. */
  settle(): boolean;
  /** When the addon's next timer is due, ms since 1970. */
  nextDueMs(): number | null;
  /** Whether an activity is at work, which may take its time. */
  isBusy(): boolean;
  /** Whether somebody waits for an instance. */
  isAwaited(): boolean;
  /** All is at rest, and somebody waits for what does not come. */
  stuck(): void;
}

/** Somebody who waits for time itself. */
interface Waiting {
  resolve(): void;
  reject(error: Error): void;
}

/** Where `advance` goes. */
interface Goal extends Waiting {
  readonly atMs: number;
}

/** A timer by this clock. */
interface Due extends Timer {
  atMs: number;
  readonly number: number;
  readonly then: () => void;
}

// Taken now: a test may have fake timers.
const later = setImmediate;
const start = setTimeout;
const stop = clearTimeout;

export class TestTime implements Timers {
  private readonly native: NativeTestStore;
  private readonly host: TimeHost;
  private readonly skips: boolean;
  private readonly patienceMs: number;
  private readonly due = new Set<Due>();
  private timers = 0;
  private goal: Goal | null = null;
  /** Who waits until all is at rest. */
  private resting: Waiting[] = [];
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

  /** When something is due next, ms since 1970. */
  get nextDueMs(): number | null {
    const own = this.first()?.atMs;
    const native = this.host.nextDueMs();
    return own === undefined ? native : Math.min(own, native ?? own);
  }

  after(ms: number, then: () => void): Timer {
    this.timers += 1;
    const due: Due = {
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

  /** Something may be able to go on. */
  stir(): void {
    stop(this.patience);
    if (this.isStirred || this.isOver) return;
    this.isStirred = true;
    later(this.look);
  }

  /** Set the clock forward, step by step. */
  advance(toMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.goal = { atMs: toMs, resolve, reject };
      this.stir();
    });
  }

  /** Whether the clock is on its way. */
  get isAdvancing(): boolean {
    return this.goal !== null;
  }

  /** What `advance` and `rest` wait for does not come. */
  giveUp(error: Error): void {
    const waiting = this.takeWaiting();
    for (const { reject } of waiting) reject(error);
  }

  /** Once all is at rest. */
  rest(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.resting.push({ resolve, reject });
      this.stir();
    });
  }

  /** Nothing moves any more. */
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
    // What is under way comes through the event loop, before the next look.
    if (!this.host.settle()) this.stir();
    else if (!this.host.isBusy()) this.atRest();
    else if (this.goal !== null || this.resting.length > 0) this.wait();
  };

  private atRest(): void {
    const { goal, resting } = this;
    this.resting = [];
    for (const { resolve } of resting) resolve();
    // They come first, and may ask for something.
    if (resting.length > 0) return this.stir();
    const next = this.nextDueMs;
    if (goal !== null) {
      if (next !== null && next <= goal.atMs) return this.leap(next);
      this.goal = null;
      this.leap(goal.atMs);
      goal.resolve();
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

  /** Until something stirs, or for as long as is reasonable. */
  private wait(): void {
    this.patience = start(() => this.host.stuck(), this.patienceMs);
  }

  private takeWaiting(): Waiting[] {
    const waiting = this.goal === null ? this.resting : [...this.resting, this.goal];
    this.goal = null;
    this.resting = [];
    return waiting;
  }

  private first(): Due | undefined {
    let first: Due | undefined;
    for (const due of this.due) {
      if (first === undefined || due.atMs < first.atMs || (due.atMs === first.atMs && due.number < first.number))
        first = due;
    }
    return first;
  }
}

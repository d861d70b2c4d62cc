// Stores in memory with a clock of their own, for tests.

import { addon } from './addon.ts';
import type { NativeRuntime } from './runtime.ts';
import type { NativeStore } from './store.ts';

/** A store in memory with a clock of its own, for tests. A request is carried out within its call. */
export interface NativeTestStore {
  store(): NativeStore;
  /** Returns the time of the clock, ms since 1970. */
  nowMs(): number;
  /** Does all work that needs no JavaScript. Returns true if no work waits for JavaScript either. */
  settle(store: NativeStore, runtime: NativeRuntime): boolean;
  /** Sets the clock forward. */
  set(toMs: number): void;
  /** Returns the time of a runtime's next timer, ms since 1970. */
  nextDueMs(runtime: NativeRuntime): number | null;
  crash(runtime: NativeRuntime): void;
  /** Crashes the runtime when an event of an instance is stored, before the event has any effect. */
  crashAfter(runtime: NativeRuntime, instance: string, executionId: number, eventId: number): void;
  isCrashPlanned(): boolean;
  /** Drops all pending work. Time does not go on after that. */
  close(): void;
}

export function createTestStore(nowMs: number, seed: number): NativeTestStore {
  return new addon.TestStore(nowMs, seed);
}

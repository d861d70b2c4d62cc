// Runtimes of the addon.

import type { TraceLevel } from '../logging/fields.ts';
import { addon } from './addon.ts';
import { guard } from './native-error.ts';
import type { NativeStore } from './store.ts';

/** Sizes of the addon's maps, for tests. */
export interface NativeMapSizes {
  readonly instances: number;
  readonly turns: number;
  readonly activities: number;
}

/** A runtime, for the thread that made it. */
export interface NativeRuntime {
  /**
   * Registers a definition. `fingerprint` is that of an orchestration's code; for an activity it is empty, and so is
   * `version`.
   */
  register(kind: string, name: string, version: string, fingerprint: string): void;
  /** Returns the runtime's number, by which other threads of this process find it. */
  number(): number;
  /** Marks a registered definition as one that every thread has. */
  share(kind: string, name: string, version: string): void;
  /** Reports that the thread of a lane has ended. */
  lose(lane: number): void;
  start(request: number, wake: () => void): void;
  shutdown(request: number, timeoutMs: number): void;
  /** Turns the jobs that report ended instances on or off. */
  reportEnds(wanted: boolean): void;
  /**
   * Notes the share of its time that the thread of each lane has worked lately, 0 to 1. The worker sends it with the
   * next heartbeat.
   */
  noteBusy(shares: readonly number[]): void;
  metrics(): string;
  mapSizes(): NativeMapSizes;
}

/** Options of a runtime, in the form that the addon takes. */
export interface NativeRuntimeOptions {
  readonly threads: number;
  readonly activityConcurrency: number;
  readonly queues: readonly string[];
  readonly cachedInstancesMax: number;
  readonly leaseMs: number;
  readonly turnDeadlineMs: number;
  /** A turn that takes longer ends at the next wait of the code, and another turn follows. */
  readonly turnSliceMs: number;
  /** An instance whose next timer is due sooner than this stays with its worker. Default 1 s. */
  readonly holdTimerMs?: number;
  readonly workerName: string;
  readonly nodeVersion: string;
  readonly logLevel: TraceLevel;
  readonly historyEvents: number;
  readonly historyBytes: number;
  readonly turnBytes: number;
  readonly pendingActivities: number;
  readonly mailboxMessages: number;
}

export const createRuntime = guard(
  (store: NativeStore, options: NativeRuntimeOptions): NativeRuntime =>
    new addon.NativeRuntime(store, JSON.stringify(options)),
);

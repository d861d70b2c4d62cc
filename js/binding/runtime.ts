// Runtimes of the addon.

import type { TraceLevel } from '../logging/fields.ts';
import { addon } from './addon.ts';
import type { NativeRuntime, NativeStore } from './native-classes.ts';
import { guard } from './native-error.ts';

/** Options of a runtime, in the form that the addon takes. */
export interface NativeRuntimeOptions {
  readonly threads: number;
  readonly activityConcurrency: number;
  readonly orchestrationConcurrency: number;
  /** `'any'`: every queue. */
  readonly queues: readonly string[] | 'any';
  /** The most activity sessions that the worker holds. */
  readonly sessionsMax: number;
  /** Time without an activity of a session after which the session is unbound. */
  readonly sessionIdleMs: number;
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
  /** The lines of orchestrations that are kept in the store; `null`: none. */
  readonly keepLogs: { readonly level: TraceLevel; readonly maxLines: number; readonly ageMs: number } | null;
}

export const createRuntime = guard(
  (store: NativeStore, options: NativeRuntimeOptions): NativeRuntime =>
    new addon.NativeRuntime(store, JSON.stringify(options)),
);

// What a schedule consists of, as it is stored. Part of the format.

import type { Duration } from '../util/duration.ts';
import { checkName } from '../util/options.ts';
import type { Bounds, Times } from './times.ts';

/** The name of the orchestration that a schedule is, and the begin of its id. */
export const SCHEDULE = 'perdure.schedule';

/** The name of the value that holds the schedule. */
export const SCHEDULE_STATE = 'schedule';

/** Behaviours at a due time while a run of the schedule goes on. */
export const OVERLAPS = ['skip', 'buffer', 'cancelPrevious', 'allow'] as const;

/**
 * The behaviour at a due time while a run of the schedule goes on. `'skip'` starts none. `'buffer'` starts one when
 * that run has ended. `'cancelPrevious'` cancels that run, and starts one when it has ended. `'allow'` starts one at
 * once.
 */
export type Overlap = (typeof OVERLAPS)[number];

/** The start of the runs of a schedule. */
export interface RunStart {
  /** The name of the orchestration. */
  readonly name: string;
  readonly version?: string;
  readonly input?: unknown;
  /** The id of a run is this text, a slash and the due time. */
  readonly id: string;
  readonly tags?: Readonly<Record<string, string>>;
  readonly priority?: number;
  /** The queue that the runs are started in, and their key in it. */
  readonly queue?: string;
  readonly key?: string;
  /** The time limit of each run, and the time for its cleanup then. */
  readonly timeout?: Duration;
  readonly gracePeriod?: Duration;
}

/** A schedule, as it was set. */
export interface ScheduleSpec extends Bounds {
  readonly times: Times;
  readonly start: RunStart;
  readonly overlap: Overlap;
  readonly catchUpMs: number;
  readonly jitterMs: number;
  readonly maxRuns?: number;
  readonly pauseOnFailure: boolean;
  /** The name of the workers whose code declares it. Absent: a client has set it. */
  readonly declaredBy?: string;
}

/** What became of a due time. */
export type DueOutcome =
  /** Its run goes on. */
  | 'running'
  /** It waits for the end of another run. */
  | 'buffered'
  /** Another run went on, or too many due times waited. */
  | 'skipped'
  /** No worker was there within `catchUp`. */
  | 'missed'
  /** Its run could not be started: an instance has the id. */
  | 'exists'
  | 'completed'
  | 'failed'
  | 'cancelled';

/** A due time, or a run that was asked for. Times are ms since 1970. */
export interface DueRecord {
  readonly dueMs: number;
  readonly outcome: DueOutcome;
  /** The instance of the run, if one was started. */
  readonly runId?: string;
  /** The built-in orchestration whose child the run is. */
  readonly watcher?: string;
  /** The message of the error that the run ended with. */
  readonly error?: string;
}

/** The reason of a pause. */
export interface Paused {
  readonly sinceMs: number;
  readonly by: 'client' | 'failure' | 'removal';
  readonly note?: string;
}

/** The value {@link SCHEDULE_STATE}. */
export interface ScheduleState {
  readonly spec: ScheduleSpec;
  readonly paused?: Paused;
  /** The due time that was decided last, or the time from which on due times count. */
  readonly cursorMs: number;
  /** The next due time; `null` if there is none. */
  readonly nextMs: number | null;
  /** The last ones, in the order of their decisions. All that run or are buffered are among them. */
  readonly recent: readonly DueRecord[];
  readonly counts: { readonly started: number; readonly skipped: number; readonly missed: number };
}

/**
 * Returns the recent due times, the newest first. In the state, a run that was buffered stands at the time of its
 * start, and one that was backfilled at that of the call.
 */
export function recentDues({ recent }: ScheduleState): DueRecord[] {
  return recent.toReversed().toSorted((one, other) => other.dueMs - one.dueMs);
}

/** The inputs of the updates of a schedule, by the name of the update. */
export interface ScheduleUpdates {
  set: ScheduleSpec;
  pause: { readonly by: Paused['by']; readonly note?: string };
  resume: undefined;
  /** Without a time: now. */
  run: { readonly dues?: readonly number[]; readonly overlap?: Overlap };
  delete: undefined;
}

/** Returns the name of an update. */
export function scheduleUpdate(name: keyof ScheduleUpdates): string {
  return `${SCHEDULE}.${name}`;
}

/** The most characters of the id of a schedule: those of its instance and its runs are longer. */
const ID_MAX = 200;

/** @throws TypeError when the id of a schedule is wrong */
export function checkScheduleId(id: unknown, what = 'schedule id'): asserts id is string {
  checkName(id, what);
  if (id.length > ID_MAX) throw new TypeError(`the ${what} must have at most ${ID_MAX} characters, got ${id.length}`);
}

/** Returns the id of the instance that a schedule is. */
export function scheduleInstance(id: string): string {
  return `${SCHEDULE}/${id}`;
}

/** Returns the id of the run of a due time: `nightly/2026-11-23T01:00:00Z`. */
export function runIdOf({ id }: RunStart, dueMs: number): string {
  return `${id}/${new Date(dueMs).toISOString().replace('.000Z', 'Z')}`;
}

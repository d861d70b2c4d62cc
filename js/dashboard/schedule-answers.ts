// Answers about schedules, and the bodies of the actions on them. This file holds only types, because the server and
// the page import it.

import type { DueOutcome, Overlap, Paused, RunStart, ScheduleState } from '../schedules/schedule-data.ts';
import type { ValueText } from './answers.ts';

/** `GET api/v1/schedules`: the schedules, the newest first. */
export interface SchedulesAnswer {
  readonly items: readonly ScheduleRow[];
  readonly cursor: string | null;
}

export interface ScheduleRow {
  /** Id of the instance that the schedule is. */
  readonly id: string;
  /** Id of the schedule. */
  readonly name: string;
  /** True if the instance is suspended, so that the schedule does nothing. */
  readonly isSuspended: boolean;
  /** Absent until a worker has set the schedule. */
  readonly set?: {
    readonly times: string;
    /** The orchestration that is started. */
    readonly starts: { readonly name: string; readonly version?: string };
    /** Absent if the schedule is paused, or has no further due time. */
    readonly nextMs?: number;
    readonly paused?: { readonly sinceMs: number; readonly by: Paused['by']; readonly note?: string };
    /** The last of the recent due times that has a run, with the id of that instance. */
    readonly last?: { readonly id: string; readonly dueMs: number; readonly outcome: DueOutcome };
    readonly counts: ScheduleState['counts'];
  };
}

/** `GET api/v1/schedule`: one schedule. `id` is the instance that the schedule is. */
export interface ScheduleAnswer extends ScheduleRow {
  /** Absent until a worker has set the schedule. */
  readonly details?: ScheduleDetails;
}

export interface ScheduleDetails {
  readonly options: ScheduleForm;
  /** Absent if the runs have no input, and if it was redacted. */
  readonly input?: ValueText;
  /** The name of the workers whose code declares the schedule. Absent: a client has set it. */
  readonly declaredBy?: string;
  /** The next due times, ms since 1970, whether or not the schedule is paused. */
  readonly nextMs: readonly number[];
  /** True if there are more. */
  readonly hasMore: boolean;
  /** The recent due times, the newest first. */
  readonly recent: readonly DueRow[];
}

/** A due time, and what became of it. */
export interface DueRow {
  readonly dueMs: number;
  readonly outcome: DueOutcome;
  /** The instance of the run. */
  readonly runId?: string;
  /** First line of the message of the error that the run ended with. Absent if it was redacted. */
  readonly error?: string;
}

/** The options of a schedule as `client.schedules.upsert` takes them, in JSON: times are texts. */
export interface ScheduleForm {
  readonly cron?: string;
  readonly timeZone?: string;
  readonly every?: string;
  readonly offset?: string;
  readonly at?: readonly string[];
  readonly start: Omit<RunStart, 'id'> & Partial<Pick<RunStart, 'id'>>;
  readonly overlap?: Overlap;
  readonly catchUp?: string;
  readonly jitter?: string;
  readonly startAt?: string;
  readonly endAt?: string;
  readonly maxRuns?: number;
  readonly pauseOnFailure?: boolean;
}

/** The bodies of the actions on schedules. `id` is the instance that the schedule is. */
export interface ScheduleBodies {
  readonly pauseSchedule: { id: string; note?: string };
  readonly resumeSchedule: { id: string };
  readonly triggerSchedule: { id: string };
  /**
   * `isNew`: the schedule is created, and there must be none of that id. Otherwise it is changed. `keepsInput`: the
   * runs keep their input, and the options have none.
   */
  readonly setSchedule: { id: string; options: ScheduleForm; isNew?: boolean; keepsInput?: boolean };
  readonly deleteSchedule: { id: string };
  /** Times as texts. */
  readonly backfillSchedule: { id: string; from: string; to: string; overlap?: Overlap };
}

/** The number of due times by what became of them. */
export type DueCounts = Readonly<Partial<Record<DueOutcome, number>>>;

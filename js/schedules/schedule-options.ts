// The options of a schedule, as users give them, and their checks.

import {
  checkQueued,
  checkTimeLimit,
  QUEUED_OPTIONS,
  type QueuedOptions,
  TIME_LIMIT_OPTIONS,
  type TimeLimitOptions,
} from '../orchestration/admission.ts';
import type { ReceiverDefinition } from '../orchestration/send-options.ts';
import { STARTED_CODE, startedCode } from '../orchestration/started-code.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import {
  bool,
  checkOptions,
  duration,
  listOfTimes,
  named,
  nested,
  type OptionTable,
  oneOf,
  priority,
  textsByName,
  time,
  timeOf,
  whole,
} from '../util/options.ts';
import { checkScheduleId, OVERLAPS, type Overlap, type RunStart, type ScheduleSpec } from './schedule-data.ts';
import { checkCron, dueAfter, type Times } from './times.ts';

/** The due times of a schedule: a cron expression, an interval, or dates. */
export type ScheduleTimes =
  | {
      /**
       * Five fields: minute, hour, day of the month, month, day of the week; or six, with the second first. Also
       * `@daily` and its like, and `L` for the last day of a month. If both days are given, either fits.
       */
      cron: string;
      /** Name of the zone of the expression, such as `'Europe/Berlin'`. Default `'UTC'`. */
      timeZone?: string;
    }
  | {
      /** The interval, at least 100 ms. Due times are its multiples since 1970. */
      every: Duration;
      /** Added to each of these. Default 0. */
      offset?: Duration;
    }
  | {
      /** 1 to 1 000 dates, or texts such as `'2030-01-31T12:00:00Z'`. */
      at: readonly (Date | string)[];
    };

/** The start of the runs: by a definition, or by the name of an orchestration. */
export type ScheduleStart<I = any> = QueuedOptions &
  TimeLimitOptions & {
    /** The id of a run is this text, 1 to 200 characters, a slash and its due time. Default: the id of the schedule. */
    id?: string;
    /** Texts to find the runs by. */
    tags?: Readonly<Record<string, string>>;
    /** Instances of higher priority are taken first. Default 0. */
    priority?: number;
  } & (
    | ({ definition: ReceiverDefinition<I> } & (undefined extends I ? { input?: I } : { input: I }))
    | { name: string; version?: string; input?: unknown }
  );

/** A schedule: the times at which it is due, and what it starts then. */
export type ScheduleOptions<I = any> = ScheduleTimes & {
  /** The orchestration that is started at each due time. */
  start: ScheduleStart<I>;
  /** Behaviour at a due time while a run of the schedule goes on. Default `'skip'`. */
  overlap?: Overlap;
  /** A due time that no worker met within this time is missed, not made up for. Default `'1h'`. */
  catchUp?: Duration;
  /** Each start comes later than its due time by up to this time, the same for each due time. Default 0. */
  jitter?: Duration;
  /** No due time lies before it. */
  startAt?: Date | string;
  /** No due time lies after it. */
  endAt?: Date | string;
  /** The number of runs after which there are no more. Default: no limit. */
  maxRuns?: number;
  /** Pauses the schedule when a run fails. Default `false`. */
  pauseOnFailure?: boolean;
};

/** The shortest interval, ms. */
const EVERY_MIN_MS = 100;
/** The most dates of a schedule. */
const DATES_MAX = 1_000;
/** The default of the option `catchUp`. */
const CATCH_UP = '1h';

const START: OptionTable = {
  ...STARTED_CODE,
  id: (value, path) => checkScheduleId(value, path),
  tags: textsByName,
  priority,
  ...QUEUED_OPTIONS,
  ...TIME_LIMIT_OPTIONS,
};

const OPTIONS: OptionTable = {
  cron: named,
  timeZone: named,
  every: duration(EVERY_MIN_MS),
  offset: duration(),
  at: listOfTimes(1, DATES_MAX),
  start: nested(START),
  overlap: oneOf(...OVERLAPS),
  catchUp: duration(),
  jitter: duration(),
  startAt: time,
  endAt: time,
  maxRuns: whole(1),
  pauseOnFailure: bool,
};

/**
 * Returns the schedule that options describe.
 *
 * @param where - the call, for an error: `client.schedules.upsert`
 * @throws TypeError when an option is wrong, or the schedule would never be due
 */
export function scheduleSpec(id: string, given: ScheduleOptions, where: string): ScheduleSpec {
  const options = checkOptions(given as Record<string, any>, OPTIONS, where) ?? {};
  const { overlap = 'skip', catchUp = CATCH_UP, jitter = 0, startAt, endAt, maxRuns, pauseOnFailure = false } = options;
  const spec: ScheduleSpec = {
    times: timesOf(options, where),
    start: startOf(id, options.start, where),
    overlap,
    catchUpMs: parseDuration(catchUp, `${where}: catchUp`),
    jitterMs: parseDuration(jitter, `${where}: jitter`),
    pauseOnFailure,
    ...(startAt === undefined ? {} : { startAtMs: timeOf(startAt, `${where}: startAt`) }),
    ...(endAt === undefined ? {} : { endAtMs: timeOf(endAt, `${where}: endAt`) }),
    ...(maxRuns === undefined ? {} : { maxRuns }),
  };
  // Dates, and the end, may be past by the time a program that names them runs again.
  const isPast = spec.endAtMs !== undefined && spec.endAtMs < Date.now();
  if (spec.times.kind !== 'at' && dueAfter(spec.times, isPast ? {} : spec, Date.now()) === null)
    throw new TypeError(`${where}: the schedule is never due`);
  return spec;
}

function timesOf({ cron, timeZone, every, offset, at }: Record<string, any>, where: string): Times {
  const kinds = [cron, every, at].filter((kind) => kind !== undefined);
  if (kinds.length !== 1) throw new TypeError(`${where}: a schedule has one of cron, every and at`);
  if (timeZone !== undefined && cron === undefined) throw new TypeError(`${where}: timeZone belongs to cron`);
  if (offset !== undefined && every === undefined) throw new TypeError(`${where}: offset belongs to every`);
  if (cron !== undefined) {
    checkCron(cron, timeZone ?? 'UTC', where);
    return { kind: 'cron', cron, timeZone: timeZone ?? 'UTC' };
  }
  if (every !== undefined)
    return {
      kind: 'every',
      everyMs: parseDuration(every, `${where}: every`),
      offsetMs: parseDuration(offset ?? 0, `${where}: offset`),
    };
  const times = (at as readonly unknown[]).map((date, n) => timeOf(date, `${where}: at[${n}]`));
  return { kind: 'at', atMs: [...new Set(times)].sort((a, b) => a - b) };
}

function startOf(schedule: string, start: Record<string, any> | undefined, where: string): RunStart {
  if (start === undefined) throw new TypeError(`${where}: the options must have a start`);
  const { input, id = schedule, tags, priority, queue, key, timeout, gracePeriod } = start;
  checkQueued(start, `${where}: start`);
  checkTimeLimit(start, `${where}: start`);
  return {
    ...startedCode(start, `${where}: start`),
    id,
    ...(input === undefined ? {} : { input }),
    ...(tags === undefined ? {} : { tags }),
    ...(priority === undefined ? {} : { priority }),
    ...(queue === undefined ? {} : { queue }),
    ...(key === undefined ? {} : { key }),
    ...(timeout === undefined ? {} : { timeout }),
    ...(gracePeriod === undefined ? {} : { gracePeriod }),
  };
}

// Schedules that code declares.

import { isRecord, property } from '../util/show.ts';
import { checkScheduleId, type ScheduleSpec } from './schedule-data.ts';
import { type ScheduleOptions, scheduleSpec } from './schedule-options.ts';

/** A schedule as {@link defineSchedule} returns it. */
export interface ScheduleDefinition {
  readonly kind: 'schedule';
  readonly id: string;
  /** The times and the start, with all defaults. */
  readonly spec: ScheduleSpec;
}

/**
 * Declares a schedule: register it with `runtime.register`. The runtime creates it when it starts, or changes it if it
 * was declared otherwise. A schedule whose declaration is gone is paused, with a warning, by the next runtime of the
 * same `workerName`. With the default name, only a runtime that declares schedules does so.
 *
 * @param id - 1 to 200 characters
 * @param options - as those of `client.schedules.upsert`
 * @throws TypeError when an option is wrong, the zone is unknown, or the schedule would never be due
 *
 * @example
 * ```ts
 * const nightly = defineSchedule('nightly', {
 *   cron: '0 2 * * *',
 *   timeZone: 'Europe/Berlin',
 *   start: { definition: report, input: { kind: 'daily' } },
 * });
 * runtime.register(report, nightly);
 * ```
 */
export function defineSchedule<I>(id: string, options: ScheduleOptions<I>): ScheduleDefinition {
  checkScheduleId(id);
  return Object.freeze({ kind: 'schedule', id, spec: scheduleSpec(id, options, 'defineSchedule') });
}

/** True if a value is a result of {@link defineSchedule}, here or in another copy of this package. */
export function isSchedule(value: unknown): value is ScheduleDefinition {
  return isRecord(value) && property(value, 'kind') === 'schedule' && typeof property(value, 'id') === 'string';
}

// The due times of a schedule: computed, never recorded here. The zones and their rules are those of Node.

import { Cron } from 'croner';

/** The times of a schedule, as it is stored. Part of the format. */
export type Times =
  | { readonly kind: 'cron'; readonly cron: string; readonly timeZone: string }
  | { readonly kind: 'every'; readonly everyMs: number; readonly offsetMs: number }
  /** In order, each once. */
  | { readonly kind: 'at'; readonly atMs: readonly number[] };

/** The times between which a schedule is due. Part of the format. */
export interface Bounds {
  /** No due time lies before it. */
  readonly startAtMs?: number;
  /** No due time lies after it. */
  readonly endAtMs?: number;
}

/** Returns the first due time after a time, ms since 1970; `null` if there is none. */
export function dueAfter(times: Times, { startAtMs, endAtMs }: Bounds, afterMs: number): number | null {
  const after = startAtMs === undefined ? afterMs : Math.max(afterMs, startAtMs - 1);
  const due = firstAfter(times, after);
  return due === null || (endAtMs !== undefined && due > endAtMs) ? null : due;
}

function firstAfter(times: Times, after: number): number | null {
  switch (times.kind) {
    case 'cron':
      return cronOf(times).nextRun(new Date(after))?.getTime() ?? null;
    case 'every': {
      const { everyMs, offsetMs } = times;
      return (Math.floor((after - offsetMs) / everyMs) + 1) * everyMs + offsetMs;
    }
    case 'at':
      return times.atMs.find((time) => time > after) ?? null;
    default:
      return times satisfies never;
  }
}

/** Yields the due times from after a time on. */
export function* duesAfter(times: Times, bounds: Bounds, afterMs: number): Generator<number, void> {
  for (let due = dueAfter(times, bounds, afterMs); due !== null; due = dueAfter(times, bounds, due)) yield due;
}

/** The expression that was read last: a schedule asks for its times again and again. */
let last: { readonly cron: string; readonly timeZone: string; readonly read: Cron } | undefined;

/** By its own default, croner skips and repeats the runs of a list of hours, such as `30 2,14 * * *`. */
const RULES = { paused: true, mode: '5-or-6-parts', fixedTimeRule: 'no-wildcard' } as const;

/**
 * Returns an expression, read. Its times in the hours that a zone skips or repeats are those of Vixie's cron, cron(8):
 *
 * - An expression without a `*` or a step in second, minute and hour has fixed times. Those that are skipped are due at
 *   the end of the gap, all at once. Those that are repeated are due at their first occurrence.
 * - All others follow the clock: a skipped time is not due, and a repeated time is due twice. For Vixie's cron, only a
 *   field that starts with `*` makes one of these, and `0 2-8/2 * * *` has fixed times.
 *
 * @throws an error of croner when the expression is wrong
 */
function cronOf({ cron, timeZone }: { readonly cron: string; readonly timeZone: string }): Cron {
  if (last?.cron !== cron || last.timeZone !== timeZone)
    last = { cron, timeZone, read: new Cron(cron, { ...RULES, timezone: timeZone }) };
  return last.read;
}

/**
 * Checks the times of a schedule.
 *
 * @throws TypeError when the expression or the zone is wrong
 */
export function checkCron(cron: string, timeZone: string, path: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone });
  } catch {
    throw new TypeError(`${path}.timeZone: there is no time zone '${timeZone}'; a name is like 'Europe/Berlin'`);
  }
  const why = errorOf(cron, timeZone);
  if (why !== undefined) throw new TypeError(`${path}.cron: '${cron}' is no cron expression: ${why}`);
}

function errorOf(cron: string, timeZone: string): string | undefined {
  // croner reads a text with a colon as a date.
  if (cron.includes(':')) return 'it must not contain a colon; a date belongs to the option at';
  try {
    cronOf({ cron, timeZone });
    return undefined;
  } catch (error) {
    const message = (error as Error).message.replace(/^CronPattern: /, '');
    const fields = cron.match(/\S+/g)?.length ?? 0;
    if (fields === 5 || fields === 6 || message.startsWith('@reboot')) return valueAsWritten(message);
    return `it must have 5 or 6 fields, and has ${fields}`;
  }
}

/** The messages of croner count days and months from 0. */
function valueAsWritten(message: string): string {
  return message.replace(
    /(Invalid value for )(day|month|nearestWeekdays): (-?\d+)$/,
    (_, before, field, value) => `${before}${field === 'month' ? field : 'day'}: ${Number(value) + 1}`,
  );
}

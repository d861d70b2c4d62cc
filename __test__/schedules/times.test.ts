import { CronExpressionParser } from 'cron-parser';
import { describe, expect, it } from 'vitest';

import { type Bounds, checkCron, dueAfter, duesAfter, type Times } from '../../js/schedules/times.ts';
import { dice, minutesOf, randomExpression, spelledOut, vixie } from './expressions.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The two changes of a zone in a year: the instants at which the clock goes forward and back. */
interface Zone {
  readonly timeZone: string;
  readonly forward: string;
  readonly back: string;
}

const BERLIN: Zone = { timeZone: 'Europe/Berlin', forward: '2026-03-29T01:00Z', back: '2026-10-25T01:00Z' };
const NEW_YORK: Zone = { timeZone: 'America/New_York', forward: '2026-03-08T07:00Z', back: '2026-11-01T06:00Z' };
/** The clock goes forward and back by half an hour. */
const LORD_HOWE: Zone = { timeZone: 'Australia/Lord_Howe', forward: '2025-10-04T15:30Z', back: '2026-04-04T15:00Z' };
/** The clock goes back before Ramadan, and forward after it. */
const CASABLANCA: Zone = { timeZone: 'Africa/Casablanca', forward: '2025-04-06T02:00Z', back: '2025-02-23T02:00Z' };
/** Midnight is skipped, and the last hour of a day repeated. */
const CAIRO: Zone = { timeZone: 'Africa/Cairo', forward: '2025-04-24T22:00Z', back: '2025-10-30T21:00Z' };
/** Midnight is skipped and repeated. */
const HAVANA: Zone = { timeZone: 'America/Havana', forward: '2026-03-08T05:00Z', back: '2026-11-01T05:00Z' };

const ZONES = [BERLIN, NEW_YORK, LORD_HOWE, CASABLANCA];

function byName(zones: readonly Zone[]): (readonly [string, Zone])[] {
  return zones.map((zone) => [zone.timeZone, zone] as const);
}

function inZone(cron: string, timeZone: string): Times {
  return { kind: 'cron', cron, timeZone };
}

/** Returns the due times from one time to another, without the first and with the last. */
function between(times: Times, fromMs: number, toMs: number): number[] {
  return [...duesAfter(times, { endAtMs: toMs }, fromMs)];
}

/** Returns the first due times as text, such as `2026-03-29T01:00Z`. */
function first(count: number, times: Times, after: string): string[] {
  const dues: string[] = [];
  for (const due of duesAfter(times, {}, Date.parse(after))) if (dues.push(minuteText(due)) === count) break;
  return dues;
}

function minuteText(ms: number): string {
  return new Date(ms).toISOString().replace(':00.000Z', 'Z');
}

describe('a fixed time that the clock skips is due once, right at the jump', () => {
  it.each([
    ['Europe/Berlin', '30 2 * * *', ['2026-03-28T01:30Z', '2026-03-29T01:00Z', '2026-03-30T00:30Z']],
    ['Europe/Berlin', '0 2 * * *', ['2026-03-28T01:00Z', '2026-03-29T01:00Z', '2026-03-30T00:00Z']],
    ['Europe/Berlin', '59 2 * * *', ['2026-03-28T01:59Z', '2026-03-29T01:00Z', '2026-03-30T00:59Z']],
    ['America/New_York', '30 2 * * *', ['2026-03-07T07:30Z', '2026-03-08T07:00Z', '2026-03-09T06:30Z']],
    ['Australia/Lord_Howe', '15 2 * * *', ['2025-10-03T15:45Z', '2025-10-04T15:30Z', '2025-10-05T15:15Z']],
    ['Africa/Casablanca', '30 2 * * *', ['2025-04-05T02:30Z', '2025-04-06T02:00Z', '2025-04-07T01:30Z']],
    ['Africa/Cairo', '0 0 * * *', ['2025-04-23T22:00Z', '2025-04-24T22:00Z', '2025-04-25T21:00Z']],
    ['Africa/Cairo', '30 0 * * *', ['2025-04-23T22:30Z', '2025-04-24T22:00Z', '2025-04-25T21:30Z']],
  ])('%s, %s', (timeZone, cron, dues) => {
    expect(first(3, inZone(cron, timeZone), halfDayBefore(dues[0]))).toEqual(dues);
  });

  it.each([
    ['also one of a list', '30 2,14 * * *', ['2026-03-29T01:00Z', '2026-03-29T12:30Z', '2026-03-30T00:30Z']],
    ['also several at once', '0,30 2 * * *', ['2026-03-29T01:00Z', '2026-03-30T00:00Z', '2026-03-30T00:30Z']],
    ['also with one that is not skipped', '0 2-3 * * *', ['2026-03-29T01:00Z', '2026-03-30T00:00Z']],
    ['only on its day', '30 2 29 * *', ['2026-03-29T01:00Z', '2026-04-29T00:30Z']],
  ])('%s: %s', (_, cron, dues) => {
    expect(first(dues.length, inZone(cron, BERLIN.timeZone), '2026-03-28T22:00Z')).toEqual(dues);
  });

  it('and not at all when a change of the date line skips its day', () => {
    const apia = inZone('30 2 * * *', 'Pacific/Apia');
    expect(first(3, apia, '2011-12-28T20:00Z')).toEqual([
      '2011-12-29T12:30Z',
      '2011-12-30T12:30Z',
      '2011-12-31T12:30Z',
    ]);
  });
});

describe('a fixed time that the clock repeats is due once, at its first occurrence', () => {
  it.each([
    ['Europe/Berlin', '30 2 * * *', ['2026-10-24T00:30Z', '2026-10-25T00:30Z', '2026-10-26T01:30Z']],
    ['Europe/Berlin', '0 2 * * *', ['2026-10-24T00:00Z', '2026-10-25T00:00Z', '2026-10-26T01:00Z']],
    ['Europe/Berlin', '0 3 * * *', ['2026-10-24T01:00Z', '2026-10-25T02:00Z', '2026-10-26T02:00Z']],
    ['America/New_York', '30 1 * * *', ['2026-10-31T05:30Z', '2026-11-01T05:30Z', '2026-11-02T06:30Z']],
    ['Australia/Lord_Howe', '45 1 * * *', ['2026-04-03T14:45Z', '2026-04-04T14:45Z', '2026-04-05T15:15Z']],
    ['Africa/Casablanca', '30 2 * * *', ['2025-02-22T01:30Z', '2025-02-23T01:30Z', '2025-02-24T02:30Z']],
    ['Africa/Cairo', '30 23 * * *', ['2025-10-29T20:30Z', '2025-10-30T20:30Z', '2025-10-31T21:30Z']],
    ['America/Havana', '0 0 * * *', ['2026-10-31T04:00Z', '2026-11-01T04:00Z', '2026-11-02T05:00Z']],
  ])('%s, %s', (timeZone, cron, dues) => {
    expect(first(3, inZone(cron, timeZone), halfDayBefore(dues[0]))).toEqual(dues);
  });

  it.each([
    ['also those of a list', '30 2,14 * * *', ['2026-10-25T00:30Z', '2026-10-25T13:30Z', '2026-10-26T01:30Z']],
    ['also several', '0,30 2 * * *', ['2026-10-25T00:00Z', '2026-10-25T00:30Z', '2026-10-26T01:00Z']],
  ])('%s: %s', (_, cron, dues) => {
    expect(first(dues.length, inZone(cron, BERLIN.timeZone), '2026-10-24T22:00Z')).toEqual(dues);
  });

  it.each([
    ['between the occurrences', '2026-10-25T00:45Z'],
    ['in the repeated hour', '2026-10-25T01:15Z'],
  ])('and not again when asked for %s', (_, after) => {
    expect(first(1, inZone('30 2 * * *', BERLIN.timeZone), after)).toEqual(['2026-10-26T01:30Z']);
  });
});

describe('a wildcard follows the clock: every interval of real time is due, none twice and none lost', () => {
  it.each(byName(ZONES))('%s, */15 * * * *', (_, zone) => {
    for (const change of [zone.forward, zone.back]) {
      const [from, to] = [Date.parse(change) - DAY, Date.parse(change) + DAY];
      expect(between(inZone('*/15 * * * *', zone.timeZone), from, to)).toEqual(every(15 * MINUTE, from, to));
    }
  });

  it.each(byName([BERLIN, NEW_YORK, CASABLANCA, CAIRO, HAVANA]))('%s, 0 * * * *', (_, zone) => {
    for (const change of [zone.forward, zone.back]) {
      const [from, to] = [Date.parse(change) - DAY, Date.parse(change) + DAY];
      expect(between(inZone('0 * * * *', zone.timeZone), from, to)).toEqual(every(HOUR, from, to));
    }
  });

  it('Australia/Lord_Howe, 0 * * * *: the change of half an hour makes one interval longer, both times', () => {
    const hourly = inZone('0 * * * *', LORD_HOWE.timeZone);
    expect(first(3, hourly, '2025-10-04T14:00Z')).toEqual([
      '2025-10-04T14:30Z',
      '2025-10-04T16:00Z',
      '2025-10-04T17:00Z',
    ]);
    expect(first(3, hourly, '2026-04-04T13:30Z')).toEqual([
      '2026-04-04T14:00Z',
      '2026-04-04T15:30Z',
      '2026-04-04T16:30Z',
    ]);
  });

  it('in the hour 2 alone, which is skipped in spring and lasts twice as long in autumn', () => {
    const minutes = inZone('*/20 2 * * *', BERLIN.timeZone);
    expect(first(1, minutes, '2026-03-28T22:00Z')).toEqual(['2026-03-30T00:00Z']);
    expect(first(7, minutes, '2026-10-24T22:00Z')).toEqual([
      '2026-10-25T00:00Z',
      '2026-10-25T00:20Z',
      '2026-10-25T00:40Z',
      '2026-10-25T01:00Z',
      '2026-10-25T01:20Z',
      '2026-10-25T01:40Z',
      '2026-10-26T01:00Z',
    ]);
  });
});

describe('a daily time is due 365 times a year, once on each local day', () => {
  const CRONS = ['0 0 * * *', '30 0 * * *', '30 1 * * *', '45 1 * * *', '15 2 * * *', '30 2 * * *', '30 23 * * *'];
  const days = every(DAY, Date.UTC(2024, 11, 31), Date.UTC(2025, 11, 31)).map((day) => iso(day).slice(0, 10));

  it.each(byName([...ZONES, CAIRO, HAVANA]))('%s', (timeZone) => {
    const local = new Intl.DateTimeFormat('sv', { timeZone, dateStyle: 'short' });
    expect(days).toHaveLength(365);
    for (const cron of CRONS) {
      const dues = between(inZone(cron, timeZone), Date.UTC(2024, 11, 30), Date.UTC(2026, 0, 2));
      const dueDays = dues.map((due) => local.format(due)).filter((day) => day.startsWith('2025'));
      expect(dueDays, cron).toEqual(days);
    }
  });
});

describe('the due times around changes of the clock are those of cron(8), minute by minute', () => {
  it.each(byName([...ZONES, CAIRO, HAVANA]))('%s', (timeZone, { forward, back }) => {
    const roll = dice(3);
    for (const change of [forward, back]) {
      const [from, to] = [Date.parse(change) - 4 * HOUR, Date.parse(change) + 4 * HOUR];
      const minutes = minutesOf(timeZone, from, to);
      for (let n = 0; n < 50; n += 1) {
        // On every day: the changes are compared here. Half of the expressions are due in a few hours only.
        const [minute, hour] = randomExpression(roll).split(' ') as [string, string];
        const cron = `${minute} ${roll.chance(0.5) ? hour : `${roll.int(0, 3)},23`} * * *`;
        // For Vixie's cron a range with a step, such as `2-8/2`, has fixed times. For croner, it follows the clock.
        if (/-\d+\/\d/.test(cron)) continue;
        expect(between(inZone(cron, timeZone), from, to), cron).toEqual(vixie(cron, minutes));
      }
    }
  });
});

describe('the due times of random expressions are those of cron-parser', () => {
  // Vixie's cron reads the name as 0, which ends a range only where the range is Sunday alone. cron-parser does the
  // same. For croner the name is 7 at the end of a range, so that `FRI-SUN` is three days, and `SUN-SUN` each day.
  const ENDS_WITH_SUNDAY = /-sun/i;

  /** Returns the same by cron-parser; `null` for an expression that is never due. */
  function byCronParser(count: number, cron: string, timeZone: string, after: number): (number | null)[] {
    try {
      const dates = CronExpressionParser.parse(cron, { currentDate: new Date(after), tz: timeZone });
      return Array.from({ length: count }, () => dates.next().getTime());
    } catch (error) {
      const { message } = error as Error;
      if (message === 'Invalid explicit day of month definition') return [null];
      // cron-parser refuses a list with a value twice, which Vixie's cron and POSIX allow.
      if (!message.includes('duplicate values') || cron === spelledOut(cron)) throw error;
      return byCronParser(count, spelledOut(cron), timeZone, after);
    }
  }

  function byPerdure(count: number, cron: string, timeZone: string, after: number): (number | null)[] {
    const dues: number[] = [];
    for (const due of duesAfter(inZone(cron, timeZone), {}, after)) if (dues.push(due) === count) return dues;
    return [null];
  }

  const SEEDS = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
  it.each(SEEDS)('1 000 in UTC, seed %i', (seed) => {
    const roll = dice(seed);
    let compared = 0;
    while (compared < 1_000) {
      const cron = randomExpression(roll);
      const after = roll.int(0, Date.UTC(2090, 0));
      if (ENDS_WITH_SUNDAY.test(cron)) continue;
      expect(byPerdure(3, cron, 'UTC', after), `${cron} after ${iso(after)}`).toEqual(
        byCronParser(3, cron, 'UTC', after),
      );
      compared += 1;
    }
  });

  // No change of any of the four zones lies in these months from June of 2018 to January of 2027.
  it.each(byName(ZONES))('250 in %s, away from the changes of its clock', (timeZone) => {
    const roll = dice(2);
    let compared = 0;
    while (compared < 250) {
      const cron = randomExpression(roll);
      const year = roll.int(2018, 2026);
      const [from, to] = roll.chance(0.5)
        ? [Date.UTC(year, 5, 20), Date.UTC(year, 8, 20)]
        : [Date.UTC(year, 10, 20), Date.UTC(year + 1, 0, 31)];
      const after = roll.int(from, (from + to) / 2);
      if (ENDS_WITH_SUNDAY.test(cron)) continue;
      const [ours, theirs] = [byPerdure, byCronParser].map((read) =>
        read(3, cron, timeZone, after).filter((due) => due !== null && due < to),
      );
      if (ours?.length === 0 && theirs?.length === 0) continue;
      expect(ours, `${cron} after ${iso(after)}`).toEqual(theirs);
      compared += 1;
    }
  });
});

describe('dueAfter', () => {
  const AT = Date.parse('2030-01-01T12:00Z');
  const daily: Times = { kind: 'cron', cron: '0 12 * * *', timeZone: 'UTC' };
  const hourly: Times = { kind: 'every', everyMs: HOUR, offsetMs: 0 };
  const dates: Times = { kind: 'at', atMs: [AT - DAY, AT, AT + DAY] };

  it.each([daily, hourly, dates])('of $kind: a due time is after the time, by a millisecond or more', (times) => {
    expect(dueAfter(times, {}, AT - 1)).toBe(AT);
    expect(dueAfter(times, {}, AT)).toBeGreaterThan(AT);
  });

  it.each([daily, hourly, dates])('of $kind: no due time lies before the start, or after the end', (times) => {
    const due = (bounds: Bounds, after: number): number | null => dueAfter(times, bounds, after);
    const next = due({}, AT) as number;
    expect(due({ startAtMs: AT }, AT - 10 * DAY)).toBe(AT);
    expect(due({ startAtMs: AT + 1 }, AT - 10 * DAY)).toBe(next);
    expect(due({ startAtMs: AT - 10 * DAY }, AT)).toBe(next);
    expect(due({ endAtMs: AT }, AT - 1)).toBe(AT);
    expect(due({ endAtMs: AT - 1 }, AT - 1)).toBeNull();
    expect(due({ endAtMs: next - 1 }, AT)).toBeNull();
    expect(due({ startAtMs: AT, endAtMs: AT }, 0)).toBe(AT);
    expect(due({ startAtMs: AT, endAtMs: AT }, AT)).toBeNull();
    expect(due({ startAtMs: AT + 1, endAtMs: next - 1 }, 0)).toBeNull();
    expect([...duesAfter(times, { startAtMs: AT, endAtMs: next }, 0)]).toEqual([AT, next]);
  });

  it.each([
    ['* * * * *', 'UTC'],
    ['*/7 * * * * *', 'Europe/Berlin'],
    ['30 2,3 * * *', 'Europe/Berlin'],
    ['*/10 1-3 * * *', 'America/New_York'],
    ['0 0 29 2 *', 'Australia/Lord_Howe'],
  ])('of %s in %s: each due time is later than the one before it', (cron, timeZone) => {
    let last = Date.parse('2026-10-24T23:30:00.500Z');
    for (let n = 0; n < 100; n += 1) {
      const due = dueAfter(inZone(cron, timeZone), {}, last) as number;
      expect(due).toBeGreaterThan(last);
      // A time in between leads to the same one.
      expect(dueAfter(inZone(cron, timeZone), {}, due - 1)).toBe(due);
      last = due;
    }
  });

  it.each(['0 0 30 2 *', '0 0 31 4,6,9,11 *', '0 0 0 31 FEB *'])('of %s, which never fires: null', (cron) => {
    for (const timeZone of ['UTC', 'Europe/Berlin']) expect(dueAfter(inZone(cron, timeZone), {}, AT)).toBeNull();
  });

  it.each([
    ['0 0 29 2 *', '2097-01-01T00:00Z', ['2104-02-29T00:00Z', '2108-02-29T00:00Z']],
    // Either day fits.
    ['0 0 29 2 1', '2030-02-20T00:00Z', ['2030-02-25T00:00Z', '2031-02-03T00:00Z']],
    // A step restricts the day, too. For Vixie's cron both days must fit as soon as one of them starts with `*`.
    ['0 0 */20 * 1', '2027-01-12T00:00Z', ['2027-01-18T00:00Z', '2027-01-21T00:00Z']],
    ['0 0 L 2 *', '2027-01-01T00:00Z', ['2027-02-28T00:00Z', '2028-02-29T00:00Z']],
    ['@monthly', '2027-01-01T00:00Z', ['2027-02-01T00:00Z', '2027-03-01T00:00Z']],
    ['@daily', '2027-02-28T23:59Z', ['2027-03-01T00:00Z', '2027-03-02T00:00Z']],
    ['0 */30 * * * *', '2027-02-28T23:29Z', ['2027-02-28T23:30Z', '2027-03-01T00:00Z']],
    ['0 0 * * 7', '2027-01-01T00:00Z', ['2027-01-03T00:00Z', '2027-01-10T00:00Z']],
    ['0 0 * * fri-sun', '2027-01-02T00:00Z', ['2027-01-03T00:00Z', '2027-01-08T00:00Z']],
  ])('of %s after %s', (cron, after, dues) => {
    expect(first(2, inZone(cron, 'UTC'), after)).toEqual(dues);
  });

  it.each([
    { everyMs: 1_000, offsetMs: 0, after: 0, due: 1_000 },
    { everyMs: 1_000, offsetMs: 0, after: 999, due: 1_000 },
    { everyMs: 1_000, offsetMs: 0, after: -1, due: 0 },
    { everyMs: 1_000, offsetMs: 0, after: -1_000, due: 0 },
    { everyMs: 1_000, offsetMs: 0, after: -1_001, due: -1_000 },
    { everyMs: 1_000, offsetMs: 250, after: 0, due: 250 },
    { everyMs: 1_000, offsetMs: 250, after: 250, due: 1_250 },
    { everyMs: 1_000, offsetMs: 250, after: -750, due: 250 },
    { everyMs: 1_000, offsetMs: 250, after: -751, due: -750 },
    { everyMs: 1_000, offsetMs: 1_000, after: 0, due: 1_000 },
    { everyMs: 1_000, offsetMs: 5_250, after: 0, due: 250 },
    { everyMs: 700, offsetMs: 0, after: 6_999, due: 7_000 },
    { everyMs: 7 * DAY, offsetMs: 4 * DAY, after: AT, due: Date.parse('2030-01-07T00:00Z') },
    { everyMs: 100, offsetMs: 0, after: 8.64e15 - 1, due: 8.64e15 },
  ])('of $everyMs ms and $offsetMs ms after $after is $due', ({ everyMs, offsetMs, after, due }) => {
    expect(dueAfter({ kind: 'every', everyMs, offsetMs }, {}, after)).toBe(due);
  });

  it('of dates: each once and in order, and none when all are past', () => {
    expect([...duesAfter(dates, {}, 0)]).toEqual([AT - DAY, AT, AT + DAY]);
    expect([...duesAfter(dates, {}, AT - DAY)]).toEqual([AT, AT + DAY]);
    expect([...duesAfter(dates, { startAtMs: AT, endAtMs: AT + DAY - 1 }, 0)]).toEqual([AT]);
    expect(dueAfter(dates, {}, AT + DAY)).toBeNull();
    expect(dueAfter({ kind: 'at', atMs: [] }, {}, 0)).toBeNull();
  });
});

describe('checkCron', () => {
  it.each([
    ['* * * * *', 'UTC'],
    ['0 30 2 * * *', 'Europe/Berlin'],
    ['@daily', 'America/New_York'],
    ['0 0 L * *', 'UTC'],
    ['0 9 * * MON#1', 'UTC'],
    ['0 0 30 2 *', 'UTC'],
  ])('takes %s in %s', (cron, timeZone) => {
    expect(checkCron(cron, timeZone, 'nightly')).toBeUndefined();
  });

  it.each(['Europe/Berln', 'Mars', ''])('refuses the zone %o', (timeZone) => {
    expect(() => checkCron('0 0 * * *', timeZone, 'nightly')).toThrow(
      new TypeError(`nightly.timeZone: there is no time zone '${timeZone}'; a name is like 'Europe/Berlin'`),
    );
  });

  it.each([
    ['', 'it must have 5 or 6 fields, and has 0'],
    ['nightly', 'it must have 5 or 6 fields, and has 1'],
    ['@nightly', 'it must have 5 or 6 fields, and has 1'],
    ['* * * *', 'it must have 5 or 6 fields, and has 4'],
    ['* * * * * * *', 'it must have 5 or 6 fields, and has 7'],
    ['61 * * * *', 'Invalid value for minute: 61'],
    ['0 24 * * *', 'Invalid value for hour: 24'],
    ['0 0 32 * *', 'Invalid value for day: 32'],
    ['0 0 0 * *', 'Invalid value for day: 0'],
    ['0 0 32W * *', 'Invalid value for day: 32'],
    ['0 0 * 13 *', 'Invalid value for month: 13'],
    ['0 0 * * 8', 'Invalid value for dayOfWeek: 8'],
    ['0 0 * FOO *', /\(FOO\) contains illegal characters/],
    ['0 0 5-1 * *', "From value is larger than to value: '5-1'"],
    ['*/0 * * * *', /illegal stepping: 0/],
    ['*/61 * * * *', /steps cannot be greater than .* \(60\)/],
    ['5/10 * * * *', /stepping with numeric prefix \('5\/10'\) is not allowed/],
    ['1,,2 * * * *', /minute \(\) is empty/],
    ['@reboot', /@reboot is not supported/],
    ['2030-01-01T00:00', 'it must not contain a colon; a date belongs to the option at'],
    ['5 12:30 * * *', 'it must not contain a colon; a date belongs to the option at'],
  ])('refuses %o and says why', (cron, why) => {
    const refused = (): void => checkCron(cron, 'UTC', 'nightly');
    expect(refused).toThrow(TypeError);
    expect(refused).toThrow(`nightly.cron: '${cron}' is no cron expression: ${typeof why === 'string' ? why : ''}`);
    expect(refused).toThrow(why);
  });

  it('an expression that was refused leaves no trace', () => {
    expect(dueAfter({ kind: 'cron', cron: '0 0 * * *', timeZone: 'UTC' }, {}, 0)).toBe(DAY);
    expect(() => checkCron('0 0 * * 9', 'UTC', 'nightly')).toThrow(TypeError);
    expect(dueAfter({ kind: 'cron', cron: '0 0 * * *', timeZone: 'UTC' }, {}, 0)).toBe(DAY);
    expect(dueAfter({ kind: 'cron', cron: '0 0 * * *', timeZone: 'Europe/Berlin' }, {}, 0)).toBe(23 * HOUR);
  });
});

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function halfDayBefore(instant: string | undefined): string {
  return iso(Date.parse(instant as string) - DAY / 2);
}

/** Returns the multiples of an interval from one time to another, without the first and with the last. */
function every(interval: number, fromMs: number, toMs: number): number[] {
  const count = Math.floor(toMs / interval) - Math.floor(fromMs / interval);
  return Array.from({ length: count }, (_, n) => (Math.floor(fromMs / interval) + n + 1) * interval);
}

// Random cron expressions, and a second reading of them: Vixie's cron, one minute at a time.

import { seeded } from '../support/worker-parts.mjs';

const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const DAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

interface Field {
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
  /** Chance of a plain `*`. */
  readonly star: number;
}

// Both days are restricted in a quarter of all expressions, and neither in another.
const MINUTE: Field = { min: 0, max: 59, star: 0.15 };
const HOUR: Field = { min: 0, max: 23, star: 0.3 };
const DAY: Field = { min: 1, max: 31, star: 0.5 };
const MONTH: Field = { min: 1, max: 12, names: MONTHS, star: 0.5 };
/** Sunday is `7`, too, as a single value. */
const WEEKDAY: Field = { min: 0, max: 6, names: DAYS, star: 0.5 };

const FIELDS = [MINUTE, HOUR, DAY, MONTH, WEEKDAY];

export interface Dice {
  /** Returns a whole number from `min` to `max`. */
  int(min: number, max: number): number;
  chance(of: number): boolean;
}

export function dice(seed: number): Dice {
  const next = seeded(seed);
  return {
    int: (min, max) => min + Math.floor(next() * (max - min + 1)),
    chance: (of) => next() < of,
  };
}

/** Returns an expression of five fields, with lists, ranges, steps and names. */
export function randomExpression(roll: Dice): string {
  return FIELDS.map((field) => randomField(roll, field)).join(' ');
}

function randomField(roll: Dice, field: Field): string {
  if (roll.chance(field.star)) return '*';
  const length = roll.chance(0.3) ? roll.int(2, 4) : 1;
  return Array.from({ length }, () => randomPart(roll, field, length === 1)).join(',');
}

function randomPart(roll: Dice, field: Field, isAlone: boolean): string {
  const { min, max } = field;
  const step = roll.int(1, Math.ceil((max - min) / 2));
  if (isAlone && roll.chance(0.25)) return `*/${step}`;
  const from = roll.int(min, max);
  if (roll.chance(0.5)) return field === WEEKDAY && from === 0 && roll.chance(0.5) ? '7' : named(roll, field, from);
  const range = `${named(roll, field, from)}-${named(roll, field, roll.int(from, max))}`;
  return roll.chance(0.4) ? `${range}/${step}` : range;
}

function named(roll: Dice, { min, names }: Field, value: number): string {
  if (names === undefined || roll.chance(0.6)) return `${value}`;
  const name = names[value - min] as string;
  return roll.chance(0.5) ? name : name.toLowerCase();
}

/** Minutes since 1970 of a local clock, and its parts. */
export interface Wall {
  readonly minutes: number;
  readonly values: readonly [minute: number, hour: number, day: number, month: number, weekday: number];
}

/** A minute, and the local time in it. */
export interface Minute {
  readonly ms: number;
  readonly wall: Wall;
}

/** Returns the minutes of a time and what the clock of a zone shows in each. */
export function minutesOf(timeZone: string, fromMs: number, toMs: number): Minute[] {
  const format = new Intl.DateTimeFormat('sv', { timeZone, dateStyle: 'short', timeStyle: 'short' });
  const minutes: Minute[] = [];
  for (let ms = fromMs; ms <= toMs; ms += 60_000)
    minutes.push({ ms, wall: wallOf(Date.parse(`${format.format(ms)}Z`) / 60_000) });
  return minutes;
}

function wallOf(minutes: number): Wall {
  const date = new Date(minutes * 60_000);
  const days = [date.getUTCDate(), date.getUTCMonth() + 1, date.getUTCDay()] as const;
  return { minutes, values: [date.getUTCMinutes(), date.getUTCHours(), ...days] };
}

/**
 * Returns the due times of an expression by the rules of cron(8), as ms since 1970. The clock starts with a minute that
 * is only compared with.
 */
export function vixie(cron: string, clock: readonly Minute[]): number[] {
  const isDue = matcher(cron);
  const isFixed = !cron.split(' ', 2).some((text) => text.startsWith('*'));
  const dues: number[] = [];
  let latest = clock[0]?.wall.minutes as number;
  for (const { ms, wall } of clock.slice(1)) {
    const minutes = isFixed ? [] : [wall.minutes];
    // A clock that went forward skipped minutes. One that went back shows again what it showed before.
    for (; isFixed && latest < wall.minutes; latest += 1) minutes.push(latest + 1);
    if (minutes.some((minute) => isDue(wallOf(minute)))) dues.push(ms);
  }
  return dues;
}

/** Returns the expression with each field as a list of its values. */
export function spelledOut(cron: string): string {
  const texts = cron.split(' ');
  return FIELDS.map((field, n) => {
    const text = texts[n] as string;
    return text === '*' ? text : [...valuesOf(text, field)].join(',');
  }).join(' ');
}

function matcher(cron: string): (wall: Wall) => boolean {
  const texts = cron.split(' ');
  const [minutes, hours, days, months, weekdays] = FIELDS.map((field, n) => valuesOf(texts[n] as string, field)) as [
    Set<number>,
    Set<number>,
    Set<number>,
    Set<number>,
    Set<number>,
  ];
  const needsBoth = texts[2] === '*' || texts[4] === '*';
  return ({ values: [minute, hour, day, month, weekday] }) => {
    if (!minutes.has(minute) || !hours.has(hour) || !months.has(month)) return false;
    return needsBoth ? days.has(day) && weekdays.has(weekday) : days.has(day) || weekdays.has(weekday);
  };
}

function valuesOf(text: string, { min, max, names }: Field): Set<number> {
  const values = new Set<number>();
  const read = (value: string): number => {
    const index = names?.indexOf(value.toUpperCase()) ?? -1;
    return index === -1 ? Number(value) : index + min;
  };
  for (const part of text.split(',')) {
    const [range, step = '1'] = part.split('/') as [string, string?];
    const [from, to = from] = (range === '*' ? `${min}-${max}` : range).split('-').map(read) as [number, number?];
    for (let value = from; value <= to; value += Number(step)) values.add(names === DAYS ? value % 7 : value);
  }
  return values;
}

import { show } from './show.ts';

/**
 * A span of time: a number of milliseconds, or a decimal number with one of the units `ms`, `s`, `m`, `h`, `d`.
 *
 * The compiler refuses text of another form. Text that is only known when the program runs, such as a setting, needs
 * `as Duration`; each call checks it, and throws a `TypeError` if it is no duration.
 *
 * @example
 * ```ts
 * ctx.scheduleTimer(250);
 * ctx.scheduleTimer('1.5s');
 * ctx.scheduleTimer('7d');
 * await handle.result({ timeout: process.env.TIMEOUT as Duration });
 * ```
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

/**
 * A time as text, such as `'2030-01-31T12:00:00Z'`. For text that is only known when the program runs, use
 * `new Date(text)`.
 */
export type IsoTime = `${number}-${number}-${string}`;

/** Longest delay of `setTimeout` and `setInterval`, in ms (24.8 days). With a longer delay they fire at once. */
export const TIMER_MAX_MS = 0x7fff_ffff;

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** The units, the largest first. */
const UNITS = Object.entries(UNIT_MS).reverse();

/** Formats a duration without rounding it: `1d 2h 30m`, `1s 500ms`. */
export function exactSpanText(ms: number): string {
  let rest = ms;
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const amount = Math.floor(rest / size);
    if (amount > 0) parts.push(`${amount}${unit}`);
    rest -= amount * size;
  }
  return parts.join(' ') || '0ms';
}

/** Formats a duration in its largest unit without a fraction, as a duration is given: `90m`, `1d`. */
export function durationText(ms: number): string {
  const [unit, size] = UNITS.find(([, size]) => ms > 0 && ms % size === 0) ?? ['ms', 1];
  return `${ms / size}${unit}`;
}

/** The range of `Date`: a longer span could not be added to any time. */
const MAX_MS = 8.64e15;

/**
 * Returns the milliseconds of a duration, rounded to a whole number.
 *
 * @param value - the duration as the user gave it
 * @param option - the user's name for it, for the error: `retry.maxInterval`
 * @throws TypeError when it is no finite number >= 0 and no text of the form `'1.5s'`
 */
export function parseDuration(value: unknown, option: string): number {
  const ms = typeof value === 'string' ? parseText(value) : value;
  if (typeof ms !== 'number' || !(ms >= 0 && ms <= MAX_MS)) {
    throw new TypeError(
      `${option} must be a duration: a number of ms (finite, >= 0) or text ` +
        `such as '250ms', '1.5s', '5m', '24h', '7d'; got ${show(value)}`,
    );
  }
  return Math.round(ms);
}

function parseText(text: string): number {
  const [, amount, unit] = PATTERN.exec(text) ?? [];
  return amount === undefined || unit === undefined ? Number.NaN : Number(amount) * (UNIT_MS[unit] ?? Number.NaN);
}

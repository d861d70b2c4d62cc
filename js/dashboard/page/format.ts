// Times, durations and counts, formatted for people.

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
];

/** Formats a duration by its two largest units: `2 h 5 min`, `1.25 s`, `12 ms`. */
export function duration(ms: number): string {
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1_000).toFixed(2).replace(/\.?0+$/, '')} s`;
  const at = UNITS.findIndex(([unit]) => ms >= unit);
  const [unit, name] = UNITS[at] ?? [1_000, 's'];
  const count = Math.floor(ms / unit);
  const [small, smallName] = UNITS[at + 1] ?? [];
  if (small === undefined) return `${(ms / 1_000).toFixed(1).replace(/\.0$/, '')} s`;
  const rest = Math.floor((ms % unit) / small);
  return rest === 0 ? `${count} ${name}` : `${count} ${name} ${rest} ${smallName}`;
}

/** Formats the time until a moment in whole seconds, as the clock of the page ticks once a second. */
export function countdown(untilMs: number, nowMs: number): string {
  return duration(Math.ceil((untilMs - nowMs) / 1_000) * 1_000);
}

/** Formats a past time as its distance from now. */
export function ago(atMs: number, nowMs: number): string {
  const past = nowMs - atMs;
  return past < 1_000 ? 'now' : `${duration(Math.floor(past / 1_000) * 1_000)} ago`;
}

const TIME = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hourCycle: 'h23',
});

/** Formats date and time in the reader's time zone, to the ms. */
export function time(atMs: number): string {
  return TIME.format(atMs);
}

const COUNT = new Intl.NumberFormat();

export function count(value: number): string {
  return COUNT.format(value);
}

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a number of bytes: `812 B`, `1.5 MiB`. */
export function bytes(of: number): string {
  const at = Math.min(SIZES.length - 1, Math.floor(Math.log2(Math.max(1, of)) / 10));
  return `${(of / 1_024 ** at).toFixed(at === 0 ? 0 : 1).replace(/\.0$/, '')} ${SIZES[at]}`;
}

/** Formats a rate per second; a slow rate with two decimals. */
export function rate(perSecond: number): string {
  return perSecond >= 100
    ? count(Math.round(perSecond))
    : perSecond.toFixed(perSecond >= 10 ? 1 : 2).replace(/\.?0+$/, '');
}

/** Splits a name of the code into words: `ActivityCompleted` becomes `activity completed`. */
export function words(name: string): string {
  return name.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
}

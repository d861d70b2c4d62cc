// Validation of values that users hand over: a TypeError names the option, and the one that was probably meant.

import { types } from 'node:util';

import { parseDuration } from './duration.ts';
import { isInstance, isList, isRecord, property, show } from './show.ts';

/** The options that an object may hold, each with its check. */
export type OptionTable = Readonly<Record<string, (value: unknown, path: string) => void>>;

/**
 * Checks an options object against its table. `undefined` stands for no options, and for an option that is left out.
 *
 * @param where - the beginning of the error: `new Runtime`
 * @returns the checked options as they were read, once, so that no getter gives something else later
 * @throws TypeError naming the first option that is unknown or has a wrong value
 */
export function checkOptions<T>(options: T, table: OptionTable, where: string): T {
  if (options === undefined) return options;
  if (!isRecord(options)) throw new TypeError(`${where}: the options must be an object, got ${show(options)}`);
  const read = checkKeys(options, Object.keys(table), where);
  checkEach(read, table, `${where}: `);
  return read as T;
}

function checkEach(options: object, table: OptionTable, prefix: string): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    try {
      table[name]?.(value, prefix + name);
    } catch (error) {
      // The error of a check names its option. Any other error comes from a value that cannot be looked at.
      if (error instanceof TypeError && error.message.includes(name)) throw error;
      throw new TypeError(`${prefix}${name} cannot be read`, { cause: error });
    }
  }
}

/**
 * @returns the options as they were read
 * @throws TypeError naming the first own key of `options` that is not in `known`
 */
export function checkKeys(options: object, known: readonly string[], where: string): object {
  let read: object;
  try {
    read = Object.fromEntries(Object.entries(options));
  } catch (cause) {
    throw new TypeError(`${where}: the options cannot be read`, { cause });
  }
  for (const key of Object.keys(read)) {
    if (known.includes(key)) continue;
    const [near] = nearest(key, known);
    const hint = near === undefined ? `the options are ${known.join(', ')}` : `did you mean \`${near}\`?`;
    throw new TypeError(`${where}: unknown option \`${key.slice(0, KEY_SHOWN)}\`; ${hint}`);
  }
  return read;
}

/** The number of characters that are shown of an unknown key. */
const KEY_SHOWN = 60;

/** Returns the names that `name` may be a misspelling of, the nearest first. */
export function nearest(name: string, known: Iterable<string>): string[] {
  // No misspelling is that long, and comparing costs the product of the lengths.
  if (name.length > NAME_MAX) return [];
  const lower = name.toLowerCase();
  const far = Math.max(2, Math.floor(name.length / 3)) + 1;
  return [...known]
    .map((candidate) => ({ candidate, distance: editDistance(lower, candidate.toLowerCase()) }))
    .filter(
      ({ candidate, distance }) =>
        (distance < far && distance < candidate.length) ||
        (name.length >= PART_MIN && candidate.toLowerCase().includes(lower)),
    )
    .sort((a, b) => a.distance - b.distance)
    .map(({ candidate }) => candidate);
}

/** The number of characters from which a part of a name may be meant as the whole: `name` for `workerName`. */
const PART_MIN = 4;

/**
 * Returns the number of insertions, deletions, substitutions and swaps of neighbours that lead from one text to the
 * other (optimal string alignment).
 */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}

/** Longest id or name, in characters (UTF-16 code units). */
const NAME_MAX = 256;

/**
 * Checks an id or a name: 1 to 256 characters, no NUL, no lone surrogate.
 *
 * @param what - the kind of value, for the error: `instance id`
 * @throws TypeError when it is no such id or name
 */
export function checkName(value: unknown, what: string): asserts value is string {
  if (typeof value !== 'string') throw new TypeError(`the ${what} must be a string, got ${show(value)}`);
  if (value.length === 0) throw new TypeError(`the ${what} must not be empty`);
  if (value.length > NAME_MAX)
    throw new TypeError(`the ${what} must have at most ${NAME_MAX} characters, got ${value.length}`);
  if (value.includes('\0')) throw new TypeError(`the ${what} must not contain NUL`);
  if (!value.isWellFormed()) throw new TypeError(`the ${what} must not contain a lone surrogate`);
}

/** Returns the check of a whole number within bounds. */
export function whole(min: number, max: number = Number.MAX_SAFE_INTEGER): (value: unknown, path: string) => void {
  return (value, path) => {
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return;
    const bounds = max === Number.MAX_SAFE_INTEGER ? `>= ${min}` : `from ${min} to ${max}`;
    throw new TypeError(`${path} must be a whole number ${bounds}, got ${show(value)}`);
  };
}

/** Returns the check of a finite number within bounds. */
export function finite(min: number, max: number = Number.MAX_VALUE): (value: unknown, path: string) => void {
  return (value, path) => {
    if (typeof value === 'number' && value >= min && value <= max) return;
    const bounds = max === Number.MAX_VALUE ? `>= ${min}` : `from ${min} to ${max}`;
    throw new TypeError(`${path} must be a number ${bounds}, got ${show(value)}`);
  };
}

/** Returns the check of one of some words. */
export function oneOf(...words: readonly string[]): (value: unknown, path: string) => void {
  return (value, path) => {
    if (typeof value === 'string' && words.includes(value)) return;
    const [near] = typeof value === 'string' ? nearest(value, words) : [];
    const list = words.map((word) => `'${word}'`).join(', ');
    throw new TypeError(
      `${path} must be one of ${list}, got ${show(value)}${near === undefined ? '' : `; did you mean '${near}'?`}`,
    );
  };
}

/** Returns the check of a duration of at least `min` ms. */
export function duration(min = 0): (value: unknown, path: string) => void {
  return (value, path) => {
    if (parseDuration(value, path) < min) throw new TypeError(`${path} must be at least ${min} ms, got ${show(value)}`);
  };
}

/** The beginning of a time as text. No duration begins like that. */
export const ISO_TIME = /^[+-]?\d{4,6}-/;

/**
 * Returns the ms since 1970 of a time.
 *
 * @throws TypeError when it is neither a valid `Date` nor ISO text
 */
export function timeOf(value: unknown, path: string): number {
  const isText = typeof value === 'string' && ISO_TIME.test(value);
  const at = isInstance(value, Date) ? timeIn(value) : isText ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(at))
    throw new TypeError(
      `${path} must be a time: a valid Date, or text such as '2030-01-31T12:00:00Z'; got ${show(value)}`,
    );
  return at;
}

/** A proxy of a `Date` has its prototype, but its time cannot be read. */
function timeIn(date: Date): number {
  return types.isDate(date) ? date.getTime() : Number.NaN;
}

/** Checks a time; see {@link timeOf}. */
export function time(value: unknown, path: string): void {
  timeOf(value, path);
}

/** Returns the check of a list of times, with a least and a most number of them. */
export function listOfTimes(min: number, max: number): (value: unknown, path: string) => void {
  return (value, path) => {
    if (!isList(value)) throw new TypeError(`${path} must be a list of times, got ${show(value)}`);
    if (value.length < min || value.length > max)
      throw new TypeError(`${path} must have ${min} to ${max} times, got ${value.length}`);
    for (const [i, item] of value.entries()) time(item, `${path}[${i}]`);
  };
}

export function bool(value: unknown, path: string): void {
  if (typeof value !== 'boolean') throw new TypeError(`${path} must be true or false, got ${show(value)}`);
}

export function func(value: unknown, path: string): void {
  if (typeof value !== 'function') throw new TypeError(`${path} must be a function, got ${show(value)}`);
}

export function text(value: unknown, path: string): void {
  if (typeof value !== 'string') throw new TypeError(`${path} must be a string, got ${show(value)}`);
}

/** Checks a priority. Waiting work of higher priority goes first. The store holds a 32-bit integer. */
export const priority = whole(-0x8000_0000, 0x7fff_ffff);

/** Checks an id or a name; see {@link checkName}. */
export function named(value: unknown, path: string): void {
  try {
    checkName(value, 'value');
  } catch (error) {
    throw new TypeError(`${path}: ${(error as Error).message}`);
  }
}

export function listOfTexts(value: unknown, path: string): void {
  if (!isList(value)) throw new TypeError(`${path} must be a list of strings, got ${show(value)}`);
  for (const [i, item] of value.entries()) text(item, `${path}[${i}]`);
}

/** Checks a list of names. */
export function listOfNames(value: unknown, path: string): void {
  if (!isList(value)) throw new TypeError(`${path} must be a list of names, got ${show(value)}`);
  for (const [i, item] of value.entries()) checkName(item, `${path}[${i}]`);
}

/** Checks an object whose values are all strings. */
export function textsByName(value: unknown, path: string): void {
  if (!isRecord(value)) throw new TypeError(`${path} must be an object of strings, got ${show(value)}`);
  for (const [name, item] of Object.entries(value)) text(item, `${path}.${name}`);
}

/** Returns the check of an object with options of its own. */
export function nested(table: OptionTable): (value: unknown, path: string) => void {
  return (value, path) => {
    if (!isRecord(value)) throw new TypeError(`${path} must be an object, got ${show(value)}`);
    checkEach(checkKeys(value, Object.keys(table), path), table, `${path}.`);
  };
}

/** Returns the check of a foreign object, which must have these methods. */
export function hasMethods(...methods: readonly string[]): (value: unknown, path: string) => void {
  return (value, path) => {
    for (const method of methods) {
      if (typeof property(value, method) !== 'function')
        throw new TypeError(`${path} must have the method ${method}, got ${show(value)}`);
    }
  };
}

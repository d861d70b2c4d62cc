// Arguments of commands: converts texts of the command line to values for the client.

import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';

import { InvalidArgumentError } from 'commander';

import { STATES } from '../client/instance-status.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { nearest } from '../util/options.ts';
import { show } from '../util/show.ts';
import { usageError } from './exit.ts';

/** The description of an argument that {@link valueOf} reads. */
export const DATA = 'data as JSON, @ and the path of a JSON file, or - for standard input';

/** Parses a whole number of at least `min`. */
export function wholeNumber(min: number): (text: string) => number {
  return (digits) => {
    const value = Number(digits);
    if (/^-?\d+$/.test(digits) && Number.isSafeInteger(value) && value >= min) return value;
    throw new InvalidArgumentError(`It must be a whole number >= ${min}.`);
  };
}

/** Parses a duration, to ms. */
export function spanArgument(text: string): number {
  try {
    return parseDuration(/^\d+$/.test(text) ? Number(text) : (text as Duration), 'it');
  } catch {
    throw new InvalidArgumentError("It must be a duration such as '250ms', '1.5s', '5m', '24h', '7d'.");
  }
}

/** Parses a time: ISO text, or an age such as `24h`. */
export function timeArgument(text: string): Date {
  try {
    return new Date(Date.now() - parseDuration(text, 'it'));
  } catch {
    const time = timeIn(text);
    if (time !== undefined) return time;
    throw new InvalidArgumentError("It must be a time such as '2026-01-31T12:00:00Z', or an age such as '24h'.");
  }
}

/** Parses a time that may lie ahead: ISO text. */
export function dateArgument(text: string): Date {
  const time = timeIn(text);
  if (time === undefined) throw new InvalidArgumentError("It must be a time such as '2030-01-31T12:00:00Z'.");
  return time;
}

/** Parses a list of times, one in each argument; see {@link dateArgument}. */
export function datesArgument(text: string, before: readonly Date[] = []): Date[] {
  return [...before, dateArgument(text)];
}

function timeIn(text: string): Date | undefined {
  const time = new Date(text);
  return /^\d{4}-/.test(text) && !Number.isNaN(time.getTime()) ? time : undefined;
}

/** Parses one or more words, separated by commas, in any case. Repeated options add up. */
export function wordsOf<T extends string>(words: readonly T[]): (text: string, before?: T[]) => T[] {
  return (text, before = []) => {
    const found = text.split(',').map((part) => {
      const word = words.find((each) => each.toLowerCase() === part.trim().toLowerCase());
      if (word !== undefined) return word;
      const [near] = nearest(part, words);
      throw new InvalidArgumentError(
        `'${part}' is not one of ${words.join(', ')}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
      );
    });
    return [...before, ...found];
  };
}

export const statesArgument = wordsOf(STATES);

/** Parses `name=value`. Repeated options add up. */
export function tagArgument(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('It must be name=value.');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

/**
 * Reads a value: JSON, `@` and the path of a file that holds JSON, or `-` for JSON on the standard input; `undefined`
 * without an argument.
 */
export async function valueOf(argument: string | undefined): Promise<unknown> {
  if (argument === undefined) return undefined;
  const [where, json] = await textOf(argument);
  try {
    return JSON.parse(json);
  } catch (error) {
    const hint = json === argument ? `; write a text as '"…"', a file as @path, and standard input as -` : '';
    throw usageError(`${where} is not JSON: ${(error as Error).message}${hint}`);
  }
}

/** Returns the source of a value's JSON, and the JSON. */
async function textOf(argument: string): Promise<[where: string, json: string]> {
  if (argument === '-') return ['standard input', await text(process.stdin)];
  if (!argument.startsWith('@')) return [show(argument), argument];
  const path = argument.slice(1);
  try {
    return [path, await readFile(path, 'utf8')];
  } catch (error) {
    throw usageError(`${path} cannot be read: ${(error as Error).message}`);
  }
}

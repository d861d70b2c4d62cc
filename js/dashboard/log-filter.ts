// The filter of logged lines, for the server and the page.

import type { LogLevel, LogRow } from './answers.ts';

/** The levels, the least severe first. */
export const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error'];

/** Lines of an answer without `limit`, and by which the page raises it on request. */
export const LINES = 200;

/** Most lines of an answer. */
export const LINES_MAX = 1_000;

/** Returns true if `level` is at least as severe as `least`. */
export function isSevere(level: LogLevel, least: LogLevel): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(least);
}

/** Returns the fields of a line as one line of text; empty without fields. */
export function fieldsLine({ fields }: Pick<LogRow, 'fields'>): string {
  return fields === undefined ? '' : `${fields.text.replaceAll(/\s+/g, ' ')}${fields.isWhole ? '' : '…'}`;
}

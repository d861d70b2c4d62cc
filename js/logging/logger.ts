// Loggers: the destinations of log lines.

import { escapeControls, printableLines } from '../util/printable.ts';
import { property } from '../util/show.ts';
import { fieldsText, type TraceFields, type TraceLevel } from './fields.ts';

/** A logger as pino, bunyan and others offer it: fields first, then the message. */
export type Logger = {
  [level in TraceLevel]: (fields: TraceFields, message: string) => void;
};

/** The least severe level that is logged; `'silent'` logs nothing. */
export type LogLevel = TraceLevel | 'silent';

export const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

/** True if a line of `level` is logged when `threshold` is the least severe level. */
export function isLogged(level: TraceLevel, threshold: LogLevel): boolean {
  return LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(threshold);
}

/**
 * Writes one line of text per entry to stderr: time, level, message, fields as JSON. Control characters are shown as
 * escapes. Text after a line break in a message is indented, so that no id or name looks like an entry of its own.
 */
export const consoleLogger: Logger = {
  debug: (fields, message) => print('DEBUG', fields, message),
  info: (fields, message) => print('INFO ', fields, message),
  warn: (fields, message) => print('WARN ', fields, message),
  error: (fields, message) => print('ERROR', fields, message),
};

function print(level: string, fields: TraceFields, message: string): void {
  const text = Object.keys(fields).length === 0 ? '' : ` ${escapeControls(fieldsText(fields))}`;
  console.error(`${new Date().toISOString()} ${level} perdure: ${printableLines(message, '    ')}${text}`);
}

/** @throws TypeError when `value` is no logger */
export function checkLogger(value: unknown, path: string): void {
  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    if (typeof property(value, level) !== 'function') {
      throw new TypeError(
        `${path} must have the methods debug, info, warn and error, but the method ${level} is missing`,
      );
    }
  }
}

// Loggers: the destinations of log lines.

import { escapeControls, printable, printableLines } from '../util/printable.ts';
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

/** The form of log lines: for a person at a terminal, or a line of JSON per entry for programs. */
export type LogStyle = 'json' | 'plain' | 'colors';

/** The most lines of an error's stack that a terminal shows. */
const FRAMES_MAX = 4;

/**
 * Writes to stderr. On a terminal: time and message, the fields below them, and the first lines of an error's stack.
 * Elsewhere: a line of JSON per entry with `time`, `level`, `name` (`perdure`), `message` and the fields.
 *
 * Control characters are shown as escapes, and text after a line break in a message is indented. So no id or name looks
 * like an entry of its own.
 */
export const consoleLogger: Logger = loggerOf((text) => console.error(text), styleOf(process.stderr));

/** Returns the style for a stream. */
export function styleOf(stream: { readonly isTTY?: boolean; hasColors?(): boolean }): LogStyle {
  if (stream.isTTY !== true) return 'json';
  return stream.hasColors?.() === true ? 'colors' : 'plain';
}

/** Returns a logger that writes entries in a style. */
export function loggerOf(write: (entry: string) => void, style: LogStyle): Logger {
  const at = (level: TraceLevel) => (fields: TraceFields, message: string) => {
    const time = new Date();
    write(style === 'json' ? jsonEntry(time, level, fields, message) : entry(time, level, fields, message, style));
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

function jsonEntry(time: Date, level: TraceLevel, fields: TraceFields, message: string): string {
  const own = JSON.stringify({ time, level, name: 'perdure', message });
  const text = fieldsText(withoutOwn(fields));
  return escapeControls(text === '{}' ? own : `${own.slice(0, -1)},${text.slice(1)}`);
}

const OWN = new Set(['time', 'level', 'name', 'message']);

/** Returns fields under names that the logger does not use itself: `fields.name` in place of `name`. */
function withoutOwn(fields: TraceFields): TraceFields {
  const names = Object.keys(fields);
  if (!names.some((name) => OWN.has(name))) return fields;
  return Object.fromEntries(names.map((name) => [OWN.has(name) ? `fields.${name}` : name, fields[name]]));
}

/** SGR codes of the terminal. */
const COLORS = { debug: 2, info: 36, warn: 33, error: 31 } as const;
const DIM = 2;

function entry(time: Date, level: TraceLevel, fields: TraceFields, message: string, style: LogStyle): string {
  const painted = (text: string, code: number) => (style === 'colors' ? `\u001b[${code}m${text}\u001b[0m` : text);
  const { error, ...others } = fields;
  const clock = painted(time.toISOString().slice(11, -1), DIM);
  const lines = [
    `${clock} ${painted(level.toUpperCase().padEnd(5), COLORS[level])} ${printableLines(message, '    ')}`,
  ];
  const details = escapeControls(fieldsText(error instanceof Error ? others : fields));
  if (details !== '{}') lines.push(painted(`    ${details}`, DIM));
  const frames = error instanceof Error ? String(error.stack).split('\n').filter(isFrame).slice(0, FRAMES_MAX) : [];
  lines.push(...frames.map((frame) => painted(`    ${printable(frame.trim())}`, DIM)));
  return lines.join('\n');
}

/** True for a line of a stack that is not Node's own. */
function isFrame(line: string): boolean {
  return /^\s+at /.test(line) && !/[( ]node:/.test(line);
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

// Values, times and sizes as text for a terminal. No text of a store may control the terminal: control characters are
// shown, not sent.

import { errorJson } from '../errors/error-json.ts';
import { boundedInspect } from '../util/bounded-inspect.ts';
import { escapeControls, printable } from '../util/printable.ts';
import { isList } from '../util/show.ts';

export { printable, printableLines } from '../util/printable.ts';

/** Formats a user value as JavaScript shows it, over several lines if it is long. */
export function valueText(value: unknown, width: number, colors: boolean): string {
  return escapeControls(
    boundedInspect(value, { depth: 12, breakLength: width, colors, maxArrayLength: 200, maxStringLength: 10_000 }).text,
  );
}

/** Returns a value as JSON text that is as harmless to print, and has the same meaning. */
export function jsonText(value: unknown, indent?: number): string {
  return escapeControls(JSON.stringify(value, null, indent) ?? 'null');
}

/** Formats a user value in one line of limited length. */
export function valueLine(value: unknown, length: number): string {
  const { text } = boundedInspect(value, {
    depth: 4,
    breakLength: Infinity,
    compact: true,
    maxArrayLength: 20,
    maxStringLength: length,
  });
  return shortened(printable(text), length);
}

export function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, Math.max(length - 1, 0))}…` : text;
}

const SPANS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
];

/** Formats a duration by its two largest units: `3d 4h`, `2m 5s`, `1.2s`, `45ms`. */
export function spanText(ms: number): string {
  if (ms < 0) return `-${spanText(-ms)}`;
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 60_000) return `${Number((ms / 1_000).toFixed(1))}s`;
  const at = SPANS.findIndex(([, size]) => ms >= size);
  const [unit, size] = SPANS[at] as readonly [string, number];
  const [smaller, part] = SPANS[at + 1] ?? ['s', 1_000];
  const rest = Math.floor((ms % size) / part);
  return `${Math.floor(ms / size)}${unit}${rest === 0 ? '' : ` ${rest}${smaller}`}`;
}

/** Formats a time as its distance from now, past or future. */
export function agoText(time: Date, now = Date.now()): string {
  const ms = now - time.getTime();
  return ms < 0 ? `in ${spanText(-ms)}` : `${spanText(ms)} ago`;
}

/** Formats a past time as the span since it: `for 3 s`. */
export function sinceText(time: Date): string {
  return `for ${agoText(time).replace(' ago', '')}`;
}

/** Formats a time in UTC, to the ms: `2026-01-31 12:00:00.000Z`. */
export function timeText(time: Date): string {
  return time.toISOString().replace('T', ' ');
}

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a number of bytes in the unit that reads best. */
export function bytesText(bytes: number): string {
  const at = bytes < 1 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), SIZES.length - 1);
  const amount = bytes / 1_024 ** at;
  return `${at === 0 ? amount : amount.toFixed(1)} ${SIZES[at]}`;
}

export function countText(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/**
 * Converts a value to one that JSON can hold: a `Date` to its ISO text, bigints, URLs and regular expressions to texts,
 * a `Map` to a list of its entries, a `Set` and a typed array to lists, an error to its name, message, code, fields and
 * cause; a circular reference to `"[circular]"`.
 */
export function plainValue(value: unknown, above: readonly object[] = []): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  if (above.includes(value)) return '[circular]';
  const inner = [...above, value];
  const plain = (item: unknown): unknown => plainValue(item, inner);
  if (isList(value)) return value.map(plain);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Map) return [...value].map(plain);
  if (value instanceof Set) return [...value].map(plain);
  if (value instanceof URL || value instanceof RegExp) return String(value);
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return [...(value as Uint8Array)].map(plain);
  if (value instanceof ArrayBuffer) return [...new Uint8Array(value)];
  if (value instanceof Error) return plain(errorJson(value));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
}

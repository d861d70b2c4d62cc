// A history as a waterfall of characters: one line for each bar, drawn from its beginning to its end.

import stringWidth from 'string-width';

import type { Bar, Bars } from '../dashboard/bars.ts';
import { truncate } from './table.ts';
import type { Style, Terminal } from './terminal.ts';
import { printable, spanText } from './text.ts';

/** Largest width of names, and of the whole picture. */
const NAME_MAX = 32;
const WIDTH = 100;
/** Smallest width of the bars. */
const PICTURE_MIN = 20;

/** Blocks for eighths of a character: one eighth, two eighths, and so on. */
const EIGHTHS = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/**
 * Returns the lines of all bars, in the order in which they began. Each attempt has a line of its own. The wait before
 * a retry has no line.
 */
export function waterfall(terminal: Terminal, bars: Bars, nowMs: number): string[] {
  const all = bars.rows.flat().filter(({ kind }) => kind !== 'retry');
  all.sort((one, other) => one.fromMs - other.fromMs || one.event - other.event);
  const endMs = bars.isOpen ? Math.max(nowMs, bars.lastMs) : bars.lastMs;
  const names = all.map(nameOf);
  const nameWidth = Math.max(...names.map((name) => stringWidth(name)));
  const took = all.map((bar) => tookOf(bar, endMs));
  const tookWidth = Math.max(...took.map((text) => text.length));
  const width = Math.max(PICTURE_MIN, Math.min(terminal.width, WIDTH) - nameWidth - tookWidth - 4);
  return all.map((bar, at) => {
    const name = (names[at] as string) + ' '.repeat(nameWidth - stringWidth(names[at] as string));
    const picture = pictureOf(bar, bars.fromMs, Math.max(endMs, bars.fromMs + 1), width);
    const time = terminal.style('dim', (took[at] as string).padStart(tookWidth));
    return `${name}  ${time}  ${terminal.style(styleOf(bar), picture)}`.trimEnd();
  });
}

function nameOf({ kind, label, instance, attempt = 1 }: Bar): string {
  const what = kind === 'wait' ? `${label} awaited` : instance === undefined ? label : `${label} ${instance}`;
  return truncate(printable(what), NAME_MAX) + (attempt === 1 ? '' : ` #${attempt}`);
}

/** Returns the duration of a bar: so far, if it is open; until it is due, if it has not begun. */
function tookOf({ fromMs, toMs }: Bar, endMs: number): string {
  if (toMs !== undefined) return spanText(toMs - fromMs);
  return fromMs > endMs ? `in ${spanText(fromMs - endMs)}` : `${spanText(endMs - fromMs)}…`;
}

/** Draws spaces up to the beginning of a bar, then blocks. The bar has at least one eighth, so that it is visible. */
function pictureOf({ fromMs, toMs = Infinity }: Bar, beginMs: number, endMs: number, width: number): string {
  const eighths = (ms: number): number => Math.round(((Math.min(ms, endMs) - beginMs) / (endMs - beginMs)) * width * 8);
  const from = Math.min(Math.floor(eighths(fromMs) / 8), width - 1);
  const length = Math.max(1, eighths(toMs) - from * 8);
  const rest = length % 8;
  return ' '.repeat(from) + '█'.repeat(Math.floor(length / 8)) + (rest === 0 ? '' : (EIGHTHS[rest - 1] as string));
}

function styleOf({ kind, state }: Bar): Style {
  if (state === 'failed') return 'red';
  if (state === 'cancelled') return 'dim';
  if (kind === 'activity') return 'green';
  if (kind === 'timer') return 'magenta';
  if (kind === 'wait') return 'yellow';
  return kind === 'child' ? 'blue' : 'reset';
}

// A history as a waterfall of characters: one line for each bar, drawn from its beginning to its end, and one line for
// many like bars, drawn as their number over time.

import stringWidth from 'string-width';

import type { Bar, BarState, Bars } from '../dashboard/bars.ts';
import { MARKS } from './marks.ts';
import { truncate } from './table.ts';
import type { Style, Terminal } from './terminal.ts';
import { printable, spanText } from './text.ts';

/** Largest width of names, and of the whole picture. */
const NAME_MAX = 32;
const WIDTH = 100;
/** Smallest width of the bars. */
const PICTURE_MIN = 20;

/** Most bars of the same kind and name that have a line each. More of them share one line. */
export const LIKE_MAX = 20;

/** Blocks for eighths of a character, from the left and from below: one eighth, two eighths, and so on. */
const EIGHTHS = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const HEIGHTS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

export interface WaterfallOptions {
  /** The right end of the picture if the execution is open, ms since 1970. */
  readonly nowMs: number;
  /** The bars of the takeovers of dead workers. */
  readonly takeovers?: readonly Bar[];
  /** True to draw a line for each bar, however many are alike. */
  readonly isWhole?: boolean;
}

/** One line of the waterfall: a bar, or several like ones in the order in which they began. */
interface Line {
  readonly bars: readonly [Bar, ...Bar[]];
  readonly name: string;
  readonly state: BarState;
  readonly fromMs: number;
  /** End of the last bar; `undefined` while a bar is open. */
  readonly toMs: number | undefined;
}

/**
 * Returns the lines, in the order in which their first bars began. Each attempt is a bar of its own. The wait before a
 * retry is none.
 */
export function waterfall(
  terminal: Terminal,
  bars: Bars,
  { nowMs, takeovers = [], isWhole = false }: WaterfallOptions,
): string[] {
  const all = [...bars.rows.flat().filter(({ kind }) => kind !== 'retry'), ...takeovers];
  all.sort((one, other) => one.fromMs - other.fromMs || one.event - other.event);
  const lines = linesOf(all, isWhole);
  const endMs = bars.isOpen ? Math.max(nowMs, bars.lastMs) : bars.lastMs;
  const nameWidth = widest(lines.map(({ name }) => stringWidth(name)));
  const took = lines.map((line) => tookOf(line, endMs));
  const tookWidth = widest(took.map((text) => text.length));
  const width = Math.max(PICTURE_MIN, Math.min(terminal.width, WIDTH) - nameWidth - tookWidth - 6);
  const scale: Scale = { beginMs: bars.fromMs, endMs: Math.max(endMs, bars.fromMs + 1), width };
  return lines.map((line, at) => {
    const { sign, style } = MARKS[line.state];
    const name = line.name + ' '.repeat(nameWidth - stringWidth(line.name));
    const picture = line.bars.length === 1 ? pictureOf(line.bars[0], scale) : loadOf(line.bars, scale);
    const time = terminal.style('dim', (took[at] as string).padStart(tookWidth));
    return `${terminal.style(style, sign)} ${name}  ${time}  ${terminal.style(styleOf(line), picture)}`.trimEnd();
  });
}

function linesOf(all: readonly Bar[], isWhole: boolean): Line[] {
  const alike = new Map<string, [Bar, ...Bar[]]>();
  for (const bar of all) {
    const group = alike.get(likenessOf(bar));
    if (group === undefined) alike.set(likenessOf(bar), [bar]);
    else group.push(bar);
  }
  const lines: Line[] = [];
  for (const bar of all) {
    const group = alike.get(likenessOf(bar)) as [Bar, ...Bar[]];
    if (isWhole || group.length <= LIKE_MAX) lines.push(lineOf([bar]));
    else if (group[0] === bar) lines.push(lineOf(group));
  }
  return lines;
}

/** Returns a text that like bars share: attempts of activities of the same name, children of the same orchestration. */
function likenessOf({ kind, label }: Bar): string {
  return `${kind} ${label}`;
}

function lineOf(bars: readonly [Bar, ...Bar[]]): Line {
  const [first] = bars;
  const { fromMs } = first;
  if (bars.length === 1) return { bars, name: nameOf(first), state: first.state, fromMs, toMs: first.toMs };
  // The state of an operation is that of its last attempt.
  const operations = new Map(bars.map(({ event, state }) => [event, state]));
  const states = new Set(operations.values());
  const state = (['failed', 'open', 'ok', 'cancelled'] as const).find((each) => states.has(each)) ?? 'ok';
  const counts = (['failed', 'cancelled', 'open'] as const).map((each) => {
    const count = bars.filter((bar) => bar.state === each).length;
    return count === 0 ? '' : ` ${MARKS[each].sign}${count}`;
  });
  const { kind, label } = first;
  let toMs: number | undefined = 0;
  for (const bar of bars) toMs = toMs === undefined || bar.toMs === undefined ? undefined : Math.max(toMs, bar.toMs);
  return { bars, name: `${titleOf(kind, label)} ×${operations.size}${counts.join('')}`, state, fromMs, toMs };
}

function nameOf({ kind, label, instance, attempt = 1 }: Bar): string {
  return titleOf(kind, instance === undefined ? label : `${label} ${instance}`) + (attempt === 1 ? '' : ` #${attempt}`);
}

function titleOf(kind: Bar['kind'], label: string): string {
  return truncate(printable(kind === 'wait' ? `${label} awaited` : label), NAME_MAX);
}

/** Returns the duration of a line: so far, if it is open; until it is due, if it has not begun. */
function tookOf({ fromMs, toMs }: Line, endMs: number): string {
  if (toMs !== undefined) return spanText(toMs - fromMs);
  return fromMs > endMs ? `in ${spanText(fromMs - endMs)}` : `${spanText(endMs - fromMs)}…`;
}

/** The time that a picture shows, and its width in characters. */
interface Scale {
  readonly beginMs: number;
  readonly endMs: number;
  readonly width: number;
}

/** Returns the number of eighths of a character from the left end of the picture. */
function eighthsTo(ms: number, { beginMs, endMs, width }: Scale): number {
  return Math.round(((Math.min(ms, endMs) - beginMs) / (endMs - beginMs)) * width * 8);
}

function columnOf(ms: number, scale: Scale): number {
  return Math.min(Math.floor(eighthsTo(ms, scale) / 8), scale.width - 1);
}

/** Draws spaces up to the beginning of a bar, then blocks. The bar has at least one eighth, so that it is visible. */
function pictureOf({ fromMs, toMs = Infinity }: Bar, scale: Scale): string {
  const from = columnOf(fromMs, scale);
  const length = Math.max(1, eighthsTo(toMs, scale) - from * 8);
  const rest = length % 8;
  return ' '.repeat(from) + '█'.repeat(Math.floor(length / 8)) + (rest === 0 ? '' : (EIGHTHS[rest - 1] as string));
}

/** Draws the number of bars over time: a full block stands for the largest number. */
function loadOf(bars: readonly Bar[], scale: Scale): string {
  const changes = new Array<number>(scale.width + 1).fill(0);
  for (const { fromMs, toMs = Infinity } of bars) {
    const [first, last] = [columnOf(fromMs, scale), columnOf(toMs, scale)];
    changes[first] = (changes[first] ?? 0) + 1;
    changes[last + 1] = (changes[last + 1] ?? 0) - 1;
  }
  let count = 0;
  const counts = changes.slice(0, -1).map((change) => (count += change));
  const most = widest(counts);
  return counts.map((each) => (each === 0 ? ' ' : HEIGHTS[Math.ceil((each / most) * 8) - 1])).join('');
}

/** Returns the largest number. A call of `Math.max` has a limit of arguments. */
function widest(numbers: readonly number[]): number {
  return numbers.reduce((most, each) => Math.max(most, each), 0);
}

function styleOf({ bars: [{ kind }], state }: Line): Style {
  if (state === 'failed') return 'red';
  if (state === 'cancelled') return 'dim';
  if (kind === 'activity') return 'green';
  if (kind === 'timer') return 'magenta';
  if (kind === 'wait') return 'yellow';
  return kind === 'child' ? 'blue' : 'reset';
}

// The visible part of a timeline: zooming, moving, the steps of its axis, and the segments of a row.

import type { EventRow } from '../answers.ts';
import type { Bar, BarKind, BarState } from '../bars.ts';

/** Shortest time that can be zoomed to, ms. */
export const SPAN_MIN = 1;

/** Bars of a row up to which each one is drawn. Above that, bars that are close to each other are drawn as one. */
const EXACT_MAX = 60;

/** Slots that a row with more bars is divided into. */
const SLOTS = 240;

export interface View {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Facts and functions that all rows of a timeline use. */
export interface TimelineContext {
  readonly id: string;
  readonly execution: number;
  readonly events: readonly EventRow[];
  /** Beginning of the execution, ms since 1970. */
  readonly beginMs: number;
  /** End of the execution, or the present, ms since 1970. */
  readonly nowMs: number;
  readonly view: View;
  /** The event that is selected in the history. */
  readonly selected: number | undefined;
  onSelect(event: number): void;
}

/** A piece of a row, in percent of the visible part. */
export interface Segment {
  readonly kind: BarKind;
  readonly state: BarState;
  readonly left: number;
  readonly width: number;
  /** The bar, unless the segment stands for several. */
  readonly bar?: Bar;
}

/** Returns the view with its time multiplied by a factor. Returns `undefined` if the whole history is visible then. */
export function zoomed({ fromMs, toMs }: View, whole: View, factor: number, aroundMs?: number): View | undefined {
  const span = Math.min(Math.max((toMs - fromMs) * factor, SPAN_MIN), whole.toMs - whole.fromMs);
  if (span >= whole.toMs - whole.fromMs) return undefined;
  const at = aroundMs ?? (fromMs + toMs) / 2;
  return within(
    {
      fromMs: at - ((at - fromMs) / (toMs - fromMs)) * span,
      toMs: at + ((toMs - at) / (toMs - fromMs)) * span,
    },
    whole,
  );
}

/** Moves a view so that it lies within the history. */
export function within({ fromMs, toMs }: View, whole: View): View {
  const span = toMs - fromMs;
  const from = Math.max(whole.fromMs, Math.min(fromMs, whole.toMs - span));
  return { fromMs: from, toMs: from + span };
}

/** Steps of the time axis in round units, ms. */
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
  3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];

/** Returns the times of the axis in ms since `beginMs`, at most `most` of them. */
export function ticksOf({ fromMs, toMs }: View, beginMs: number, most: number): number[] {
  const least = (toMs - fromMs) / Math.max(1, most);
  const day = 86_400_000;
  const step = STEPS.find((step) => step >= least) ?? Math.ceil(least / day) * day;
  const ticks: number[] = [];
  for (let at = Math.ceil((fromMs - beginMs) / step) * step; at <= toMs - beginMs; at += step) ticks.push(at);
  return ticks;
}

/** Returns the visible segments of the bars of one row. Open bars end now. */
export function segmentsOf(bars: readonly Bar[], { fromMs, toMs }: View, nowMs: number): Segment[] {
  const percent = (ms: number): number => ((ms - fromMs) / (toMs - fromMs)) * 100;
  const seen = bars
    .map((bar) => ({ bar, end: bar.toMs ?? Math.max(nowMs, bar.fromMs) }))
    .filter(({ bar, end }) => bar.fromMs <= toMs && end >= fromMs);
  if (seen.length > EXACT_MAX)
    return merged(seen.map(({ bar, end }) => ({ bar, from: percent(bar.fromMs), to: percent(end) })));
  return seen.map(({ bar, end }) => {
    const left = Math.max(0, percent(bar.fromMs));
    return { kind: bar.kind, state: bar.state, left, width: Math.min(100, percent(end)) - left, bar };
  });
}

/** The states of a slot that several bars share, the most important one last. */
const WEIGHT: readonly BarState[] = ['ok', 'cancelled', 'open', 'failed'];

function merged(bars: readonly { bar: Bar; from: number; to: number }[]): Segment[] {
  const slots: (Bar | undefined)[] = new Array(SLOTS);
  const slotOf = (percent: number): number => Math.min(SLOTS - 1, Math.max(0, Math.floor((percent / 100) * SLOTS)));
  for (const { bar, from, to } of bars) {
    if (bar.kind === 'retry') continue;
    for (let slot = slotOf(from); slot <= slotOf(to); slot += 1) {
      const there = slots[slot];
      if (there === undefined || WEIGHT.indexOf(bar.state) > WEIGHT.indexOf(there.state)) slots[slot] = bar;
    }
  }
  const segments: Segment[] = [];
  for (let from = 0; from < SLOTS; ) {
    const bar = slots[from];
    let to = from + 1;
    while (to < SLOTS && slots[to]?.state === bar?.state) to += 1;
    if (bar !== undefined)
      segments.push({
        kind: bar.kind,
        state: bar.state,
        left: (from / SLOTS) * 100,
        width: ((to - from) / SLOTS) * 100,
      });
    from = to;
  }
  return segments;
}

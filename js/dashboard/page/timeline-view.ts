// The visible part of a timeline, and the bars that are found in it.

import { type Bar, type Bars, firstAt } from '../bars.ts';

/** Shortest time that can be zoomed to, ms. */
export const SPAN_MIN = 1;

export interface View {
  readonly fromMs: number;
  readonly toMs: number;
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

/** Returns the bar that an event ended or began; for an activity that of its last attempt. */
export function barOf(bars: Bars, event: number | undefined): Bar | undefined {
  if (event === undefined) return undefined;
  const find = (is: (bar: Bar) => boolean): Bar | undefined => {
    for (const row of bars.rows) {
      const found = row.findLast(is);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  return find(({ endEvent }) => endEvent === event) ?? find((bar) => bar.event === event && bar.kind !== 'retry');
}

/** Returns the next or the previous bar of a bar's row; without a bar, the first operation. */
export function barBeside(bars: Bars, bar: Bar | undefined, by: 1 | -1): Bar | undefined {
  const row = bars.rows[bar?.row ?? 1] ?? bars.rows[0] ?? [];
  if (bar === undefined) return row[0];
  const shown = row.filter(({ kind }) => kind !== 'retry');
  return shown[shown.indexOf(bar) + by];
}

/** Returns the bar of the next or the previous row at about the same time. */
export function barAcross(bars: Bars, bar: Bar | undefined, by: 1 | -1): Bar | undefined {
  const row = bar === undefined ? bars.rows[0] : bars.rows[bar.row + by];
  return row?.[Math.min(row.length - 1, firstAt(row, bar?.fromMs ?? 0))];
}

/** Returns the bar of a row at a time, with some slack. */
export function barNear(row: readonly Bar[], atMs: number, slackMs: number): Bar | undefined {
  const first = firstAt(row, atMs - slackMs);
  const near = row.slice(first, first + 8).filter(({ fromMs }) => fromMs <= atMs + slackMs);
  return near.find(({ fromMs, toMs }) => fromMs <= atMs && (toMs ?? Infinity) >= atMs) ?? near[0];
}

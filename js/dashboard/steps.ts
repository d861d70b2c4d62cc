// The steps of an execution: each operation of a history as one row of the timeline, with its attempts. Where an
// execution has very many steps, like steps share a row.

import type { DrawnTakeover } from './answers.ts';
import type { Bar, BarKind, BarState, Bars } from './bars.ts';

/** One operation of an execution, or the execution itself. */
export interface Step {
  readonly kind: Exclude<BarKind, 'retry' | 'takeover'>;
  readonly state: BarState;
  /** Name of the orchestration, activity, child, event or queue. */
  readonly name: string;
  /** Number of the fiber that requested the operation; 0 is the main one. */
  readonly fiber: number;
  /** The event that began the step; for a wait the event that ended it. */
  readonly event: number;
  /** The event that ended the step, if that is another one. */
  readonly endEvent: number | undefined;
  readonly fromMs: number;
  readonly toMs: number | undefined;
  /** Attempts that have begun, or whose retry time is set; 1 where there is only ever one. */
  readonly attempts: number;
  /** Time at which a timer fires, or at which the next attempt may begin, ms since 1970. */
  readonly dueMs: number | undefined;
  /** Id of the child. */
  readonly instance: string | undefined;
  /** The attempts and the delays between them, in order of time. */
  readonly bars: readonly Bar[];
}

/** Steps of the same kind and name. */
export interface StepGroup {
  /** Identifies the group within its execution. */
  readonly key: string;
  readonly kind: Step['kind'];
  readonly name: string;
  readonly steps: readonly Step[];
  readonly fromMs: number;
  /** End of the last step; `undefined` while a step is open. */
  readonly toMs: number | undefined;
  /** Number of steps in each state. */
  readonly counts: Readonly<Record<BarState, number>>;
}

/** The death of a worker. */
export interface TakeoverRow {
  readonly takeover: DrawnTakeover;
}

export type TimelineRow = Step | StepGroup | TakeoverRow;

/** Steps of an execution up to which none are grouped. */
export const UNGROUPED_MAX = 60;

/** Least number of like steps that share a row. */
export const GROUP_MIN = 20;

export function isGroup(row: TimelineRow): row is StepGroup {
  return 'steps' in row;
}

export function isTakeover(row: TimelineRow): row is TakeoverRow {
  return 'takeover' in row;
}

/** Returns the rows with those of takeovers, each before the first row that began after it. */
export function withTakeovers(rows: readonly TimelineRow[], takeovers: readonly DrawnTakeover[]): TimelineRow[] {
  if (takeovers.length === 0) return [...rows];
  const left = [...takeovers];
  const all: TimelineRow[] = [];
  for (const row of rows) {
    while (left[0] !== undefined && !isTakeover(row) && left[0].atMs < row.fromMs)
      all.push({ takeover: left.shift() as DrawnTakeover });
    all.push(row);
  }
  return [...all, ...left.map((takeover) => ({ takeover }))];
}

/** Returns the steps in the order in which they began. The first one is the execution. */
export function stepsOf(bars: Bars): Step[] {
  return [...bars.byEvent.values()].map(stepOf);
}

function stepOf(bars: readonly Bar[]): Step {
  const [first, last] = [bars[0] as Bar, bars.at(-1) as Bar];
  const delay = bars.at(-2);
  return {
    kind: first.kind as Step['kind'],
    state: last.state,
    name: first.label,
    fiber: first.fiber,
    event: first.event,
    endEvent: last.endEvent,
    fromMs: first.fromMs,
    toMs: last.toMs,
    attempts: last.attempt ?? 1,
    dueMs: first.dueMs ?? (last.state === 'open' && delay?.kind === 'retry' ? delay.toMs : undefined),
    instance: first.instance,
    bars,
  };
}

/**
 * Returns the rows of a timeline. If there are more than {@link UNGROUPED_MAX} steps, {@link GROUP_MIN} or more like
 * ones share a row, at the place of the first one.
 */
export function rowsOf(steps: readonly Step[]): (Step | StepGroup)[] {
  if (steps.length <= UNGROUPED_MAX) return [...steps];
  const alike = new Map<string, Step[]>();
  for (const step of steps) {
    const key = keyOf(step);
    const same = alike.get(key);
    if (same === undefined) alike.set(key, [step]);
    else same.push(step);
  }
  const rows: (Step | StepGroup)[] = [];
  for (const step of steps) {
    const same = alike.get(keyOf(step)) ?? [];
    if (same.length < GROUP_MIN) rows.push(step);
    else if (same[0] === step) rows.push(groupOf(keyOf(step), same));
  }
  return rows;
}

function keyOf({ kind, name }: Step): string {
  return `${kind} ${name}`;
}

function groupOf(key: string, steps: readonly Step[]): StepGroup {
  const { kind, name, fromMs } = steps[0] as Step;
  const counts = { ok: 0, failed: 0, cancelled: 0, open: 0 };
  let [begin, end] = [fromMs, fromMs];
  for (const step of steps) {
    counts[step.state] += 1;
    begin = Math.min(begin, step.fromMs);
    end = Math.max(end, step.toMs ?? end);
  }
  return { key, kind, name, steps, fromMs: begin, toMs: counts.open > 0 ? undefined : end, counts };
}

/** True if an event began or ended a step. No event belongs to none: an open step has no end event either. */
export function belongsTo({ event, endEvent, bars }: Step, selected: number | undefined): boolean {
  if (selected === undefined) return false;
  return event === selected || endEvent === selected || bars.some((bar) => bar.endEvent === selected);
}

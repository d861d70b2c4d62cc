// The rows of a timeline. A click on a step opens its values in place, and a click on a group opens its steps.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { DrawnTakeover } from '../answers.ts';
import { type BarState, takeoverBar } from '../bars.ts';
import { belongsTo, isGroup, isTakeover, type Step, type StepGroup, type TimelineRow } from '../steps.ts';
import { count, countdown, duration, time } from './format.ts';
import { StepDetails } from './step-details.tsx';
import { type Segment, segmentsOf, type TimelineContext } from './timeline-view.ts';

/** Rows at each end of a long list that are shown at first, and by which their number grows on request. */
const ROWS_STEP = 100;

/** The same for the steps of a group. */
const GROUP_STEP = 20;

interface RowsProps {
  readonly rows: readonly TimelineRow[];
  readonly context: TimelineContext;
  /** True while no step is open, and the execution has not ended. */
  readonly isWaiting?: boolean;
  /** Time of the last event, ms since 1970. */
  readonly lastMs?: number;
  /** Name of the group that the rows belong to. */
  readonly group?: string;
}

/** The first and the last rows of a list. The rows between them are shown on request. */
export function Rows({ rows, context, isWaiting = false, lastMs = 0, group }: RowsProps): JSX.Element {
  const by = group === undefined ? ROWS_STEP : GROUP_STEP;
  const [shown, setShown] = useState(by);
  const hidden = Math.max(0, rows.length - 2 * shown);
  const row = (one: TimelineRow): JSX.Element =>
    isTakeover(one) ? (
      <TakeoverRow
        key={`takeover ${one.takeover.atMs} ${one.takeover.worker}`}
        takeover={one.takeover}
        context={context}
      />
    ) : isGroup(one) ? (
      <GroupRow key={one.key} group={one} context={context} />
    ) : (
      <StepRow key={one.event} step={one} context={context} isInGroup={group !== undefined} />
    );
  return (
    <ol class="steps" aria-label={group === undefined ? 'Steps' : `Steps ${group}`}>
      {rows.slice(0, hidden === 0 ? rows.length : shown).map(row)}
      {hidden === 0 ? null : (
        <li class="hidden-steps">
          <button type="button" onClick={() => setShown(shown + by)}>
            Show more of {count(hidden)} hidden steps
          </button>
        </li>
      )}
      {hidden === 0 ? null : rows.slice(-shown).map(row)}
      {isWaiting ? <WaitingRow sinceMs={lastMs} context={context} /> : null}
    </ol>
  );
}

interface StepRowProps {
  readonly step: Step;
  readonly context: TimelineContext;
  readonly isInGroup: boolean;
}

function StepRow({ step, context, isInGroup }: StepRowProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const { kind, state, event, fiber, attempts, bars } = step;
  const isMarked = belongsTo(step, context.selected);
  return (
    <li>
      <button
        type="button"
        class={`step ${state}${isMarked ? ' marked' : ''}`}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <Gutter kind={kind} name={nameOf(step)}>
          {isInGroup ? <span class="faint">#{event}</span> : null}
          {fiber === 0 ? null : <span class="badge">fiber {fiber}</span>}
          {attempts === 1 ? null : <span class="badge">{attempts} attempts</span>}
        </Gutter>
        <Track segments={segmentsOf(bars, context.view, context.nowMs)} beginMs={context.beginMs} />
        <span class="took">
          {tookOf(step, context.nowMs)} <Mark of={state} />
        </span>
      </button>
      {isOpen ? <StepDetails step={step} context={context} /> : null}
    </li>
  );
}

function GroupRow({ group, context }: { group: StepGroup; context: TimelineContext }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const { kind, name, steps, counts, fromMs, toMs } = group;
  const state = counts.failed > 0 ? 'failed' : counts.open > 0 ? 'open' : 'ok';
  const bars = steps.flatMap((step) => step.bars);
  return (
    <li>
      <button type="button" class={`step group ${state}`} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Gutter kind={kind} name={name}>
          <span class="badge">× {count(steps.length)}</span>
          {counts.failed === 0 ? null : <span class="badge bad">{count(counts.failed)} failed</span>}
          {counts.open === 0 ? null : <span class="badge">{count(counts.open)} open</span>}
        </Gutter>
        <Track segments={segmentsOf(bars, context.view, context.nowMs)} beginMs={context.beginMs} />
        <span class="took">
          {duration(Math.max(0, (toMs ?? context.nowMs) - fromMs))} <Mark of={state} />
        </span>
      </button>
      {isOpen ? <Rows rows={steps} context={context} group={name} /> : null}
    </li>
  );
}

/** The death of a worker. It is a moment, and has no values to open. */
function TakeoverRow({ takeover, context }: { takeover: DrawnTakeover; context: TimelineContext }): JSX.Element {
  const { worker, activityEventId, atMs } = takeover;
  return (
    <li>
      <div class="step failed">
        <Gutter kind="takeover" word="worker" name={`${worker} died`}>
          {activityEventId === undefined ? null : <span class="badge">ran activity #{activityEventId}</span>}
        </Gutter>
        <Track segments={segmentsOf([takeoverBar(takeover)], context.view, context.nowMs)} beginMs={context.beginMs} />
        <span class="took" title="Time at which another worker took its work over">
          {time(atMs)} <Mark of="failed" />
        </span>
      </div>
    </li>
  );
}

/** The time since the last event, in which the execution waits. */
function WaitingRow({ sinceMs, context }: { sinceMs: number; context: TimelineContext }): JSX.Element {
  const { view, nowMs } = context;
  const percent = (ms: number): number =>
    Math.min(100, Math.max(0, ((ms - view.fromMs) / (view.toMs - view.fromMs)) * 100));
  return (
    <li>
      <div class="step open">
        <Gutter kind="wait" name="waiting">
          <span class="badge">for a message or a worker</span>
        </Gutter>
        <span class="track" aria-hidden="true">
          <i
            class="bar waiting"
            style={{ left: `${percent(sinceMs)}%`, width: `${percent(nowMs) - percent(sinceMs)}%` }}
          />
        </span>
        <span class="took">
          {duration(Math.max(0, nowMs - sinceMs))} <Mark of="open" />
        </span>
      </div>
    </li>
  );
}

interface GutterProps {
  readonly kind: Step['kind'] | 'takeover';
  readonly name: string;
  /** The word for the kind. */
  readonly word?: string;
  readonly children?: JSX.Element | null | (JSX.Element | null)[];
}

export function Gutter({ kind, name, word = kind, children }: GutterProps): JSX.Element {
  return (
    <span class="gutter" title={`${word} ${name}`}>
      <i class={kind} />
      <span class="kind">{word === 'other' ? 'note' : word}</span> <span class="name">{name}</span> {children}
    </span>
  );
}

function Track({ segments, beginMs }: { segments: readonly Segment[]; beginMs: number }): JSX.Element {
  return (
    <span class="track" aria-hidden="true">
      {segments.map(({ kind, state, left, width, bar }) => (
        <i
          key={`${left} ${kind}`}
          class={`bar ${kind} ${state}`}
          style={{ left: `${left}%`, width: `${width}%` }}
          title={
            bar === undefined
              ? undefined
              : `${bar.attempt === undefined ? bar.label : `${bar.label}, attempt ${bar.attempt}`}: ` +
                `${bar.toMs === undefined ? 'open' : `${state}, ${duration(bar.toMs - bar.fromMs)}`}, ` +
                `from +${duration(bar.fromMs - beginMs)} (${time(bar.fromMs)})`
          }
        />
      ))}
    </span>
  );
}

const MARKS: Readonly<Record<BarState, readonly [mark: string, word: string]>> = {
  ok: ['✓', 'ok'],
  failed: ['✕', 'failed'],
  cancelled: ['■', 'cancelled'],
  open: ['▸', 'running'],
};

function Mark({ of }: { of: BarState }): JSX.Element {
  const [mark, word] = MARKS[of];
  return (
    <span class={`mark ${of}`} title={word}>
      <span aria-hidden="true">{mark}</span>
      <span class="unseen">{word}</span>
    </span>
  );
}

/** Returns the name of a step; for a timer its length. */
export function nameOf({ kind, name, fromMs, dueMs }: Step): string {
  return kind === 'timer' && dueMs !== undefined ? duration(Math.max(0, dueMs - fromMs)) : name;
}

/** Returns the duration of a step; for an open timer or a retry delay the time until it is due. */
function tookOf({ kind, state, fromMs, toMs, dueMs }: Step, nowMs: number): string {
  if (kind === 'other') return '';
  if (state !== 'open') return duration(Math.max(0, (toMs ?? nowMs) - fromMs));
  if (dueMs === undefined || (kind !== 'timer' && dueMs <= nowMs)) return duration(Math.max(0, nowMs - fromMs));
  return kind === 'timer' ? dueText(dueMs, nowMs) : `retry in ${countdown(dueMs, nowMs)}`;
}

/** Returns the time until a timer is due, or since then. */
export function dueText(dueMs: number, nowMs: number): string {
  return dueMs > nowMs ? `due in ${countdown(dueMs, nowMs)}` : `due for ${duration(nowMs - dueMs)}`;
}

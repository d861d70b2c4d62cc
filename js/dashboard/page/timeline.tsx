// The timeline of an execution: one named row for each step, over a time axis that can be zoomed and moved.

import type { JSX, RefObject } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import type { TakeoversAnswer } from '../answers.ts';
import type { Bars } from '../bars.ts';
import { rowsOf, stepsOf, withTakeovers } from '../steps.ts';
import { duration } from './format.ts';
import { useNow } from './now.ts';
import { Rows } from './timeline-rows.tsx';
import { SPAN_MIN, type TimelineContext, ticksOf, type View, within, zoomed } from './timeline-view.ts';

/** Width of a label of the axis, px. */
const LABEL_WIDTH = 90;

/** Movement of the pointer up to which it is a click, px. */
const SLACK = 3;

interface TimelineProps extends Pick<TimelineContext, 'id' | 'execution' | 'events' | 'selected' | 'onSelect'> {
  readonly bars: Bars;
  /** The deaths of workers, over all executions. */
  readonly takeovers: TakeoversAnswer['items'];
  readonly version: number;
  readonly isEnded: boolean;
}

export function Timeline({ bars, takeovers, version, isEnded, ...given }: TimelineProps): JSX.Element {
  const present = useNow(!isEnded);
  const nowMs = isEnded ? bars.lastMs : Math.max(present, bars.lastMs);
  const whole = { fromMs: bars.fromMs, toMs: Math.max(nowMs, bars.fromMs + SPAN_MIN) };
  const axis = useRef<HTMLDivElement>(null);
  const viewport = useViewport(whole, axis);
  const rows = useMemo(() => {
    const met = takeovers.filter(({ executionId }) => executionId === given.execution);
    return withTakeovers(rowsOf(stepsOf(bars)), met);
  }, [bars, version, takeovers, given.execution]);
  const box = useRef<HTMLDivElement>(null);
  useWheel(box, viewport);
  const drag = useDrag(viewport);
  const context = { ...given, beginMs: bars.fromMs, nowMs, view: viewport.current };
  return (
    <div
      ref={box}
      class="timeline"
      role="group"
      aria-label="Timeline"
      onKeyDown={(event) => pressed(event, viewport)}
      {...drag}
    >
      <Toolbar viewport={viewport} />
      <Axis view={viewport.current} beginMs={bars.fromMs} track={axis} />
      <Rows rows={rows} context={context} isWaiting={bars.isWaiting && !isEnded} lastMs={bars.lastMs} />
    </div>
  );
}

function Toolbar({ viewport: { zoom, showAll, isWhole } }: { readonly viewport: Viewport }): JSX.Element {
  return (
    <p class="tools">
      <button type="button" onClick={() => zoom(0.5)} aria-label="Zoom in">
        +
      </button>
      <button type="button" onClick={() => zoom(2)} aria-label="Zoom out">
        −
      </button>
      <button type="button" onClick={showAll} disabled={isWhole}>
        All
      </button>
      <span class="legend" aria-hidden="true">
        <i class="activity" />
        activity <i class="timer" />
        timer <i class="wait" />
        wait <i class="child" />
        child <i class="failed" />
        failed
      </span>
    </p>
  );
}

interface AxisProps {
  readonly view: View;
  readonly beginMs: number;
  readonly track: RefObject<HTMLDivElement | null>;
}

function Axis({ view, beginMs, track }: AxisProps): JSX.Element {
  const width = track.current?.clientWidth ?? 600;
  return (
    <div class="axis" aria-hidden="true">
      <div ref={track} class="ticks">
        {ticksOf(view, beginMs, width / LABEL_WIDTH).map((at) => (
          <span key={at} style={{ left: `${((at + beginMs - view.fromMs) / (view.toMs - view.fromMs)) * 100}%` }}>
            {duration(at)}
          </span>
        ))}
      </div>
    </div>
  );
}

/** The visible part of the timeline, and the ways to move it. */
interface Viewport {
  readonly current: View;
  /** True while the whole history is shown, as it grows. */
  readonly isWhole: boolean;
  zoom(factor: number, aroundMs?: number): void;
  pan(ms: number): void;
  showAll(): void;
  /** Returns the time at a position of the window, px. */
  timeAt(clientX: number): number;
  /** Returns the time of a width, px. */
  timeOf(width: number): number;
}

function useViewport(whole: View, track: RefObject<HTMLDivElement | null>): Viewport {
  const [view, setView] = useState<View>();
  const current = view ?? whole;
  const timeOf = (width: number): number =>
    (width / (track.current?.clientWidth || 1)) * (current.toMs - current.fromMs);
  return {
    current,
    isWhole: view === undefined,
    timeOf,
    timeAt: (clientX) => current.fromMs + timeOf(clientX - (track.current?.getBoundingClientRect().left ?? 0)),
    zoom: (factor, aroundMs) => setView(zoomed(current, whole, factor, aroundMs)),
    pan: (ms) => {
      if (view !== undefined) setView(within({ fromMs: view.fromMs + ms, toMs: view.toMs + ms }, whole));
    },
    showAll: () => setView(undefined),
  };
}

/** Zooms with the wheel and a key, and pans with a wheel that turns sideways. */
function useWheel(box: RefObject<HTMLDivElement | null>, { zoom, pan, timeAt, timeOf, isWhole }: Viewport): void {
  const latest = useRef<(event: WheelEvent) => void>(() => {});
  latest.current = (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 300), timeAt(event.clientX));
    } else if (!isWhole && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(timeOf(event.deltaX));
    }
  };
  // The listener is there when the rows are: `useEffect` would add it after the next frame.
  useLayoutEffect(() => {
    const { current: element } = box;
    const turned = (event: WheelEvent): void => latest.current(event);
    // Registered by hand, because a passive listener could not keep the page from scrolling.
    element?.addEventListener('wheel', turned, { passive: false });
    return () => element?.removeEventListener('wheel', turned);
  }, []);
}

type DragHandlers = Pick<
  JSX.IntrinsicElements['div'],
  'onMouseDown' | 'onMouseMove' | 'onMouseUp' | 'onMouseLeave' | 'onClickCapture'
>;

/** Pans by dragging a row. A click that ends a movement opens nothing. */
function useDrag({ pan, timeOf, isWhole }: Viewport): DragHandlers {
  const drag = useRef<{ x: number; hasMoved: boolean } | undefined>(undefined);
  const hasMoved = useRef(false);
  const end = (): void => {
    hasMoved.current = drag.current?.hasMoved ?? false;
    drag.current = undefined;
  };
  return {
    onMouseDown: ({ clientX, target }) => {
      const isOnTrack = target instanceof Element && target.closest('.track') !== null;
      drag.current = isWhole || !isOnTrack ? undefined : { x: clientX, hasMoved: false };
    },
    onMouseMove: ({ clientX }) => {
      const { current: before } = drag;
      if (before === undefined || (Math.abs(clientX - before.x) < SLACK && !before.hasMoved)) return;
      pan(timeOf(before.x - clientX));
      drag.current = { x: clientX, hasMoved: true };
    },
    onMouseUp: end,
    onMouseLeave: end,
    onClickCapture: (event) => {
      if (hasMoved.current) event.stopPropagation();
      hasMoved.current = false;
    },
  };
}

/** Handles a key: the keys zoom and pan, and the arrows move the focus from row to row. */
function pressed(event: KeyboardEvent, { current: { fromMs, toMs }, zoom, pan, showAll }: Viewport): void {
  const { target, currentTarget } = event;
  if (!(target instanceof HTMLButtonElement) || !target.classList.contains('step')) return;
  const to = (by: 1 | -1): void => {
    const all = [...(currentTarget as Element).querySelectorAll<HTMLButtonElement>('button.step')];
    all[all.indexOf(target) + by]?.focus();
  };
  const actions: Readonly<Record<string, () => void>> = {
    '+': () => zoom(0.5),
    '=': () => zoom(0.5),
    '-': () => zoom(2),
    '0': showAll,
    a: () => pan(-(toMs - fromMs) / 4),
    d: () => pan((toMs - fromMs) / 4),
    ArrowDown: () => to(1),
    ArrowUp: () => to(-1),
  };
  const action = actions[event.key];
  if (action === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action();
}

// The timeline of a history: a canvas that can be zoomed, moved, and read by keys.

import type { JSX, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { Bar, Bars } from '../bars.ts';
import { duration, time } from './format.ts';
import { AXIS_HEIGHT, draw, ROW_HEIGHT } from './timeline-drawing.ts';
import { barAcross, barBeside, barNear, barOf, SPAN_MIN, type View, within, zoomed } from './timeline-view.ts';

/** Greatest height, px. */
const HEIGHT_MAX = 360;

/** Slack of a click, px. */
const SLACK = 3;

interface TimelineProps {
  readonly bars: Bars;
  readonly version: number;
  readonly isEnded: boolean;
  readonly selected: number | undefined;
  onSelect(event: number): void;
}

export function Timeline({ bars, version, isEnded, selected, onSelect }: TimelineProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<Bar>();
  const viewport = useViewport(bars, isEnded, box);
  const full = AXIS_HEIGHT + bars.rows.length * ROW_HEIGHT + 4;
  const height = Math.min(HEIGHT_MAX, full);
  const paint = (): void => {
    const { current: element } = canvas;
    const { current: around } = box;
    if (element === null || around === null) return;
    draw(element, {
      bars,
      view: viewport.current(),
      selected,
      hovered,
      isEnded,
      top: around.scrollTop,
      width: around.clientWidth,
      height: around.clientHeight,
    });
  };
  usePainting(box, paint, isEnded, [bars, version, viewport.view, selected, hovered, isEnded, height]);
  useWheel(canvas, viewport);
  const pointer = usePointer(bars, box, viewport, onSelect, setHovered);
  const described = hovered ?? barOf(bars, selected);
  return (
    <div class="timeline">
      <Toolbar viewport={viewport} />
      <div
        ref={box}
        class="picture"
        role="application"
        aria-roledescription="timeline"
        aria-label={
          `Timeline of ${bars.count} bars in ${bars.rows.length} rows. ` +
          'Arrow keys move from bar to bar, plus and minus zoom, 0 shows the whole timeline.'
        }
        aria-describedby="bar"
        tabIndex={0}
        style={{ height: `${height}px` }}
        onKeyDown={(event) => pressed(event, bars, selected, viewport, onSelect)}
      >
        <canvas ref={canvas} aria-hidden="true" {...pointer} />
        <div class="beyond" style={{ height: `${full - height}px` }} />
      </div>
      <p id="bar" class="told" aria-live="polite">
        {described === undefined ? '' : describe(described, bars)}
      </p>
    </div>
  );
}

function Toolbar({ viewport }: { readonly viewport: Viewport }): JSX.Element {
  return (
    <p class="tools">
      <button type="button" onClick={() => viewport.zoom(0.5)} aria-label="Zoom in">
        +
      </button>
      <button type="button" onClick={() => viewport.zoom(2)} aria-label="Zoom out">
        −
      </button>
      <button type="button" onClick={() => viewport.showAll()} disabled={viewport.view === undefined}>
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

/** The visible part of the timeline, and the ways to move it. */
interface Viewport {
  /** `undefined` shows the whole history, as it grows. */
  readonly view: View | undefined;
  /** Returns the part that is visible now. */
  current(): View;
  zoom(factor: number, aroundMs?: number): void;
  pan(ms: number): void;
  showAll(): void;
  /** Returns the time at a position, px. */
  timeAt(x: number): number;
  /** Returns the time of a width, px. */
  timeOf(width: number): number;
  /** Scrolls and pans until a bar is visible. */
  reveal(bar: Bar): void;
}

function useViewport(bars: Bars, isEnded: boolean, box: RefObject<HTMLDivElement | null>): Viewport {
  const [view, setView] = useState<View>();
  const whole = (): View => ({
    fromMs: bars.fromMs,
    toMs: Math.max(isEnded ? bars.lastMs : Date.now(), bars.fromMs + SPAN_MIN),
  });
  const current = (): View => view ?? whole();
  const timeOf = (width: number): number => {
    const { fromMs, toMs } = current();
    return (width / (box.current?.clientWidth ?? 1)) * (toMs - fromMs);
  };
  return {
    view,
    current,
    timeOf,
    timeAt: (x) => current().fromMs + timeOf(x),
    zoom: (factor, aroundMs) => setView(zoomed(current(), whole(), factor, aroundMs)),
    pan: (ms) => {
      if (view !== undefined) setView(within({ fromMs: view.fromMs + ms, toMs: view.toMs + ms }, whole()));
    },
    showAll: () => setView(undefined),
    reveal: (bar) => {
      const { current: around } = box;
      const y = bar.row * ROW_HEIGHT;
      const isAbove = around !== null && y < around.scrollTop;
      const isBelow = around !== null && y + ROW_HEIGHT + AXIS_HEIGHT > around.scrollTop + around.clientHeight;
      if (around !== null && (isAbove || isBelow)) around.scrollTop = y - ROW_HEIGHT;
      const { fromMs, toMs } = current();
      if (view !== undefined && ((bar.toMs ?? toMs) < fromMs || bar.fromMs > toMs)) {
        const half = (toMs - fromMs) / 2;
        setView(within({ fromMs: bar.fromMs - half, toMs: bar.fromMs + half }, whole()));
      }
    },
  };
}

/** Paints after each change of the inputs, of the size, of the scrolling and of the theme. */
function usePainting(
  box: RefObject<HTMLDivElement | null>,
  paint: () => void,
  isEnded: boolean,
  inputs: readonly unknown[],
): void {
  const latest = useRef(paint);
  latest.current = paint;
  useLayoutEffect(() => latest.current(), inputs);
  useEffect(() => {
    // Several reasons to paint within one frame cause one paint.
    let frame = 0;
    const soon = (): void => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => latest.current());
    };
    const resized = new ResizeObserver(soon);
    if (box.current !== null) resized.observe(box.current);
    addEventListener('themechange', soon);
    const { current: around } = box;
    around?.addEventListener('scroll', soon);
    return () => {
      cancelAnimationFrame(frame);
      resized.disconnect();
      removeEventListener('themechange', soon);
      around?.removeEventListener('scroll', soon);
    };
  }, []);
  // Open bars grow.
  useEffect(() => {
    if (isEnded) return undefined;
    const timer = window.setInterval(() => latest.current(), 1_000);
    return () => window.clearInterval(timer);
  }, [isEnded]);
}

/** Zooms with the wheel and a key, and pans with a wheel that turns sideways. */
function useWheel(canvas: RefObject<HTMLCanvasElement | null>, { zoom, pan, timeAt, timeOf }: Viewport): void {
  const latest = useRef<(event: WheelEvent) => void>(() => {});
  latest.current = (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 300), timeAt(event.offsetX));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(timeOf(event.deltaX));
    }
  };
  useEffect(() => {
    const { current: element } = canvas;
    const turned = (event: WheelEvent): void => latest.current(event);
    // Registered by hand, because a passive listener could not keep the page from scrolling.
    element?.addEventListener('wheel', turned, { passive: false });
    return () => element?.removeEventListener('wheel', turned);
  }, []);
}

type PointerHandlers = Pick<
  JSX.IntrinsicElements['canvas'],
  'onMouseMove' | 'onMouseLeave' | 'onMouseDown' | 'onMouseUp' | 'onDblClick'
>;

/** Hovers, selects a bar by a click, pans by dragging, and zooms by a double click. */
function usePointer(
  bars: Bars,
  box: RefObject<HTMLDivElement | null>,
  { zoom, pan, timeAt, timeOf }: Viewport,
  onSelect: (event: number) => void,
  onHover: (bar: Bar | undefined) => void,
): PointerHandlers {
  const drag = useRef<{ x: number; hasMoved: boolean } | undefined>(undefined);
  const barAt = ({ offsetX, offsetY }: MouseEvent): Bar | undefined => {
    const row = bars.rows[Math.floor((offsetY - AXIS_HEIGHT + (box.current?.scrollTop ?? 0)) / ROW_HEIGHT)];
    return row === undefined || offsetY < AXIS_HEIGHT ? undefined : barNear(row, timeAt(offsetX), timeOf(SLACK));
  };
  return {
    onMouseMove: (event) => {
      const before = drag.current;
      if (before === undefined) return onHover(barAt(event));
      if (Math.abs(event.offsetX - before.x) < SLACK && !before.hasMoved) return;
      pan(timeOf(before.x - event.offsetX));
      drag.current = { x: event.offsetX, hasMoved: true };
    },
    onMouseLeave: () => onHover(undefined),
    onMouseDown: ({ offsetX }) => {
      drag.current = { x: offsetX, hasMoved: false };
    },
    onMouseUp: (event) => {
      const bar = drag.current?.hasMoved ? undefined : barAt(event);
      drag.current = undefined;
      if (bar !== undefined) onSelect(bar.event);
    },
    onDblClick: (event) => zoom(0.5, timeAt(event.offsetX)),
  };
}

/** Handles a key: the keys zoom and pan, and the arrows select the bar beside, above or below. */
function pressed(
  event: KeyboardEvent,
  bars: Bars,
  selected: number | undefined,
  { current, zoom, pan, showAll, reveal }: Viewport,
  onSelect: (event: number) => void,
): void {
  const { fromMs, toMs } = current();
  const select = (bar: Bar | undefined): void => {
    if (bar === undefined) return;
    onSelect(bar.event);
    reveal(bar);
  };
  const actions: Readonly<Record<string, () => void>> = {
    '+': () => zoom(0.5),
    '=': () => zoom(0.5),
    '-': () => zoom(2),
    '0': showAll,
    a: () => pan(-(toMs - fromMs) / 4),
    d: () => pan((toMs - fromMs) / 4),
    ArrowRight: () => select(barBeside(bars, barOf(bars, selected), 1)),
    ArrowLeft: () => select(barBeside(bars, barOf(bars, selected), -1)),
    ArrowDown: () => select(barAcross(bars, barOf(bars, selected), 1)),
    ArrowUp: () => select(barAcross(bars, barOf(bars, selected), -1)),
  };
  const action = actions[event.key];
  if (action === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action();
}

function describe({ kind, label, fiber, state, fromMs, toMs, attempt, event }: Bar, bars: Bars): string {
  const what = kind === 'retry' ? label : `${kind === 'other' ? '' : `${kind} `}${label}`;
  const how =
    toMs === undefined
      ? `running for ${duration(Math.max(0, Date.now() - fromMs))}`
      : `${state === 'ok' ? '' : `${state} `}after ${duration(toMs - fromMs)}`;
  const which = attempt === undefined || attempt === 1 ? '' : `, attempt ${attempt}`;
  const place = fiber === 0 ? `event ${event}` : `fiber ${fiber}, event ${event}`;
  return `${what}${which}: ${how}, from +${duration(fromMs - bars.fromMs)} (${time(fromMs)}), ${place}`;
}

// The timeline of a history, painted on a canvas. Invisible bars are not drawn, and bars that fall on one pixel are
// drawn once, so that ten thousand events move as smoothly as ten.

import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import { type Bar, type Bars, firstAt } from '../bars.ts';
import { duration, time } from './format.ts';

/** Heights, px. */
const AXIS = 22;
const ROW = 20;
const BAR = 14;
const HEIGHT_MAX = 360;

/** Least width of a bar, px. */
const WIDTH_MIN = 2;

/** Least width of a bar with a label, px. */
const LABEL_MIN = 36;

/** Least room before the first bar of a fiber for the fiber's name, px. */
const FIBER_MIN = 56;

/** Shortest time that can be zoomed to, ms. */
const SPAN_MIN = 1;

interface View {
  readonly fromMs: number;
  readonly toMs: number;
}

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
  /** `undefined` shows the whole history, as it grows. */
  const [view, setView] = useState<View>();
  const [hovered, setHovered] = useState<Bar>();
  const paint = useRef<() => void>(() => {});
  const all = (): View => ({
    fromMs: bars.fromMs,
    toMs: Math.max(isEnded ? bars.lastMs : Date.now(), bars.fromMs + SPAN_MIN),
  });
  const now = (): View => view ?? all();
  const height = Math.min(HEIGHT_MAX, AXIS + bars.rows.length * ROW + 4);

  paint.current = () => {
    const { current: element } = canvas;
    const { current: around } = box;
    if (element === null || around === null) return;
    draw(element, {
      bars,
      view: now(),
      selected,
      hovered,
      isEnded,
      top: around.scrollTop,
      width: around.clientWidth,
      height: around.clientHeight,
    });
  };
  useLayoutEffect(() => paint.current(), [bars, version, view, selected, hovered, isEnded, height]);
  useEffect(() => {
    // Several reasons to paint within one frame cause one paint.
    let frame = 0;
    const soon = (): void => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => paint.current());
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
    const timer = window.setInterval(() => paint.current(), 1_000);
    return () => window.clearInterval(timer);
  }, [isEnded]);

  const zoom = (factor: number, around?: number): void => {
    const { fromMs, toMs } = now();
    const whole = all();
    const span = Math.min(Math.max((toMs - fromMs) * factor, SPAN_MIN), whole.toMs - whole.fromMs);
    const at = around ?? (fromMs + toMs) / 2;
    setView(
      span >= whole.toMs - whole.fromMs
        ? undefined
        : within(
            {
              fromMs: at - ((at - fromMs) / (toMs - fromMs)) * span,
              toMs: at + ((toMs - at) / (toMs - fromMs)) * span,
            },
            whole,
          ),
    );
  };
  const pan = (ms: number): void => {
    if (view !== undefined) setView(within({ fromMs: view.fromMs + ms, toMs: view.toMs + ms }, all()));
  };
  const timeAt = (x: number): number => {
    const { fromMs, toMs } = now();
    return fromMs + (x / (box.current?.clientWidth ?? 1)) * (toMs - fromMs);
  };
  const show = (bar: Bar): void => {
    onSelect(bar.event);
    const { current: around } = box;
    const y = bar.row * ROW;
    if (around !== null && (y < around.scrollTop || y + ROW + AXIS > around.scrollTop + around.clientHeight))
      around.scrollTop = y - ROW;
    const { fromMs, toMs } = now();
    if (view !== undefined && ((bar.toMs ?? toMs) < fromMs || bar.fromMs > toMs)) {
      const half = (toMs - fromMs) / 2;
      setView(within({ fromMs: bar.fromMs - half, toMs: bar.fromMs + half }, all()));
    }
  };

  const typed = (event: KeyboardEvent): void => {
    const { fromMs, toMs } = now();
    const done: Readonly<Record<string, () => void>> = {
      '+': () => zoom(0.5),
      '=': () => zoom(0.5),
      '-': () => zoom(2),
      '0': () => setView(undefined),
      a: () => pan(-(toMs - fromMs) / 4),
      d: () => pan((toMs - fromMs) / 4),
      ArrowRight: () => step(1),
      ArrowLeft: () => step(-1),
      ArrowDown: () => change(1),
      ArrowUp: () => change(-1),
    };
    const act = done[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };
  /** Selects the next or the previous bar of the row. */
  const step = (by: number): void => {
    const bar = barOf(bars, selected);
    const row = bars.rows[bar?.row ?? 1] ?? bars.rows[0] ?? [];
    const to =
      bar === undefined
        ? row[0]
        : row.filter(({ kind }) => kind !== 'retry')[row.filter(({ kind }) => kind !== 'retry').indexOf(bar) + by];
    if (to !== undefined) show(to);
  };
  /** Selects the bar of another row at about the same time. */
  const change = (by: number): void => {
    const bar = barOf(bars, selected);
    const row = bar === undefined ? bars.rows[0] : bars.rows[bar.row + by];
    if (row === undefined) return;
    const to = row[Math.min(row.length - 1, firstAt(row, bar?.fromMs ?? 0))];
    if (to !== undefined) show(to);
  };

  const drag = useRef<{ x: number; hasMoved: boolean } | undefined>(undefined);
  const barAt = ({ offsetX, offsetY }: MouseEvent): Bar | undefined => {
    const row = bars.rows[Math.floor((offsetY - AXIS + (box.current?.scrollTop ?? 0)) / ROW)];
    return row === undefined || offsetY < AXIS
      ? undefined
      : hit(row, timeAt(offsetX), ((now().toMs - now().fromMs) / (box.current?.clientWidth ?? 1)) * 3);
  };
  const moved = (event: MouseEvent): void => {
    const held = drag.current;
    if (held === undefined) return setHovered(barAt(event));
    if (Math.abs(event.offsetX - held.x) < 3 && !held.hasMoved) return;
    pan(timeAt(held.x) - timeAt(event.offsetX));
    drag.current = { x: event.offsetX, hasMoved: true };
  };
  const released = (event: MouseEvent): void => {
    const bar = drag.current?.hasMoved ? undefined : barAt(event);
    drag.current = undefined;
    if (bar !== undefined) onSelect(bar.event);
  };
  const wheel = useRef<(event: WheelEvent) => void>(() => {});
  wheel.current = (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 300), timeAt(event.offsetX));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(timeAt(event.deltaX) - timeAt(0));
    }
  };
  useEffect(() => {
    const { current: element } = canvas;
    const turned = (event: WheelEvent): void => wheel.current(event);
    // Registered by hand, because a passive listener could not keep the page from scrolling.
    element?.addEventListener('wheel', turned, { passive: false });
    return () => element?.removeEventListener('wheel', turned);
  }, []);

  const told = hovered ?? barOf(bars, selected);
  return (
    <div class="timeline">
      <p class="tools">
        <button type="button" onClick={() => zoom(0.5)} aria-label="Zoom in">
          +
        </button>
        <button type="button" onClick={() => zoom(2)} aria-label="Zoom out">
          −
        </button>
        <button type="button" onClick={() => setView(undefined)} disabled={view === undefined}>
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
      <div
        ref={box}
        class="picture"
        role="application"
        aria-roledescription="timeline"
        aria-label={`Timeline of ${bars.count} bars in ${bars.rows.length} rows. Arrow keys move from bar to bar, plus and minus zoom, 0 shows the whole timeline.`}
        aria-describedby="bar"
        tabIndex={0}
        style={{ height: `${height}px` }}
        onKeyDown={typed}
      >
        <canvas
          ref={canvas}
          aria-hidden="true"
          onMouseMove={moved}
          onMouseLeave={() => setHovered(undefined)}
          onMouseDown={({ offsetX }) => (drag.current = { x: offsetX, hasMoved: false })}
          onMouseUp={released}
          onDblClick={(event) => zoom(0.5, timeAt(event.offsetX))}
        />
        <div class="beyond" style={{ height: `${AXIS + bars.rows.length * ROW + 4 - height}px` }} />
      </div>
      <p id="bar" class="told" aria-live="polite">
        {told === undefined ? '' : describe(told, bars)}
      </p>
    </div>
  );
}

/** Moves a view so that it lies within the history. */
function within({ fromMs, toMs }: View, whole: View): View {
  const span = toMs - fromMs;
  const from = Math.max(whole.fromMs, Math.min(fromMs, whole.toMs - span));
  return { fromMs: from, toMs: from + span };
}

/** Returns the bar that an event ended or began; for an activity that of its last attempt. */
function barOf(bars: Bars, event: number | undefined): Bar | undefined {
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

/** Returns the bar of a row at a time, with some slack. */
function hit(row: readonly Bar[], atMs: number, slackMs: number): Bar | undefined {
  const first = firstAt(row, atMs - slackMs);
  const near = row.slice(first, first + 8).filter(({ fromMs }) => fromMs <= atMs + slackMs);
  return near.find(({ fromMs, toMs }) => fromMs <= atMs && (toMs ?? Infinity) >= atMs) ?? near[0];
}

function describe({ kind, label, fiber, state, fromMs, toMs, attempt, event }: Bar, bars: Bars): string {
  const what = kind === 'retry' ? label : `${kind === 'other' ? '' : `${kind} `}${label}`;
  const how =
    toMs === undefined
      ? `running for ${duration(Math.max(0, Date.now() - fromMs))}`
      : `${state === 'ok' ? '' : `${state} `}after ${duration(toMs - fromMs)}`;
  const which = attempt === undefined || attempt === 1 ? '' : `, attempt ${attempt}`;
  return `${what}${which}: ${how}, from +${duration(fromMs - bars.fromMs)} (${time(fromMs)}), ${fiber === 0 ? '' : `fiber ${fiber}, `}event ${event}`;
}

interface Scene {
  readonly bars: Bars;
  readonly view: View;
  readonly selected: number | undefined;
  readonly hovered: Bar | undefined;
  readonly isEnded: boolean;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

function draw(canvas: HTMLCanvasElement, scene: Scene): void {
  const { bars, view, width, height, top, isEnded } = scene;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const to = canvas.getContext('2d');
  if (to === null || width === 0) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string): string => style.getPropertyValue(`--${name}`);
  to.setTransform(scale, 0, 0, scale, 0, 0);
  to.clearRect(0, 0, width, height);
  to.font = `11px ${style.fontFamily}`;
  to.textBaseline = 'middle';
  const x = (ms: number): number => ((ms - view.fromMs) / (view.toMs - view.fromMs)) * width;
  drawAxis(to, view, bars.fromMs, width, height, colour('line'), colour('faint'));
  const nowMs = isEnded ? bars.lastMs : Date.now();
  const first = Math.max(0, Math.floor(top / ROW));
  const last = Math.min(bars.rows.length, Math.ceil((top + height) / ROW));
  to.save();
  to.beginPath();
  to.rect(0, AXIS, width, height - AXIS);
  to.clip();
  for (let row = first; row < last; row += 1) {
    const list = bars.rows[row] ?? [];
    const y = AXIS + row * ROW - top + (ROW - BAR) / 2;
    let drawn = -1;
    for (let i = firstAt(list, view.fromMs); i < list.length; i += 1) {
      const bar = list[i] as Bar;
      if (bar.fromMs > view.toMs) break;
      const left = Math.floor(Math.max(x(bar.fromMs), -2));
      const right = Math.min(
        Math.max(Math.ceil(x(bar.toMs ?? Math.max(nowMs, bar.fromMs))), left + WIDTH_MIN),
        width + 2,
      );
      const isMarked =
        bar === scene.hovered ||
        ((bar.event === scene.selected || bar.endEvent === scene.selected) && bar.kind !== 'retry');
      // Skip bars within a painted pixel, except for failures and the hovered or selected bar.
      if (right <= drawn && !isMarked && bar.state !== 'failed') continue;
      if (bar.fiber !== 0 && list[i - 1]?.fiber !== bar.fiber && left - Math.max(drawn, 0) >= FIBER_MIN) {
        to.fillStyle = colour('faint');
        to.textAlign = 'right';
        to.fillText(`fiber ${bar.fiber}`, left - 5, y + BAR / 2 + 0.5);
        to.textAlign = 'left';
      }
      drawn = Math.max(drawn, right);
      drawBar(to, bar, left, right, y, colour);
      if (isMarked) {
        to.strokeStyle = colour('text');
        to.lineWidth = 2;
        to.strokeRect(left - 1, y - 1, right - left + 2, BAR + 2);
      }
    }
  }
  if (bars.isWaiting && !isEnded) {
    const y = AXIS + ROW - top + (ROW - BAR) / 2;
    to.setLineDash([3, 3]);
    to.strokeStyle = colour('wait');
    to.lineWidth = 1;
    to.strokeRect(x(bars.lastMs) + 0.5, y + 0.5, Math.max(0, x(nowMs) - x(bars.lastMs) - 1), BAR - 1);
    to.setLineDash([]);
  }
  to.restore();
}

function drawBar(
  to: CanvasRenderingContext2D,
  bar: Bar,
  left: number,
  right: number,
  y: number,
  colour: (name: string) => string,
): void {
  const width = right - left;
  const fill = colour(bar.state === 'failed' ? 'failed' : bar.state === 'cancelled' ? 'cancelled' : bar.kind);
  if (bar.kind === 'retry') {
    to.fillStyle = colour('line');
    to.fillRect(left, y + BAR / 2 - 1, width, 2);
    return;
  }
  to.fillStyle = fill;
  const thin = bar.kind === 'execution';
  to.globalAlpha = bar.state === 'open' ? 0.55 : 1;
  if (width > 6) {
    to.beginPath();
    to.roundRect(left, thin ? y + 4 : y, width, thin ? BAR - 8 : BAR, 2);
    to.fill();
  } else {
    to.fillRect(left, y, width, BAR);
  }
  to.globalAlpha = 1;
  if (thin || width < LABEL_MIN) return;
  to.save();
  to.beginPath();
  to.rect(left + 4, y, width - 8, BAR);
  to.clip();
  to.fillStyle = colour(bar.state === 'open' ? 'text' : 'on-bar');
  to.fillText(
    bar.attempt !== undefined && bar.attempt > 1 ? `${bar.label} (${bar.attempt})` : bar.label,
    Math.max(left, 0) + 5,
    y + BAR / 2 + 0.5,
  );
  to.restore();
}

/** Steps of the time axis in round units, ms. */
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
  3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];

function drawAxis(
  to: CanvasRenderingContext2D,
  view: View,
  beginMs: number,
  width: number,
  height: number,
  line: string,
  text: string,
): void {
  const span = view.toMs - view.fromMs;
  const least = span / Math.max(1, width / 90);
  const day = 86_400_000;
  const step = STEPS.find((step) => step >= least) ?? Math.ceil(least / day) * day;
  to.lineWidth = 1;
  to.strokeStyle = line;
  to.fillStyle = text;
  for (let at = Math.ceil((view.fromMs - beginMs) / step) * step; at <= view.toMs - beginMs; at += step) {
    const x = Math.round(((at + beginMs - view.fromMs) / span) * width) + 0.5;
    to.beginPath();
    to.moveTo(x, 0);
    to.lineTo(x, height);
    to.stroke();
    to.fillText(duration(at), x + 4, AXIS / 2);
  }
}

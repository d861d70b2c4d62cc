// The drawing of a timeline on a canvas. Invisible bars are not drawn, and bars that fall on one pixel are drawn once,
// so that ten thousand events move as smoothly as ten.

import { type Bar, type Bars, firstAt } from '../bars.ts';
import { duration } from './format.ts';
import type { View } from './timeline-view.ts';

/** Heights, px. */
export const AXIS_HEIGHT = 22;
export const ROW_HEIGHT = 20;
const BAR_HEIGHT = 14;

/** Least width of a bar, px. */
const WIDTH_MIN = 2;

/** Least width of a bar with a label, px. */
const LABEL_MIN = 36;

/** Least room before the first bar of a fiber for the fiber's name, px. */
const FIBER_MIN = 56;

/** The input of a drawing. */
export interface Drawing {
  readonly bars: Bars;
  readonly view: View;
  readonly selected: number | undefined;
  readonly hovered: Bar | undefined;
  readonly isEnded: boolean;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** A canvas that is ready, with the functions that all parts of the drawing use. */
interface Brush {
  readonly to: CanvasRenderingContext2D;
  /** The time at which open bars end, ms. */
  readonly nowMs: number;
  /** Returns a colour of the style sheet. */
  colour(name: string): string;
  /** Returns the position of a time, px. */
  x(ms: number): number;
}

export function draw(canvas: HTMLCanvasElement, drawing: Drawing): void {
  const { bars, view, width, height, top, isEnded } = drawing;
  const brush = prepare(canvas, drawing);
  if (brush === undefined) return;
  const { to, colour } = brush;
  drawAxis(to, view, bars.fromMs, width, height, colour('line'), colour('faint'));
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT));
  const last = Math.min(bars.rows.length, Math.ceil((top + height) / ROW_HEIGHT));
  to.save();
  to.beginPath();
  to.rect(0, AXIS_HEIGHT, width, height - AXIS_HEIGHT);
  to.clip();
  for (let row = first; row < last; row += 1) drawRow(brush, bars.rows[row] ?? [], yOf(row, top), drawing);
  if (bars.isWaiting && !isEnded) drawWait(brush, bars.lastMs, yOf(1, top));
  to.restore();
}

/** Resizes and clears the canvas. Returns `undefined` if nothing can be drawn on it. */
function prepare(canvas: HTMLCanvasElement, { bars, view, width, height, isEnded }: Drawing): Brush | undefined {
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const to = canvas.getContext('2d');
  if (to === null || width === 0) return undefined;
  const style = getComputedStyle(canvas);
  to.setTransform(scale, 0, 0, scale, 0, 0);
  to.clearRect(0, 0, width, height);
  to.font = `11px ${style.fontFamily}`;
  to.textBaseline = 'middle';
  return {
    to,
    nowMs: isEnded ? bars.lastMs : Date.now(),
    colour: (name) => style.getPropertyValue(`--${name}`),
    x: (ms) => ((ms - view.fromMs) / (view.toMs - view.fromMs)) * width,
  };
}

/** Returns the upper edge of the bars of a row, px. */
function yOf(row: number, top: number): number {
  return AXIS_HEIGHT + row * ROW_HEIGHT - top + (ROW_HEIGHT - BAR_HEIGHT) / 2;
}

function drawRow(brush: Brush, row: readonly Bar[], y: number, { view, width, hovered, selected }: Drawing): void {
  const { to, nowMs, colour, x } = brush;
  let drawn = -1;
  for (let i = firstAt(row, view.fromMs); i < row.length; i += 1) {
    const bar = row[i] as Bar;
    if (bar.fromMs > view.toMs) break;
    const left = Math.floor(Math.max(x(bar.fromMs), -2));
    const right = Math.min(
      Math.max(Math.ceil(x(bar.toMs ?? Math.max(nowMs, bar.fromMs))), left + WIDTH_MIN),
      width + 2,
    );
    const isMarked = bar === hovered || ((bar.event === selected || bar.endEvent === selected) && bar.kind !== 'retry');
    // Skip bars within a painted pixel, except for failures and the hovered or selected bar.
    if (right <= drawn && !isMarked && bar.state !== 'failed') continue;
    if (bar.fiber !== 0 && row[i - 1]?.fiber !== bar.fiber && left - Math.max(drawn, 0) >= FIBER_MIN) {
      to.fillStyle = colour('faint');
      to.textAlign = 'right';
      to.fillText(`fiber ${bar.fiber}`, left - 5, y + BAR_HEIGHT / 2 + 0.5);
      to.textAlign = 'left';
    }
    drawn = Math.max(drawn, right);
    drawBar(to, bar, left, right, y, colour);
    if (isMarked) {
      to.strokeStyle = colour('text');
      to.lineWidth = 2;
      to.strokeRect(left - 1, y - 1, right - left + 2, BAR_HEIGHT + 2);
    }
  }
}

/** Draws the time since the last event, in which the execution waits. */
function drawWait({ to, nowMs, colour, x }: Brush, lastMs: number, y: number): void {
  to.setLineDash([3, 3]);
  to.strokeStyle = colour('wait');
  to.lineWidth = 1;
  to.strokeRect(x(lastMs) + 0.5, y + 0.5, Math.max(0, x(nowMs) - x(lastMs) - 1), BAR_HEIGHT - 1);
  to.setLineDash([]);
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
    to.fillRect(left, y + BAR_HEIGHT / 2 - 1, width, 2);
    return;
  }
  to.fillStyle = fill;
  const thin = bar.kind === 'execution';
  to.globalAlpha = bar.state === 'open' ? 0.55 : 1;
  if (width > 6) {
    to.beginPath();
    to.roundRect(left, thin ? y + 4 : y, width, thin ? BAR_HEIGHT - 8 : BAR_HEIGHT, 2);
    to.fill();
  } else {
    to.fillRect(left, y, width, BAR_HEIGHT);
  }
  to.globalAlpha = 1;
  if (thin || width < LABEL_MIN) return;
  to.save();
  to.beginPath();
  to.rect(left + 4, y, width - 8, BAR_HEIGHT);
  to.clip();
  to.fillStyle = colour(bar.state === 'open' ? 'text' : 'on-bar');
  to.fillText(
    bar.attempt !== undefined && bar.attempt > 1 ? `${bar.label} (${bar.attempt})` : bar.label,
    Math.max(left, 0) + 5,
    y + BAR_HEIGHT / 2 + 0.5,
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
    to.fillText(duration(at), x + 4, AXIS_HEIGHT / 2);
  }
}

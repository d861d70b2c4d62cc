// Rates: lines over the last minutes, and the current number.

import type { JSX } from 'preact';

import type { SampleCounts } from '../answers.ts';
import { rate } from './format.ts';

const WIDTH = 240;
const HEIGHT = 40;

/** Number of samples over which the current rate is measured. */
const NOW = 5;

type Counter = 'instances' | 'ended' | 'turns' | 'attempts';

const LINES: readonly { of: Counter; name: string; note: string }[] = [
  { of: 'instances', name: 'Started', note: 'instances per second; instances deleted in between are not counted' },
  { of: 'ended', name: 'Ended', note: 'instances per second; instances deleted in between are not counted' },
  { of: 'turns', name: 'Turns', note: 'turns per second, of this process' },
  { of: 'attempts', name: 'Attempts', note: 'activity attempts per second, of this process' },
];

export function Rates({ ticks }: { ticks: readonly SampleCounts[] }): JSX.Element {
  const lines = LINES.filter(({ of }) => ticks.at(-1)?.[of] !== undefined);
  return (
    <section class="panel" aria-labelledby="rates">
      <h2 id="rates">Rates</h2>
      {ticks.length < 2 ? (
        <p class="empty">Rates appear after two samples of the store, in about two seconds.</p>
      ) : (
        <ul class="rates">
          {lines.map(({ of, name, note }) => {
            const points = pointsOf(ticks, of);
            const recent = ticks.slice(-NOW - 1);
            const now = perSecond(recent[0], recent.at(-1), of);
            const most = Math.max(...points.map(({ value }) => value));
            return (
              <li key={of}>
                <span class="name" title={note}>
                  {name} <span class="faint">/s</span>
                </span>
                <span class="number">{rate(now)}</span>
                <svg
                  viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
                  preserveAspectRatio="none"
                  role="img"
                  aria-label={`${name} per second: now ${rate(now)}, at most ${rate(most)} in the last minutes`}
                >
                  <path d={pathOf(points, most)} />
                </svg>
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}

interface Point {
  readonly atMs: number;
  readonly value: number;
}

function pointsOf(ticks: readonly SampleCounts[], of: Counter): Point[] {
  return ticks.slice(1).map((tick, i) => ({ atMs: tick.atMs, value: perSecond(ticks[i], tick, of) }));
}

/**
 * Returns a rate of a counter, at least 0: a counter falls when instances are deleted, or when a runtime is started
 * anew.
 */
function perSecond(from: SampleCounts | undefined, to: SampleCounts | undefined, of: Counter): number {
  const seconds = ((to?.atMs ?? 0) - (from?.atMs ?? 0)) / 1_000;
  return seconds <= 0 ? 0 : Math.max(0, ((to?.[of] ?? 0) - (from?.[of] ?? 0)) / seconds);
}

function pathOf(points: readonly Point[], most: number): string {
  const [first, last] = [points[0]?.atMs ?? 0, points.at(-1)?.atMs ?? 0];
  const x = (atMs: number): number => (last === first ? WIDTH : ((atMs - first) / (last - first)) * WIDTH);
  const y = (value: number): number => HEIGHT - 1 - (most === 0 ? 0 : (value / most) * (HEIGHT - 3));
  return points
    .map(({ atMs, value }, i) => `${i === 0 ? 'M' : 'L'}${x(atMs).toFixed(1)} ${y(value).toFixed(1)}`)
    .join('');
}

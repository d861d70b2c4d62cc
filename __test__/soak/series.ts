// One gauge over time.

import { type Gauge, limitOf } from './gauge.ts';

const HOUR_MS = 3_600_000;

export class Series {
  /** The process or store that it was read from. */
  readonly of: string;
  readonly gauge: Gauge;
  readonly #points: { readonly at: number; readonly value: number }[] = [];

  constructor(of: string, gauge: Gauge) {
    this.of = of;
    this.gauge = gauge;
  }

  /** `at` is in ms and rises from call to call. */
  add(at: number, value: number): void {
    this.#points.push({ at, value });
  }

  get #values(): number[] {
    return this.#points.map(({ value }) => value);
  }

  /** Median of the first third. */
  get first(): number {
    return median(this.#values.slice(0, Math.ceil(this.#points.length / 3)));
  }

  /** Median of the last third. */
  get last(): number {
    return median(this.#values.slice(-Math.ceil(this.#points.length / 3)));
  }

  get most(): number {
    return Math.max(...this.#values);
  }

  /** The slope per hour of the least-squares line. */
  get slopePerHour(): number {
    const [at, value] = [mean(this.#points.map((point) => point.at)), mean(this.#values)];
    const along = this.#points.reduce((sum, point) => sum + (point.at - at) * (point.value - value), 0);
    const spread = this.#points.reduce((sum, point) => sum + (point.at - at) ** 2, 0);
    return spread === 0 ? 0 : (along / spread) * HOUR_MS;
  }

  /** True if the last third is within the limit that the first third sets. */
  get isFlat(): boolean {
    const { share, plus } = limitOf(this.gauge);
    return this.last <= this.first * (1 + share) + plus;
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return mean(sorted.slice(Math.ceil(middle) - 1, Math.floor(middle) + 1));
}

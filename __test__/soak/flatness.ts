// The verdict of a soak: compares the measurements with their limits.

import { LOG_BYTES_MAX, limitOf } from './gauge.ts';
import type { Series } from './series.ts';
import type { Rest } from './soak.ts';

/** Returns the reasons for which the soak is not flat, as sentences. A short soak is judged only by exact gauges. */
export function failuresOf(series: readonly Series[], rests: readonly Rest[], isShort: boolean): string[] {
  const left = rests.filter(({ gauge, before, after }) => limitOf(gauge).atRest === 'as before' && after > before);
  const grown = series.filter((one) => !isShort && !one.isFlat);
  const logs = series.filter(({ gauge, most }) => gauge === 'log size' && most > LOG_BYTES_MAX);
  return [
    ...left.map(({ of, gauge, before, after }) => `${of}: ${gauge} at rest went from ${before} to ${after}`),
    ...grown.map(({ of, gauge, first, last }) => `${of}: ${gauge} went from ${first} to ${last}`),
    ...logs.map(({ most }) => `the log grew to ${most} bytes`),
  ];
}

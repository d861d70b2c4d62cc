// What a soak was for: whether what was measured is as it should be.

import { LOG_BYTES_MAX, limitOf } from './gauge.ts';
import type { Series } from './series.ts';
import type { Rest } from './soak.ts';

/** Why it is not flat, as sentences. Of a short one only what is exact counts. */
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

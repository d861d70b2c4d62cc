// The numbers of a soak, as text.

import { limitOf, type Unit } from './gauge.ts';
import type { SoakReport } from './soak.ts';
import type { Figures } from './talk.ts';

/** Number of failures that are shown. */
const SHOWN = 20;

function shown(value: number, unit: Unit): string {
  return unit === 'bytes'
    ? `${(value / (1024 * 1024)).toFixed(1)} MiB`
    : value.toFixed(Number.isInteger(value) ? 0 : 1);
}

function row(...cells: readonly string[]): string {
  const [of = '', gauge = '', ...figures] = cells;
  return `  ${of.padEnd(9)} ${gauge.padEnd(29)}${figures.map((figure) => figure.padStart(14)).join('')}`;
}

function probesOf({ probes, p50Ms, p99Ms, maxMs }: Figures): string {
  const [p50, p99, longest] = [p50Ms, p99Ms, maxMs].map((ms) => `${ms.toFixed(1)} ms`);
  return `${probes} short instances, p50 ${p50}, p99 ${p99}, longest ${longest}`;
}

export function describe({ options, steady, series, rests, beside, failures }: SoakReport): string {
  const { provider, minutes, seed, processes, threads, rate } = options;
  return [
    `Soak on ${provider}, seed ${seed}, ${processes} processes with ${threads} threads each, ` +
      `${rate} programs a second, ${minutes.toFixed(1)} min`,
    `  ${steady.programs} programs, ${steady.cycles} executions of long-lived instances, ` +
      `${steady.pruned} instances pruned`,
    row('under', 'load', 'first third', 'last third', 'per hour', 'flat'),
    ...series.map((one) => {
      const { unit } = limitOf(one.gauge);
      return row(
        one.of,
        one.gauge,
        shown(one.first, unit),
        shown(one.last, unit),
        shown(one.slopePerHour, unit),
        one.isFlat ? 'yes' : 'NO',
      );
    }),
    row('at', 'rest', 'before', 'after'),
    ...rests.map(({ of, gauge, before, after }) =>
      row(of, gauge, ...[before, after].map((value) => shown(value, limitOf(gauge).unit))),
    ),
    `  alone: ${probesOf(steady)}`,
    ...beside.map(
      ([trouble, figures]) =>
        `  beside ${trouble} ones: ${probesOf(figures)}: ` +
        `p99 ${(figures.p99Ms / steady.p99Ms).toFixed(2)} times as long`,
    ),
    ...failures.slice(0, SHOWN).map((failure) => `  FAILED: ${failure}`),
    ...(failures.length > SHOWN ? [`  and ${failures.length - SHOWN} more`] : []),
    `  flat: ${failures.length === 0 ? 'yes' : 'NO'}`,
  ].join('\n');
}

// The numbers of a run, as text.

import { COUNTS, type Promotion } from './arena.ts';
import type { RoundResult } from './round.ts';
import type { Report } from './run.ts';

/** Number of violations that are shown. */
const SHOWN = 20;

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;

function slowest(promotions: readonly Promotion[]): [string, string][] {
  return [
    ['longest from promotion to work', seconds(Math.max(...promotions.map(({ workersMs }) => workersMs)))],
    ['… to work of the client', seconds(Math.max(...promotions.map(({ clientMs }) => clientMs)))],
  ];
}

/** Returns one line about a round. */
export function describeRound({ options, tally, struck, violations, settledMs }: RoundResult): string {
  const wrong = Object.values(violations).flat().length;
  const held = wrong === 0 ? 'held' : `${wrong} VIOLATIONS`;
  const { programs = 0 } = tally;
  const faults = struck.map(({ fault, ms }) => `${fault} (${seconds(ms)})`).join(', ');
  return (
    `seed ${options.seed} on ${options.ground}: ${programs} programs; ${faults}; ` +
    `all over ${seconds(settledMs)} after the last fault; ${held}`
  );
}

export function describe({ options, rounds, tally, struck, skipped, violations, failures, ms }: Report): string {
  const { programs = 0, finished = 0 } = tally;
  const settled = rounds.map(({ settledMs }) => settledMs);
  const promotions = rounds.flatMap((round) => round.promotions);
  const rows: [string, string | number][] = [
    ['rounds', rounds.length],
    ...COUNTS.flatMap((name): [string, number][] => (tally[name] === undefined ? [] : [[name, tally[name]]])),
    ['programs that ended', `${((100 * finished) / Math.max(programs, 1)).toFixed(1)} %`],
    ['longest until all was over', seconds(Math.max(...settled))],
    ...(promotions.length === 0 ? [] : slowest(promotions)),
    ['acknowledged work lost', violations.lost.length],
    ['stuck', violations.stuck.length],
    ['repeated finished steps', violations.repeated.length],
    ['other violations', violations.other.length],
  ];
  return [
    `Chaos on ${options.provider}, seeds ${options.seed} to ${options.seed + rounds.length - 1}, ` +
      `${options.workers} workers, ${(ms / 60_000).toFixed(1)} min`,
    ...rows.map(([name, value]) => `  ${name.padEnd(30)} ${String(value).padStart(8)}`),
    `  faults: ${[...struck].map(([name, times]) => `${name} ${times}`).join(', ')}`,
    ...skipped.map(({ fault, why }) => `  skipped: ${fault} (${why})`),
    ...failures.slice(0, SHOWN).map((failure) => `  FAILED: ${failure}`),
    ...(failures.length > SHOWN ? [`  and ${failures.length - SHOWN} more`] : []),
  ].join('\n');
}

import { afterEach, expect, it } from 'vitest';

import { noCluster } from '../support/cluster.ts';
import { Process } from '../support/process.ts';
import { FAULTS, GROUPS } from './faults/index.ts';
import { describe as describeReport } from './report.ts';
import { run } from './run.ts';

// Plays a short round of chaos on each provider and ground, with each fault once. See main.ts for longer runs, and for
// how to repeat one (`--short`).

/** Decides programs and faults. To try another seed: `PERDURE_TEST_SEED=7 npm run test:js -- chaos`. */
const SEED = Number(process.env.PERDURE_TEST_SEED ?? 1);

afterEach(async () => {
  await Promise.all([...Process.running].map((process) => process.kill()));
});

it.for([
  ['sqlite', 'with every fault but failovers', allBut('failover'), undefined],
  ['postgres', 'with every fault but failovers', allBut('failover'), noCluster],
  ['postgres', 'while primaries fail and standbys take over', GROUPS.failover, noCluster],
] as const)(
  'nothing is lost, stuck or done twice on %s, %s',
  { timeout: 300_000 },
  async ([provider, , faults, missing], { skip }) => {
    if (missing !== undefined) skip(missing);
    const report = await run({ provider, faults, seed: SEED, workers: 3, minutes: 0, isShort: true });
    // The report also names the faults that were skipped, and why.
    console.log(describeReport(report));
    expect(report.failures).toEqual([]);
  },
);

function allBut(group: string): string[] {
  return FAULTS.map(({ name }) => name).filter((name) => !GROUPS[group]?.includes(name));
}

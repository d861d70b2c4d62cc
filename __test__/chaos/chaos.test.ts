import { afterEach, expect, it } from 'vitest';

import { noCluster } from '../support/cluster.ts';
import { Process } from '../support/process.ts';
import { describe as describeReport } from './report.ts';
import { run } from './run.ts';

// A short round of chaos on each provider and ground, each fault once: see main.ts for longer ones, and for how to repeat one (`--short`).

/** Decides programs and faults. Another one: `PERDURE_TEST_SEED=7 npm run test:js -- chaos`. */
const SEED = Number(process.env['PERDURE_TEST_SEED'] ?? 1);

afterEach(async () => {
  await Promise.all([...Process.running].map((process) => process.kill()));
});

it.for([
  ['sqlite', undefined],
  ['postgres', noCluster],
] as const)(
  'nothing is lost, stuck or done twice on %s, whatever happens',
  { timeout: 300_000 },
  async ([provider, missing], { skip }) => {
    if (missing !== undefined) skip(missing);
    const report = await run({ provider, seed: SEED, workers: 3, minutes: 0, isShort: true });
    // What was skipped, and why, stands in it.
    console.log(describeReport(report));
    expect(report.failures).toEqual([]);
  },
);

// Compares two versions of Perdure: this clone and another one, both built with `npm run build -- --release`, in turn.
//
//   node bench/versions.mjs ../former chain start --store postgres --rounds 40
//
// Each round runs a workload once in a process of each, with the order changing from round to round, and compares the
// two. The figure is the median of these ratios, with the interval that holds 95 of 100 medians of as many rounds drawn
// from them again (the percentile bootstrap of Efron, 1979). Below 1 this clone is faster. Machines that others use too
// differ by a tenth from one minute to the next, so it takes some dozens of rounds to see 3 %.

import { mkdirSync, mkdtempSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { runChild } from './lib/child-process.mjs';
import { root } from './lib/paths.mjs';
import { Round } from './lib/round.mjs';
import { median, quantile, short } from './lib/stats.mjs';
import { STORES } from './lib/stores.mjs';
import { chain } from './workloads/chain.mjs';
import { fanOut } from './workloads/fan-out.mjs';
import { latency } from './workloads/latency.mjs';
import { start } from './workloads/start.mjs';

/** The compared parts of each workload: its job besides the place, and the time that its process reports, ms. */
const COMPARED = new Map([
  [chain, { job: { repeat: 9 }, ms: ({ seconds }) => median(seconds) * 1_000 }],
  [fanOut, { job: { repeat: 9 }, ms: ({ seconds }) => median(seconds) * 1_000 }],
  [latency, { job: { repeat: 3 }, ms: ({ p50 }) => p50 }],
  [start, { job: { repeat: 3 }, ms: ({ p50 }) => p50 }],
]);
const DRAWS = 2_000;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { store: { type: 'string', default: 'sqlite' }, rounds: { type: 'string', default: '40' } },
});
const [other, ...names] = positionals;
const rounds = Number(values.rounds);
const unknown = names.find((name) => ![...COMPARED.keys()].some((workload) => workload.name === name));
if (other === undefined || unknown !== undefined || !STORES.includes(values.store) || !(rounds >= 1)) {
  console.error(
    'Usage: node bench/versions.mjs CLONE [chain] [fan-out] [latency] [start] [--store sqlite|postgres] [--rounds 40]',
  );
  process.exit(2);
}
const clones = [root, resolve(other)];
// Not a folder for temporary files, which may be in memory.
const folder = join(root, '.perdure');
mkdirSync(folder, { recursive: true });
for (const [workload, { job, ms }] of COMPARED) {
  if (names.length > 0 && !names.includes(workload.name)) continue;
  const times = [];
  for (let n = 0; n < rounds; n += 1) times.push(await timesOf(workload, job, ms, n));
  const ratios = times.map(([ours, theirs]) => ours / theirs);
  const medians = Array.from({ length: DRAWS }, () =>
    median(ratios.map(() => ratios[Math.floor(Math.random() * rounds)])),
  );
  const [ours, theirs] = [0, 1].map((of) => short(median(times.map((pair) => pair[of]))));
  const interval = `${quantile(medians, 0.025).toFixed(3)} to ${quantile(medians, 0.975).toFixed(3)}`;
  console.log(
    `${workload.name} (${values.store}): ${median(ratios).toFixed(3)} (${interval}); ` +
      `here ${ours} ms, there ${theirs} ms, ${rounds} rounds`,
  );
}

async function timesOf(workload, job, ms, n) {
  const round = new Round(workload, values.store, mkdtempSync(join(folder, 'versions-')), { n });
  const pair = [];
  try {
    for (const of of n % 2 === 0 ? [0, 1] : [1, 0]) {
      pair[of] = ms(await runChild(workload.name, 'measure', { ...job, place: round.place() }, { clone: clones[of] }));
    }
  } finally {
    round.clean();
  }
  return pair;
}

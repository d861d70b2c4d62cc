// The process in which a role of a workload or of a peer runs: `child.mjs workload role job`.

import { once } from 'node:events';
import { writeSync } from 'node:fs';

import { PEERS } from '../peers/index.mjs';
import { workloads } from '../workloads/index.mjs';

const [, , name, role, job] = process.argv;
const { roles } = [...workloads, ...PEERS].find((one) => one.name === name);
const result = Buffer.from(JSON.stringify(await roles[role](JSON.parse(job), meet)));
for (let at = 0; at < result.length; ) at += writeSync(3, result, at);

/** Resolves when all processes that run together have called it. */
async function meet() {
  const all = once(process, 'message');
  process.send('here');
  await all;
}

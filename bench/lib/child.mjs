// The process in which a role of a workload runs: `child.mjs workload role job`.

import { writeSync } from 'node:fs';

import { workloads } from '../workloads/index.mjs';

const [, , name, role, job] = process.argv;
const workload = workloads.find((workload) => workload.name === name);
const result = Buffer.from(JSON.stringify(await workload.roles[role](JSON.parse(job))));
for (let at = 0; at < result.length; ) at += writeSync(3, result, at);

// The workloads, one a file. A file exports
//
//   name, what      what it is called, what it does
//   unit, better, atLeast, aim, of, note: its figure; or `figures`, a list of such (lib/summary.mjs)
//   round(round)    measure once: the floor, then Perdure (lib/round.mjs)
//   roles           functions that run in processes of their own, by name; JSON in, JSON out
//   profile         the role that `--profile` looks at, and its job

import { chain } from './chain.mjs';
import { driver } from './driver.mjs';
import { fanOut } from './fan-out.mjs';
import { flatness } from './flatness.mjs';
import { hello } from './hello.mjs';
import { latency } from './latency.mjs';
import { replay } from './replay.mjs';
import { start } from './start.mjs';

export const workloads = [chain, hello, latency, start, fanOut, replay, flatness, driver];

/** What the project wants to know and this does not tell yet. */
export const notMeasured = [
  { name: 'idle', why: 'needs the whole client API' },
  { name: 'scale', why: 'needs Postgres' },
  { name: 'threads', why: 'needs worker threads' },
  { name: 'Postgres', why: 'there is no such provider yet' },
  { name: 'power loss', why: 'a commit is trusted to be durable once fsync has returned' },
];

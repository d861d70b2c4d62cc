// The workloads, one a file. A file exports
//
//   name, what      its name and its description
//   stores          the stores on which it is measured: of lib/stores.mjs
//   unit, better, atLeast, aim, of, on, note: its figure; or `figures`, a list of such (lib/summary.mjs)
//   round(round)    measures once on one store: the floor, then Perdure, then the peer (lib/round.mjs)
//   roles           functions that run in processes of their own, by name; JSON in, JSON out
//   profile         the role that `--profile` looks at, and its job

import { ask } from './ask.mjs';
import { chain } from './chain.mjs';
import { driver } from './driver.mjs';
import { entities } from './entities.mjs';
import { fanOut } from './fan-out.mjs';
import { flatness } from './flatness.mjs';
import { hello } from './hello.mjs';
import { idle } from './idle.mjs';
import { latency } from './latency.mjs';
import { limits } from './limits.mjs';
import { locks } from './locks.mjs';
import { queues } from './queues.mjs';
import { replay } from './replay.mjs';
import { scale } from './scale.mjs';
import { start } from './start.mjs';
import { streams } from './streams.mjs';
import { threads } from './threads.mjs';
import { transactions } from './transactions.mjs';
import { waits } from './waits.mjs';
import { wake } from './wake.mjs';

export const workloads = [
  chain,
  hello,
  latency,
  start,
  wake,
  ask,
  entities,
  locks,
  queues,
  limits,
  streams,
  fanOut,
  replay,
  flatness,
  idle,
  scale,
  threads,
  waits,
  transactions,
  driver,
];

/** Questions of the project that the benchmark does not answer yet. */
export const notMeasured = [{ name: 'power loss', why: 'a commit is trusted to be durable once fsync has returned' }];

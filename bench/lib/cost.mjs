// The cost of a process, measured from within.

import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { runOnServer } from './floor.mjs';

/**
 * The processor time that this process uses while nothing happens, and the transactions that a database of Postgres
 * sees meanwhile.
 */
export async function quiet(ms, database) {
  const transactions = () => (database === undefined ? 0 : runOnServer('transactions', database).transactions);
  const seen = transactions();
  const used = process.cpuUsage();
  const began = performance.now();
  await sleep(ms);
  const elapsed = performance.now() - began;
  const { user, system } = process.cpuUsage(used);
  return {
    percent: ((user + system) / 1_000 / elapsed) * 100,
    perMinute: ((transactions() - seen) / elapsed) * 60_000,
  };
}

/** The memory of this process after a garbage collection, KB. */
export function memory() {
  // The flag is set only here, because other workloads run without it.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  collect();
  collect();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rss: rss / 1_024, heap: (heapUsed + external) / 1_024 };
}

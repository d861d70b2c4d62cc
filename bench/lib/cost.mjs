// What a process costs, measured from within.

import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { runOnServer } from './floor.mjs';

/** What this process uses while nothing happens, and the transactions that a database of Postgres sees meanwhile. */
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

/** Of this process, once what is not needed is gone, KB. */
export function memory() {
  // Only here, because the flag is none that other workloads run with.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  collect();
  collect();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rss: rss / 1_024, heap: (heapUsed + external) / 1_024 };
}

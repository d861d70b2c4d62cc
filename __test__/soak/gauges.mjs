// What a process holds, in numbers.

import { readdirSync } from 'node:fs';

/** What the operating system knows of this process; other systems have no list of either. */
function counted() {
  if (process.platform !== 'linux') return {};
  // The list is read through a descriptor of its own.
  return { threads: readdirSync('/proc/self/task').length, descriptors: readdirSync('/proc/self/fd').length - 1 };
}

/** Of this process; `--expose-gc` lets it count what is in use and not what is to be collected. */
export function gaugesOfProcess() {
  globalThis.gc();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { 'resident memory': rss, 'heap in use': heapUsed, 'external memory': external, ...counted() };
}

/** More than there are connections in a pool. */
const CALLS = 64;

/** A pool opens its connections when they are wanted: all of them are, so that none comes later. */
export async function fillPool(client) {
  await Promise.all(Array.from({ length: CALLS }, () => client.getStatus('nobody')));
}

// The resources that a process holds, in numbers.

import { readdirSync } from 'node:fs';

/** Counts the threads and descriptors of this process. Only Linux lists them. */
function counted() {
  if (process.platform !== 'linux') return {};
  // Reading the list takes one descriptor itself.
  return { threads: readdirSync('/proc/self/task').length, descriptors: readdirSync('/proc/self/fd').length - 1 };
}

/** Returns the gauges of this process. Run with `--expose-gc`, so that memory in use is counted and garbage is not. */
export function gaugesOfProcess() {
  globalThis.gc();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { 'resident memory': rss, 'heap in use': heapUsed, 'external memory': external, ...counted() };
}

/** More than the connections of a pool. */
const CALLS = 64;

/**
 * Opens all connections of the pool now, so that none is opened later. A pool opens a connection only when a call needs
 * it.
 */
export async function fillPool(client) {
  await Promise.all(Array.from({ length: CALLS }, () => client.getStatus('nobody')));
}

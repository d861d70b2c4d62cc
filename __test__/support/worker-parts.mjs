// The parts that all worker processes share.

import { openSync, writeSync } from 'node:fs';
import { PostgresProvider, SqliteProvider } from 'perdure';

/** Bytes of a line of a log: a fraction of a page. */
export const LINE = 256;

/**
 * Opens a log that several processes share and that survives their kills. Each line is one write to a file that is open
 * for appending. All lines have the same length, so none crosses a page: at a page boundary Linux checks whether the
 * writing process was killed, and may leave the write half done.
 */
export function openLog(path) {
  const file = openSync(path, 'a');
  return (entry) => {
    const line = JSON.stringify(entry);
    if (Buffer.byteLength(line) >= LINE) throw new Error('the line is too long');
    writeSync(file, `${line.padEnd(LINE - 1)}\n`);
  };
}

export function say(message) {
  // The parent may be gone, or this process about to end.
  if (process.connected) process.send(message, () => {});
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Opens the store of an address, see providers.ts. */
export async function openStore(store) {
  if (store.kind === 'sqlite') return SqliteProvider.open(store.path);
  const { url, schema, poolSize = 4, notify = true } = store;
  return PostgresProvider.connect(url, { schema, poolSize, notify });
}

/** Returns a generator of numbers in 0..1 that the seed decides (mulberry32). */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

// What worker processes are made of, whatever they run.

import { openSync, writeSync } from 'node:fs';
import { PostgresProvider, SqliteProvider } from 'perdure';

/** Bytes of a line of a log: a fraction of a page. */
export const LINE = 256;

/**
 * A log that processes share and are killed over. One write per line, to a file that is open for appending. All lines are of one length, so
 * none crosses a page: that is where Linux looks whether a process that writes was killed, and leaves half of what it had to write.
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
  // The parent may be gone, or this process about to be.
  if (process.connected) process.send(message, () => {});
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The store of an address, see providers.ts. */
export async function openStore(store) {
  if (store.kind === 'sqlite') return SqliteProvider.open(store.path);
  const { url, schema, poolSize = 4, notify = true } = store;
  return PostgresProvider.connect(url, { schema, poolSize, notify });
}

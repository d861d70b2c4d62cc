// A ledger: one line of JSON per entry, appended and synced. Each key has one entry.
//
// The ledger stands for an external system: a payment service, a mail server, a table in another database. Such a
// system cannot be part of the transactions of the orchestrations. An activity may be killed after its write to the
// ledger and before its result is recorded. Then it runs again, and the idempotency key makes the second write have no
// effect.

import { open, readFile } from 'node:fs/promises';

export class Ledger {
  #file;
  #lines = [];
  /** The next write, which takes `#lines` after the current write. */
  #next = null;
  #last = Promise.resolve();
  /** By key: the write that contains its entry. */
  #written = new Map();

  constructor(file, entries) {
    this.#file = file;
    for (const { key } of entries) this.#written.set(key, this.#last);
  }

  /** Opens a ledger. Only one process may write: the demo starts a worker after the last one has ended. */
  static async open(path) {
    const file = await open(path, 'a+');
    const { entries, bytes } = parse(await readFile(path));
    // After a kill in the middle of a write, the last entry was never acknowledged. Removes its incomplete line.
    await file.truncate(bytes);
    return new Ledger(file, entries);
  }

  /**
   * Resolves when the entry is on disk: to true if this call wrote it, to false if an earlier call with this key wrote
   * it.
   */
  async write(key, entry) {
    const earlier = this.#written.get(key);
    if (earlier !== undefined) {
      await earlier;
      return false;
    }
    this.#lines.push(`${JSON.stringify({ key, ...entry })}\n`);
    this.#next ??= this.#last = this.#last.then(() => this.#flush());
    this.#written.set(key, this.#next);
    await this.#next;
    return true;
  }

  /** Writes and syncs all entries that arrived during the last write. */
  async #flush() {
    this.#next = null;
    await this.#file.appendFile(this.#lines.splice(0).join(''));
    await this.#file.datasync();
  }

  async close() {
    await this.#last;
    await this.#file.close();
  }
}

/** Returns all entries of the file. */
export async function readLedger(path) {
  return parse(await readFile(path)).entries;
}

/** Returns the entries of all complete lines, and the number of their bytes. */
function parse(content) {
  const bytes = content.lastIndexOf('\n') + 1;
  const lines = content.toString('utf8', 0, bytes).split('\n').slice(0, -1);
  return { entries: lines.map((line) => JSON.parse(line)), bytes };
}

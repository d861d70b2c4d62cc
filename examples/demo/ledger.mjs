// A ledger: one line of JSON per entry, appended and synced, each key once.
//
// It stands for the payment system, the mail server or the table of somebody else: what is outside the database of the
// orchestrations, and so cannot be part of its transactions. An activity that writes to it may be killed after the
// write and before its result is recorded; then it runs again. The idempotency key makes the second write do nothing.

import { open, readFile } from 'node:fs/promises';

export class Ledger {
  #file;
  #lines = [];
  /** The write that takes `#lines`, once the one before it is done. */
  #next = null;
  #last = Promise.resolve();
  /** By key: the write that its entry is in. */
  #written = new Map();

  constructor(file, entries) {
    this.#file = file;
    for (const { key } of entries) this.#written.set(key, this.#last);
  }

  /** Only one process may have it open for writing: the demo starts a worker when the one before it is gone. */
  static async open(path) {
    const file = await open(path, 'a+');
    const { entries, bytes } = parse(await readFile(path));
    // Killed in the middle of a write: nobody was told that the last entry stands, so what there is of it goes.
    await file.truncate(bytes);
    return new Ledger(file, entries);
  }

  /**
   * Resolves when the entry is on disk: to true if it was written now, to false if an earlier call with this key has
   * written it.
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

  /** One sync for all entries that came while the one before it was under way. */
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

/** All entries as they stand in the file. */
export async function readLedger(path) {
  return parse(await readFile(path)).entries;
}

/** The entries of all whole lines, and how many bytes these are. */
function parse(content) {
  const bytes = content.lastIndexOf('\n') + 1;
  const lines = content.toString('utf8', 0, bytes).split('\n').slice(0, -1);
  return { entries: lines.map((line) => JSON.parse(line)), bytes };
}

// One round of a workload: what its `round` function works with.

import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { runChild } from './child-process.mjs';
import { runFloor } from './floor.mjs';

/** Rows of these tables are the work; those of others (`workers`) come with being a process. */
const WORK = ['instances', 'history'];
/** Ids and names differ in length by a few characters. */
const BYTES_TOLERANCE = 0.05;

export class Round {
  #workload;
  #directory;
  #files = 0;

  constructor(workload, directory) {
    this.#workload = workload;
    this.#directory = directory;
    mkdirSync(directory, { recursive: true });
  }

  /** A path on the measured disk where nothing is yet. */
  file(end = 'db') {
    this.#files += 1;
    return join(this.#directory, `${this.#files}.${end}`);
  }

  /** Run the floor. */
  floor(command, options) {
    return runFloor(command, options);
  }

  /**
   * Run a function that the workload's file exports in `roles`, in a fresh process.
   *
   * @param {string} role
   * @param {object} job what the function gets; JSON
   */
  child(role, job, workload = this.#workload) {
    return runChild(workload.name, role, job);
  }

  /** Throws unless both stores hold the same work: as many rows, and as many bytes within a few percent. */
  assertSameRows(floorFile, perdureFile) {
    const [floor, perdure] = [floorFile, perdureFile].map((db) => runFloor('count', { db }));
    for (const table of WORK) {
      const [a, b] = [floor[table], perdure[table]];
      const off = Math.abs(a.bytes / b.bytes - 1);
      if (a.rows === b.rows && off <= BYTES_TOLERANCE) continue;
      throw new Error(
        `${this.#workload.name}: table ${table} has ${a.rows} rows (${a.bytes} bytes) from the floor and ` +
          `${b.rows} rows (${b.bytes} bytes) from Perdure: they do not do the same work`,
      );
    }
  }

  clean() {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

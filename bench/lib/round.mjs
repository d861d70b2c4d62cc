// One round of a workload on one store: the helpers that its `round` function works with.

import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { runChild, runTogether } from './child-process.mjs';
import { runFloor, runOnServer } from './floor.mjs';
import { POSTGRES_URL, postgresUrl, SCHEMA_PREFIX } from './stores.mjs';

/** The tables whose rows are the work. Rows of others (`workers`) come with being a process. */
const WORK = ['instances', 'history'];
/** The tolerance for bytes, because ids and names differ in length by a few characters. */
const BYTES_TOLERANCE = 0.05;

export class Round {
  #workload;
  #directory;
  #peer;
  #prefix;
  #count = 0;

  /** The store in which Perdure keeps its instances: one of `STORES`, or `MEMORY`. */
  store;

  /**
   * Makes the folder of the round.
   *
   * @param {object} workload
   * @param {string} store
   * @param {string} directory for files on the measured disk; made and removed by the round
   * @param {{ n?: number, peer?: object | null }} options the number of the round, and the peer that does the workload,
   * too
   */
  constructor(workload, store, directory, { n = 0, peer = null } = {}) {
    this.store = store;
    this.#workload = workload;
    this.#directory = directory;
    this.#peer = peer;
    this.#prefix = `${SCHEMA_PREFIX}_${workload.name.replaceAll('-', '_')}_${n}_`;
    mkdirSync(directory, { recursive: true });
  }

  /** A place in the store that is empty. */
  place() {
    if (this.store === 'sqlite') return { store: 'sqlite', file: this.file('db') };
    return { store: 'postgres', url: POSTGRES_URL, schema: this.#name() };
  }

  /** A place whose traffic can be told from that of others: in Postgres a database of its own. */
  placeApart() {
    if (this.store !== 'postgres') return this.place();
    const database = this.#name();
    runOnServer('create-database', database);
    return { store: 'postgres', url: postgresUrl(database), schema: 'perdure', database };
  }

  /** A path on the measured disk that is free. */
  file(end) {
    this.#count += 1;
    return join(this.#directory, `${this.#count}.${end}`);
  }

  /** Runs the floor. */
  floor(command, place, options) {
    return runFloor(command, place, options);
  }

  /**
   * Runs a function that the workload's file exports in `roles`, in a fresh process.
   *
   * @param {string} role
   * @param {object} job the argument of the function; JSON
   */
  child(role, job, workload = this.#workload) {
    return runChild(workload.name, role, job);
  }

  /**
   * Runs it in several processes at once, one a job. The second argument of the function lets them wait for each other.
   */
  children(role, jobs) {
    return runTogether(this.#workload.name, role, jobs);
  }

  /**
   * Lets the peer do the same, in a place of its own. Returns `null` if no peer does this workload on this store.
   *
   * @param {object} job
   * @param {() => import('./stores.mjs').Place} place
   */
  async peer(job, place = this.place) {
    if (!this.#hasPeer()) return null;
    const { name, nodeOptions } = this.#peer;
    return runChild(name, this.#workload.name, { ...job, place: place.call(this) }, { nodeOptions });
  }

  /** Lets the peer do the same in several processes at once, one a job, all in one place. */
  async peers(jobs) {
    if (!this.#hasPeer()) return null;
    const { name, nodeOptions } = this.#peer;
    await runChild(name, 'prepare', jobs[0], { nodeOptions });
    return runTogether(name, this.#workload.name, jobs, { nodeOptions });
  }

  /** Throws unless both places hold the same work: as many rows, and as many bytes within a few percent. */
  assertSameRows(floorPlace, perdurePlace) {
    const [floor, perdure] = [floorPlace, perdurePlace].map((place) => runFloor('count', place));
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
    if (this.store === 'postgres') runOnServer('drop', this.#prefix);
  }

  #hasPeer() {
    const peer = this.#peer;
    return peer?.stores.includes(this.store) && Object.hasOwn(peer.roles, this.#workload.name);
  }

  #name() {
    this.#count += 1;
    return `${this.#prefix}${this.#count}`;
  }
}

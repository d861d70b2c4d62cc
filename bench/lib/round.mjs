// One round of a workload on one store: what its `round` function works with.

import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { runChild, runTogether } from './child-process.mjs';
import { runFloor, runOnServer } from './floor.mjs';
import { POSTGRES_URL, postgresUrl, SCHEMA_PREFIX } from './stores.mjs';

/** Rows of these tables are the work; those of others (`workers`) come with being a process. */
const WORK = ['instances', 'history'];
/** Ids and names differ in length by a few characters. */
const BYTES_TOLERANCE = 0.05;

export class Round {
  #workload;
  #directory;
  #peer;
  #prefix;
  #count = 0;

  /** Where Perdure keeps its instances: one of `STORES`, or `MEMORY`. */
  store;

  /**
   * @param {object} workload
   * @param {string} store
   * @param {string} directory for what is on the measured disk; made and removed by the round
   * @param {{ n?: number, peer?: object | null }} options the number of the round, and who else does the workload
   */
  constructor(workload, store, directory, { n = 0, peer = null } = {}) {
    this.store = store;
    this.#workload = workload;
    this.#directory = directory;
    this.#peer = peer;
    this.#prefix = `${SCHEMA_PREFIX}_${workload.name.replaceAll('-', '_')}_${n}_`;
    mkdirSync(directory, { recursive: true });
  }

  /** A place in the store where nothing is yet. */
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

  /** A path on the measured disk where nothing is yet. */
  file(end) {
    this.#count += 1;
    return join(this.#directory, `${this.#count}.${end}`);
  }

  /** Run the floor. */
  floor(command, place, options) {
    return runFloor(command, place, options);
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

  /** Run it in several processes at once, one a job; their second argument lets them wait for each other. */
  children(role, jobs) {
    return runTogether(this.#workload.name, role, jobs);
  }

  /**
   * Let the peer do the same, in a place of its own. `null` when there is none that does this workload on this store.
   *
   * @param {object} job
   * @param {() => import('./stores.mjs').Place} place
   */
  async peer(job, place = this.place) {
    if (!this.#hasPeer()) return null;
    const { name, nodeOptions } = this.#peer;
    return runChild(name, this.#workload.name, { ...job, place: place.call(this) }, { nodeOptions });
  }

  /** The same in several processes at once, one a job, all in one place. */
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

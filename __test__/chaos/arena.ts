// The place where programs, workers and faults meet: one store, the processes on it, the logs, and the faults that have
// struck.

import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { Client } from 'perdure';

import type { Absence } from '../crash/checker.ts';
import { eventually, within } from '../support/async.ts';
import { readEffects } from '../support/effects.ts';
import { temporaryFolder } from '../support/providers.ts';
import { readRows } from '../support/violations.ts';
import { LINE, openStore } from '../support/worker-parts.mjs';
import { type ClientEntry, readClientLog } from './client-log.ts';
import type { Dice } from './dice.ts';
import { QUEUES } from './gate.ts';
import type { Look, Part } from './looks.ts';
import type { Site } from './sites.ts';
import { ChaosClient, ChaosWorker, type Counts } from './talk.ts';

/** Short, so that many leases end in a round. Long enough for a machine that has other things to do. */
export const LEASE_MS = 2_000;

/** Programs that a client keeps going at once. */
const STRANDS = 16;

/** A text that is part of every input. */
export const NOTE = 'canary-payload';

/** Limit of every wait, ms. A condition that does not hold by then never will, however slow the machine is. */
const DEADLINE_MS = 60_000;

/** Names of the counters. */
export const COUNTS = [
  'programs',
  'finished',
  'instances',
  'programs in a queue',
  'events',
  'attempts',
  'attempts run again',
  'acknowledged calls',
  'calls with unknown outcome',
  'kills',
  'client kills',
  'zombies',
  'restarts',
  'crashes',
  'connections broken',
  'stalls',
  'disks full',
  'failed writes and syncs',
  'power cuts',
  'primaries killed',
  'primaries frozen',
  'primaries frozen that woke up',
  'standbys away',
  'switchovers',
  'stale writes rejected',
  'leases lost',
  'takeovers',
  'writes tried again',
  'workers',
  'clients',
  'looks at the store',
] as const;

export type Count = (typeof COUNTS)[number];

export interface Struck {
  readonly fault: string;
  readonly ms: number;
}

/** From the order to promote a standby until all workers, and the client, had written there, ms. */
export interface Promotion {
  readonly workersMs: number;
  readonly clientMs: number;
}

/** Counters of a round. */
export type Tally = Partial<Record<Count, number>>;

export class Arena {
  readonly site: Site;
  readonly seed: number;
  readonly isShort: boolean;
  readonly folder = temporaryFolder();
  readonly effectLog = join(this.folder, 'effects');
  readonly clientLog = join(this.folder, 'client');
  readonly tally: Tally = {};
  /** Faults that have struck, each with the time that it and its repair took. */
  readonly struck: Struck[] = [];
  readonly promotions: Promotion[] = [];
  readonly absences: Absence[] = [];
  readonly looks: Look[] = [];
  /** The parts of the effect log that were written while the power was cut. */
  readonly cuts: Part[] = [];
  /** Failures that were noticed during the round, as sentences. */
  readonly complaints: string[] = [];
  /** The workers by place. Each place has its own connection path to the store. */
  readonly workers: ChaosWorker[] = [];
  client!: ChaosClient;
  readonly #all: (ChaosWorker | ChaosClient)[] = [];
  /** Processes that may end. */
  readonly #expected = new Set<ChaosWorker | ChaosClient>();

  constructor(site: Site, { seed, isShort }: { readonly seed: number; readonly isShort: boolean }) {
    this.site = site;
    this.seed = seed;
    this.isShort = isShort;
    for (const log of [this.effectLog, this.clientLog]) writeFileSync(log, '');
  }

  /** Sets the limits of the queues, and starts all processes. */
  async open(places: number): Promise<void> {
    const provider = await openStore(this.site.address);
    for (const [name, limits] of Object.entries(QUEUES)) await new Client(provider).queues.set(name, limits);
    await provider.close();
    await Promise.all([...Array.from({ length: places }, (_, place) => this.startWorker(place)), this.startClient()]);
  }

  /** Starts a worker in a free place. `through` is a program that runs the worker. */
  async startWorker(place: number, through: readonly string[] = []): Promise<ChaosWorker> {
    const name = `worker ${this.count('workers')}`;
    const runtime = {
      lease: LEASE_MS,
      activityConcurrency: 8,
      queues: place % 2 === 1 ? ['default', 'far'] : ['default'],
    };
    const worker = ChaosWorker.of({ store: this.site.addressOf(place), log: this.effectLog, name, runtime }, through);
    this.#watch(worker);
    this.workers[place] = worker;
    await this.inTime(`${name} starts`, worker.said('ready'));
    return worker;
  }

  async startClient(): Promise<void> {
    const options = {
      store: this.site.addressOf(),
      log: this.clientLog,
      seed: this.seed,
      strands: STRANDS,
      note: NOTE,
    };
    this.client = ChaosClient.of(`client ${this.count('clients')}`, options);
    this.#watch(this.client);
    await this.inTime('the client starts', this.client.said('ready'));
  }

  #watch(process: ChaosWorker | ChaosClient): void {
    this.#all.push(process);
    void process.exited().then(({ code, signal }) => {
      if (!this.#expected.has(process))
        this.complaints.push(`${process.name} ended by itself (${code ?? signal}): ${process.stderr.slice(-2_000)}`);
    });
  }

  /** Kills the process with SIGKILL and records its absence. */
  async kill(process: ChaosWorker | ChaosClient): Promise<void> {
    this.#expected.add(process);
    const from = Date.now();
    await process.kill();
    this.absent([process], from);
  }

  /** Records that other workers had a reason, from `from` until now, to run again what these processes had begun. */
  absent(processes: readonly { readonly name: string }[], from: number): void {
    const by = Date.now();
    for (const { name } of processes) this.absences.push({ worker: name, from, by });
  }

  /** Asks a process to shut down, and waits until it has ended. */
  async end(process: ChaosWorker): Promise<void> {
    this.#expected.add(process);
    process.tell({ type: 'shutdown' });
    const { code, signal } = await this.inTime(`${process.name} shuts down`, process.exited());
    if (code !== 0)
      this.complaints.push(`${process.name} did not end well (${code ?? signal}): ${process.stderr.slice(-2_000)}`);
  }

  /** Tells the client to begin no more programs, and waits until all programs and the client have ended. */
  async finish(): Promise<void> {
    const { client } = this;
    this.#expected.add(client);
    client.tell({ type: 'enough' });
    await this.inTime('all programs end', client.said('done'));
    await this.inTime('the client ends', client.exited());
  }

  /**
   * Waits until no instance waits for anything and no worker runs an activity any more, not even one that was given up
   * (S22).
   */
  async rest(): Promise<void> {
    for (const worker of this.workers) {
      const told = worker.all('counts').length;
      await this.until(
        `${worker.name} ends all activities`,
        () => worker.all('counts').slice(told).at(-1)?.openActivities === 0,
      );
    }
  }

  /** Waits for progress: this many attempts begin or end from now on. */
  async progress(effects: number): Promise<void> {
    const wanted = lines(this.effectLog) + effects;
    await eventually(DEADLINE_MS, `${effects} more lines in the effect log`, () => lines(this.effectLog) >= wanted);
  }

  /** Waits for progress in each worker: an attempt begins in each from now on. */
  async progressOfEach(): Promise<void> {
    const before = lines(this.effectLog);
    for (const { name } of this.workers) {
      const begins = () =>
        readEffects(this.effectLog)
          .slice(before)
          .some(({ event, worker }) => event === 'begin' && worker === name);
      await this.until(`${name} begins an attempt`, begins);
    }
  }

  /**
   * True if the client was acknowledged a start of a program that it asked for the first time after `time`. Such a
   * program has no former start that the acknowledgement could belong to.
   */
  hasStartedSince(time: number): boolean {
    const starts = readClientLog(this.clientLog).filter(({ action }) => action === 'start');
    const begun = new Set(
      starts.flatMap(({ phase, attempt, at, program }) =>
        phase === 'asked' && attempt === 1 && at > time ? [program] : [],
      ),
    );
    return starts.some(({ phase, program }) => phase === 'acknowledged' && begun.has(program));
  }

  /** Waits for a random amount of progress. */
  async moment(dice: Dice): Promise<void> {
    await this.progress(dice.between(5, 60));
  }

  /** Reads the rows and the lengths of the logs, for the checks at the end of the round. */
  look(): void {
    const [effectsBefore, toldBefore] = [lines(this.effectLog), this.told];
    const rows = readRows(this.site.address);
    this.looks.push({ rows, effectsBefore, toldBefore, effectsAfter: lines(this.effectLog) });
    this.count('looks at the store');
  }

  /** The number of lines in the client log. */
  get told(): number {
    return lines(this.clientLog);
  }

  /**
   * Carries out a power cut, and kills all processes. They were cut off together with the store, so what they logged
   * since the beginning of the cut did not happen: no client received an answer, and no activity began.
   */
  async cutPower(cut: () => Promise<void>): Promise<void> {
    const [told, from] = [this.told, lines(this.effectLog)];
    await cut();
    await Promise.all([...this.workers, this.client].map((process) => this.kill(process)));
    this.#untold(told);
    this.cuts.push({ from, to: lines(this.effectLog) });
  }

  /** Removes from the client log all answers after line `from`. */
  #untold(from: number): void {
    const all = readFileSync(this.clientLog, 'utf8').split('\n').filter(Boolean);
    const kept = all.filter((line, i) => i < from || (JSON.parse(line) as ClientEntry).phase === 'asked');
    writeFileSync(this.clientLog, kept.map((line) => `${line}\n`).join(''));
  }

  /** Adds to a counter, and returns its new value. */
  count(what: Count, more = 1): number {
    const now = (this.tally[what] ?? 0) + more;
    this.tally[what] = now;
    return now;
  }

  inTime<T>(what: string, promise: Promise<T>): Promise<T> {
    return within(DEADLINE_MS, what, promise);
  }

  /** Waits until the check returns true. */
  until(what: string, check: () => boolean | Promise<boolean>): Promise<void> {
    return eventually(DEADLINE_MS, what, check);
  }

  /** The sum of one counter over all workers. */
  sum(what: Exclude<keyof Counts, 'isNatural' | 'openActivities'>): number {
    return this.#workers.reduce((sum, { counts }) => sum + (counts?.[what] ?? 0), 0);
  }

  get #workers(): ChaosWorker[] {
    return this.#all.filter((process) => process instanceof ChaosWorker);
  }

  /** The text that all processes have written to stderr. */
  get stderr(): string {
    return this.#all.map((process) => process.stderr).join('\n');
  }

  /** True if no worker has found the prototypes of objects and arrays changed. */
  get isNatural(): boolean {
    return this.#workers.every(({ counts }) => counts?.isNatural ?? true);
  }

  async close(): Promise<void> {
    for (const process of this.#all) this.#expected.add(process);
    await Promise.all(this.#all.map((process) => process.kill()));
    await this.site.remove();
    rmSync(this.folder, { recursive: true });
  }
}

function lines(log: string): number {
  return Math.floor(statSync(log).size / LINE);
}

// What is measured again and again, and how far it may rise.

export type Unit = 'bytes' | 'count';

/** What a gauge may rise to over a soak: so much more than it was, as a share of it and as such. */
interface Limit {
  readonly unit: Unit;
  readonly share: number;
  readonly plus: number;
  /** What it must be when nothing is going on: nothing, or at most what it was when nothing was going on before. */
  readonly atRest?: 'nothing' | 'as before';
}

const MIB = 1024 * 1024;

/** Of a process, of its runtime, and of a store. */
export const LIMITS = {
  // The allocators of Node, of its threads and of Rust give back what they hold in their own time.
  'resident memory': { unit: 'bytes', share: 0.1, plus: 16 * MIB },
  'heap in use': { unit: 'bytes', share: 0.1, plus: 2 * MIB },
  'external memory': { unit: 'bytes', share: 0.1, plus: 2 * MIB },
  threads: { unit: 'count', share: 0, plus: 0, atRest: 'as before' },
  descriptors: { unit: 'count', share: 0, plus: 0, atRest: 'as before' },
  connections: { unit: 'count', share: 0, plus: 0, atRest: 'as before' },
  'instances loaded': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'instances owned': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  generators: { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'turns in progress': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'activities open': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'attempts on the first thread': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'custom statuses': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'trace contexts': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'jobs queued': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'programs under way': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'instances stored': { unit: 'count', share: 0.25, plus: 100 },
  'messages stored': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'tasks stored': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'store size': { unit: 'bytes', share: 0.25, plus: 8 * MIB },
  'log size': { unit: 'bytes', share: 0.25, plus: 4 * MIB },
} as const satisfies Readonly<Record<string, Limit>>;

export type Gauge = keyof typeof LIMITS;

/** What some of them show at one time. */
export type Gauges = Partial<Record<Gauge, number>>;

/** What the log of an SQLite file never exceeds, whatever reads from it: `WAL_BYTES_MAX` in crates/provider-sqlite/src/options.rs. */
export const LOG_BYTES_MAX = 64 * MIB;

export function limitOf(gauge: Gauge): Limit {
  return LIMITS[gauge];
}

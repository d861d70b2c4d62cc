// The gauges that are sampled during a soak, and their limits.

export type Unit = 'bytes' | 'count';

/** The limit of a gauge over a soak: it may rise by a share of its first value, plus a constant. */
interface Limit {
  readonly unit: Unit;
  readonly share: number;
  readonly plus: number;
  /** The limit at rest: zero, the instances that a worker keeps, or at most the value at the rest before. */
  readonly atRest?: 'nothing' | 'kept' | 'as before';
}

const MIB = 1024 * 1024;

/**
 * The instances whose generators a worker keeps although they are unused: `CACHE_KEPT` in
 * crates/runtime/src/options.rs. An instance that ended in another process is among them until others take its place.
 */
const KEPT_MAX = 256;

/** The gauges of a process, of its runtime, and of a store. */
export const LIMITS = {
  // The allocators of Node, of its threads and of Rust return memory in their own time.
  'resident memory': { unit: 'bytes', share: 0.1, plus: 16 * MIB },
  'heap in use': { unit: 'bytes', share: 0.1, plus: 2 * MIB },
  'external memory': { unit: 'bytes', share: 0.1, plus: 2 * MIB },
  threads: { unit: 'count', share: 0, plus: 0, atRest: 'as before' },
  descriptors: { unit: 'count', share: 0, plus: 0, atRest: 'as before' },
  connections: { unit: 'count', share: 0, plus: 0, atRest: 'as before' },
  'instances loaded': { unit: 'count', share: 0.25, plus: 20, atRest: 'kept' },
  'instances owned': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  generators: { unit: 'count', share: 0.25, plus: 20, atRest: 'kept' },
  'turns in progress': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'activities open': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'attempts on the first thread': { unit: 'count', share: 0.25, plus: 20, atRest: 'nothing' },
  'custom statuses': { unit: 'count', share: 0.25, plus: 20, atRest: 'kept' },
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

/** Values of some gauges at one time. */
export type Gauges = Partial<Record<Gauge, number>>;

/**
 * The greatest size of the log of an SQLite file, with any readers: `WAL_BYTES_MAX` in
 * crates/provider-sqlite/src/options.rs.
 */
export const LOG_BYTES_MAX = 64 * MIB;

export function limitOf(gauge: Gauge): Limit {
  return LIMITS[gauge];
}

/** True if a value of a gauge at rest is more than may be left. */
export function isLeft(gauge: Gauge, value: number): boolean {
  const { atRest } = limitOf(gauge);
  return (atRest === 'nothing' && value > 0) || (atRest === 'kept' && value > KEPT_MAX);
}

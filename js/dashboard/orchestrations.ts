// Numbers of each orchestration, from a sample: the newest instances. No store counts by orchestration, so a bounded
// number of instances is read in a bounded time, and the answer says how many.

import { performance } from 'node:perf_hooks';

import type { Client } from '../client/client.ts';
import type { WorkerInfo } from '../client/description.ts';
import { hasEnded, type InstanceState, type InstanceStatus, STATES } from '../client/instance-status.ts';
import type { OverdueInstances } from '../client/stats.ts';
import type { OrchestrationNumbers, OrchestrationRow, OrchestrationsAnswer } from './answers.ts';

/** Most instances of a sample. */
export const SAMPLE_MAX = 1_000;

/** Instances that are read at once. */
const PAGE = 200;

/** Time after which no further page is read, ms. */
const SAMPLE_MS = 2_000;

/** Least time for which a sample is used again, ms. */
const FRESH_MS = 5_000;

/** At most one part in so many of the time is spent on samples. */
const SHARE = 20;

interface Taken {
  readonly answer: Promise<OrchestrationsAnswer>;
  /** Time from which on a new sample is taken, by the monotonic clock; `Infinity` until the sample is complete. */
  untilMs: number;
}

/** Samples the instances for all readers. */
export class OrchestrationSampler {
  readonly #client: Client;
  #taken: Taken | undefined;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Returns the numbers of a sample that is at most a few seconds old. */
  async read(): Promise<OrchestrationsAnswer> {
    if (this.#taken === undefined || performance.now() >= this.#taken.untilMs) {
      const taken: Taken = { answer: this.#take(), untilMs: Infinity };
      this.#taken = taken;
      const began = performance.now();
      const end = (isGood: boolean): void => {
        const now = performance.now();
        taken.untilMs = isGood ? now + Math.max(FRESH_MS, (now - began) * SHARE) : now;
      };
      taken.answer.then(
        () => end(true),
        () => end(false),
      );
    }
    return this.#taken.answer;
  }

  async #take(): Promise<OrchestrationsAnswer> {
    const [sample, workers, overdue] = await Promise.all([
      this.#sample(),
      this.#client.workers(),
      this.#client.overdue(),
    ]);
    return { ...sample.facts, items: rowsOf(sample.instances, workers, overdue, sample.facts) };
  }

  async #sample(): Promise<{ instances: Seen[]; facts: Omit<OrchestrationsAnswer, 'items'> }> {
    const instances: Seen[] = [];
    const began = performance.now();
    let cursor: string | null = null;
    do {
      const page = await this.#client.listInstances({ limit: PAGE, ...(cursor === null ? {} : { cursor }) }).page();
      // Only these fields are kept, because a custom status or an output may be large.
      instances.push(...page.items.map(seenOf));
      ({ cursor } = page);
    } while (cursor !== null && instances.length < SAMPLE_MAX && performance.now() - began < SAMPLE_MS);
    const atMs = Date.now();
    const sinceMs = Math.min(atMs, ...instances.map(({ createdMs }) => createdMs));
    return { instances, facts: { atMs, sinceMs, sampled: instances.length, isWhole: cursor === null } };
  }
}

interface Seen extends Pick<InstanceStatus, 'name' | 'version' | 'status'> {
  readonly createdMs: number;
  readonly tookMs: number | undefined;
}

function seenOf({ name, version, status, createdAt, completedAt, updatedAt }: InstanceStatus): Seen {
  const tookMs = hasEnded(status) ? (completedAt ?? updatedAt).getTime() - createdAt.getTime() : undefined;
  return { name, version, status, createdMs: createdAt.getTime(), tookMs };
}

/** Returns the rows by name, those with the most instances first. A registered orchestration has a row in any case. */
function rowsOf(
  instances: readonly Seen[],
  workers: readonly WorkerInfo[],
  overdue: readonly OverdueInstances[],
  { atMs, sinceMs }: { atMs: number; sinceMs: number },
): OrchestrationRow[] {
  const registered = registeredBy(workers);
  const names = new Map<string, Map<string, Seen[]>>();
  const versionsOf = (name: string, version: string): Seen[] => {
    const versions = names.get(name) ?? new Map<string, Seen[]>();
    names.set(name, versions);
    const seen = versions.get(version) ?? [];
    versions.set(version, seen);
    return seen;
  };
  for (const one of instances) versionsOf(one.name, one.version).push(one);
  for (const { name, versions } of registered.values())
    for (const version of versions.keys()) versionsOf(name, version);
  const overdueOf = (name: string, version?: string): number =>
    overdue
      .filter((one) => one.name === name && (version === undefined || one.version === version))
      .reduce((sum, one) => sum + one.instances, 0);
  const numbers = (seen: readonly Seen[], name: string, version?: string): OrchestrationNumbers => ({
    ...numbersOf(seen, atMs - sinceMs),
    overdue: overdueOf(name, version),
  });
  return [...names]
    .map(([name, versions]) => ({
      name,
      ...numbers([...versions.values()].flat(), name),
      versions: [...versions]
        .map(([version, seen]) => ({
          version,
          ...numbers(seen, name, version),
          workers: registered.get(name)?.versions.get(version) ?? 0,
        }))
        .sort((one, other) => newestFirst(one.version, other.version)),
    }))
    .sort((one, other) => other.instances - one.instances || (one.name < other.name ? -1 : 1));
}

/** Compares versions such as `1.10.0` by their numbers, the greater one first. */
export function newestFirst(one: string, other: string): number {
  return other.localeCompare(one, 'en', { numeric: true });
}

/** Returns the number of live workers by name and version of their registered orchestrations. */
function registeredBy(workers: readonly WorkerInfo[]): Map<string, { name: string; versions: Map<string, number> }> {
  const found = new Map<string, { name: string; versions: Map<string, number> }>();
  for (const { isAlive, about } of workers) {
    if (!isAlive) continue;
    for (const { name, versions } of about?.registered?.orchestrations ?? []) {
      const entry = found.get(name) ?? { name, versions: new Map<string, number>() };
      found.set(name, entry);
      for (const version of versions) entry.versions.set(version, (entry.versions.get(version) ?? 0) + 1);
    }
  }
  return found;
}

function numbersOf(seen: readonly Seen[], spanMs: number): Omit<OrchestrationNumbers, 'overdue'> {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0])) as Record<InstanceState, number>;
  const took: number[] = [];
  for (const { status, tookMs } of seen) {
    counts[status] += 1;
    if (tookMs !== undefined) took.push(tookMs);
  }
  took.sort((one, other) => one - other);
  return {
    instances: seen.length,
    counts,
    ended: took.length,
    startsPerSecond: spanMs <= 0 ? 0 : (seen.length * 1_000) / spanMs,
    ...(took.length === 0 ? {} : { p50Ms: quantile(took, 0.5), p99Ms: quantile(took, 0.99) }),
  };
}

/** Returns the smallest value that this share of the sorted values does not exceed. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}

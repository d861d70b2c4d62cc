// Samples the store repeatedly while it has listeners, for the overview and its rates.

import { performance } from 'node:perf_hooks';

import type { Client } from '../client/client.ts';
import { ENDED_STATES } from '../client/instance-status.ts';
import type { StoreStats } from '../client/stats.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { DurationHistogram } from '../tracing/metrics.ts';
import type { PastAnswer, RuntimeAnswer, Sample, SampleCounts } from './answers.ts';

/** Least interval between two samples, ms. A store that takes long to count is sampled less often. */
const LOOK_MS = 2_000;

/** At most one part in so many of the store's time is spent on samples. */
const SHARE = 20;

/** Past samples that are kept: five minutes of them. */
const TICKS_MAX = 150;

/** Receives samples. */
export interface SampleListener {
  sample(sample: Sample): void;
  failed(error: unknown): void;
}

/** Samples the store for all listeners. It rests while there are none. */
export class Sampler {
  readonly #client: Client;
  readonly #runtime: Runtime | undefined;
  readonly #listeners = new Set<SampleListener>();
  readonly #past: SampleCounts[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  constructor(client: Client, runtime: Runtime | undefined) {
    this.#client = client;
    this.#runtime = runtime;
  }

  /** The past samples of the last minutes. */
  get past(): PastAnswer {
    const since = Date.now() - TICKS_MAX * LOOK_MS;
    return this.#past.filter(({ atMs }) => atMs > since);
  }

  /** Sends each sample to `listener`, the first at once, until the returned function is called. */
  watch(listener: SampleListener): () => void {
    this.#listeners.add(listener);
    if (!this.#isLooking) {
      clearTimeout(this.#timer);
      void this.#look();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) clearTimeout(this.#timer);
    };
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    const before = performance.now();
    try {
      const sample = await this.#sample();
      this.#past.push(sample.tick);
      if (this.#past.length > TICKS_MAX) this.#past.shift();
      for (const listener of this.#listeners) listener.sample(sample);
    } catch (error) {
      for (const listener of this.#listeners) listener.failed(error);
    } finally {
      this.#isLooking = false;
    }
    if (this.#listeners.size === 0) return;
    const took = performance.now() - before;
    this.#timer = setTimeout(() => void this.#look(), Math.max(LOOK_MS, took * SHARE));
  }

  async #sample(): Promise<Sample> {
    const [stats, workers] = await Promise.all([this.#client.stats(), this.#client.workers()]);
    const runtime = this.#runtime === undefined ? null : answerOf(this.#runtime);
    return {
      tick: tickOf(stats, runtime),
      stats,
      workers: workers.map(({ leaseUntil, ...worker }) => ({ ...worker, leaseUntilMs: leaseUntil.getTime() })),
      runtime,
    };
  }
}

function answerOf(runtime: Runtime): RuntimeAnswer {
  const { lanes: _, orchestrations: __, activities: ___, ...counted } = runtime.metrics();
  const counters = Object.entries(counted).map(([name, of]): [string, number] =>
    typeof of === 'number' ? [name, of] : [`${name}MeanMs`, meanMs(of)],
  );
  return { counters: Object.fromEntries(counters) };
}

/** Returns the mean, to a tenth of a ms. */
function meanMs({ count, sumMs }: DurationHistogram): number {
  return count === 0 ? 0 : Math.round((10 * sumMs) / count) / 10;
}

function tickOf({ instances }: StoreStats, runtime: RuntimeAnswer | null): SampleCounts {
  const count = (states: readonly (keyof typeof instances)[]): number =>
    states.reduce((sum, state) => sum + instances[state], 0);
  const { turns, attempts } = runtime?.counters ?? {};
  return {
    atMs: Date.now(),
    instances: count(Object.keys(instances) as (keyof typeof instances)[]),
    ended: count(ENDED_STATES),
    ...(turns === undefined ? {} : { turns }),
    ...(attempts === undefined ? {} : { attempts }),
  };
}

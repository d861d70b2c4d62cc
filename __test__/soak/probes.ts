// Short instances at a steady rate. Their durations show the effect of other instances on them.

import { createHistogram } from 'node:perf_hooks';
import type { Client } from 'perdure';

import { type Crew, PATIENCE_MS } from './crew.ts';
import type { Figures } from './talk.ts';

const EVERY_MS = 50;

export class Probes {
  readonly #client: Client;
  readonly #crew: Crew;
  readonly #name: string;
  /** Durations in µs. A histogram takes the same memory for any number of them. */
  readonly #times = createHistogram();

  constructor(client: Client, crew: Crew, name: string) {
    this.#client = client;
    this.#crew = crew;
    this.#name = name;
  }

  get figures(): Pick<Figures, 'probes' | 'p50Ms' | 'p99Ms' | 'maxMs'> {
    const times = this.#times;
    return {
      probes: times.count,
      p50Ms: times.percentile(50) / 1_000,
      p99Ms: times.percentile(99) / 1_000,
      maxMs: times.max / 1_000,
    };
  }

  async run(): Promise<void> {
    let n = 0;
    await this.#crew.stop.everyMs(EVERY_MS, () => {
      n += 1;
      const id = `probe ${this.#name}.${n}`;
      this.#crew.add(id, this.#one(id));
    });
  }

  async #one(id: string): Promise<void> {
    const begun = performance.now();
    await this.#client.startOrchestration(id, 'probe', id);
    const { status, output } = await this.#client.waitForOrchestration(id, PATIENCE_MS);
    this.#times.record(Math.max(1, Math.round((performance.now() - begun) * 1_000)));
    if (output !== id) throw new Error(`it is ${status} with ${JSON.stringify(output)}`);
  }
}

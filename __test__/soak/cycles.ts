// Long-lived instances that continue as new until they are cancelled. Clients send messages to them and watch them.

import type { Client } from 'perdure';

import { type Crew, PATIENCE_MS } from './crew.ts';

/** Number of instances at once. */
const STRANDS = 16;

/** Messages that each instance is sent before it is cancelled. */
const LETTERS = 12;

/** Pause between messages, ms. The n-th strand waits n times as long, so that some instances are evicted. */
const PAUSE_MS = 500;

/** Status changes after which a watch that is not followed to its end is left. */
const WATCHED = 5;

export class Cycles {
  /** The number of executions that the watches have seen. */
  count = 0;
  readonly #client: Client;
  readonly #crew: Crew;
  readonly #name: string;

  constructor(client: Client, crew: Crew, name: string) {
    this.#client = client;
    this.#crew = crew;
    this.#name = name;
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: STRANDS }, (_, strand) => this.#strand(strand)));
  }

  async #strand(strand: number): Promise<void> {
    const { stop } = this.#crew;
    for (let n = 1; !stop.isSet; n += 1) {
      const id = `cycle ${this.#name}.${strand}.${n}`;
      await this.#client.startOrchestration(id, 'cycle', 1);
      this.#crew.add(`the watch of '${id}'`, this.#watch(id, strand % 2 === 0));
      for (let letter = 1; letter <= LETTERS && !stop.isSet; letter += 1) {
        await stop.pause(PAUSE_MS * (strand + 1));
        await this.#client.enqueueEvent(id, 'mail', letter);
      }
      await this.#client.cancelInstance(id);
      const { status, error } = await this.#client.waitForOrchestration(id, PATIENCE_MS);
      if (status !== 'Cancelled') this.#crew.wrong.push(`'${id}' is ${status}: ${error?.message}`);
    }
  }

  /** The custom status shows the executions in their order. */
  async #watch(id: string, toTheEnd: boolean): Promise<void> {
    let [seen, changes] = [0, 0];
    for await (const { customStatus = 0 } of this.#client.statusChanges<number>(id)) {
      if (customStatus <= seen) this.#crew.wrong.push(`'${id}' showed ${customStatus} after ${seen}`);
      this.count += customStatus - seen;
      seen = customStatus;
      changes += 1;
      if (!toTheEnd && changes === WATCHED) return;
    }
  }
}

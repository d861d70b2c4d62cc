// The routine work of an operator: lists instances, and deletes those that have ended.

import type { Client } from 'perdure';

import type { Stop } from './stop.ts';

const EVERY_MS = 1_000;

const PAGE = 20;

/** Executions that an instance keeps. */
const KEPT = 2;

/** The time for which ended instances are kept, ms. Clients that wait for the end are told meanwhile. */
const KEPT_MS = 10_000;

export class Housekeeping {
  pruned = 0;
  readonly #client: Client;
  readonly #oldest: () => number;

  /** `oldest` returns a time, ms since 1970: instances that ended before it are needed no more. */
  constructor(client: Client, oldest: () => number) {
    this.#client = client;
    this.#oldest = oldest;
  }

  async run(stop: Stop): Promise<void> {
    while (!stop.isSet) {
      await this.#look();
      const { deleted } = await this.#client.prune({ completedBefore: new Date(this.#oldest() - KEPT_MS) });
      this.pruned += deleted;
      await this.#client.pruneExecutions({ name: 'cycle', keep: KEPT });
      await stop.pause(EVERY_MS);
    }
  }

  async #look(): Promise<void> {
    const { items, cursor } = await this.#client.listInstances({ limit: PAGE }).page();
    if (cursor !== null) await this.#client.listInstances({ limit: PAGE, cursor }).page();
    await this.#client.listInstances({ status: 'Running', name: 'cycle', limit: PAGE }).page();
    const [newest] = items;
    if (newest !== undefined) await this.#client.getStatus(newest.id);
  }
}

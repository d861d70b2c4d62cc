// Instances that may harm others.

import type { Client } from 'perdure';

import { eventually } from '../support/async.ts';
import { type Crew, PATIENCE_MS } from './crew.ts';
import type { Trouble } from './talk.ts';

const EVERY_MS = 500;

export class Troubles {
  readonly #client: Client;
  readonly #crew: Crew;
  readonly #name: string;
  readonly #kind: Trouble;

  constructor(client: Client, crew: Crew, name: string, kind: Trouble) {
    this.#client = client;
    this.#crew = crew;
    this.#name = name;
    this.#kind = kind;
  }

  async run(): Promise<void> {
    const ids: string[] = [];
    await this.#crew.stop.everyMs(EVERY_MS, () => {
      const id = `${this.#kind} ${this.#name}.${ids.length}`;
      ids.push(id);
      this.#crew.add(id, this.#one(id));
    });
    for (const id of ids) await this.#end(id);
  }

  async #one(id: string): Promise<void> {
    await this.#client.startOrchestration(id, this.#kind);
    if (this.#kind === 'poisoned') await this.#runAgain(id);
  }

  /**
   * Ends the instances that do not end by themselves. A worker that runs an activity notices a cancellation at once. A
   * suspended instance runs no activity, so it is terminated.
   */
  async #end(id: string): Promise<void> {
    if (this.#kind === 'stuck') await this.#client.cancelInstance(id);
    if (this.#kind === 'poisoned') await this.#client.terminateInstance(id);
  }

  /** Suspends the instance and resumes it. It is then replayed, which suspends it for good. */
  async #runAgain(id: string): Promise<void> {
    const client = this.#client;
    await eventually(PATIENCE_MS, `'${id}' waits`, async () =>
      (await client.getHistory(id)).some(({ kind }) => kind === 'ActivityCompleted'),
    );
    await client.suspend(id);
    await client.resume(id);
    await eventually(PATIENCE_MS, `'${id}' is found not to fit`, async () => {
      const found = await client.getStatus(id);
      return found?.status === 'Suspended' || found?.status === 'Terminated';
    });
  }
}

// The work that a client has under way.

import { Stop } from './stop.ts';

/** The time that a client waits for an end, ms. An instance that has not ended by then never will. */
export const PATIENCE_MS = 60_000;

export class Crew {
  /** Failures, as sentences. */
  readonly wrong: string[] = [];
  /** Tells the periodic work to end. */
  readonly stop = new Stop();
  readonly #running = new Set<Promise<void>>();

  /** Follows some work to its end. `name` identifies it if it fails. */
  add(name: string, work: Promise<void>): void {
    const followed = work
      .catch((error: Error) => void this.wrong.push(`${name}: ${error.stack ?? error.message}`))
      .then(() => void this.#running.delete(followed));
    this.#running.add(followed);
  }

  /** Begins nothing more. Resolves when all work has ended. */
  async end(): Promise<void> {
    this.stop.set();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}

// What a client has under way at once.

import { Stop } from './stop.ts';

/** For how long a client waits for an end, ms: what has not come about by then never will. */
export const PATIENCE_MS = 60_000;

export class Crew {
  /** What should not have happened. */
  readonly wrong: string[] = [];
  /** Tells all that goes on by itself to end. */
  readonly stop = new Stop();
  readonly #running = new Set<Promise<void>>();

  /** Follow some work to its end; `name` is what it is called if it fails. */
  add(name: string, work: Promise<void>): void {
    const followed = work
      .catch((error: Error) => void this.wrong.push(`${name}: ${error.stack ?? error.message}`))
      .then(() => void this.#running.delete(followed));
    this.#running.add(followed);
  }

  /** Begins nothing more; resolves when all has ended. */
  async end(): Promise<void> {
    this.stop.set();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}

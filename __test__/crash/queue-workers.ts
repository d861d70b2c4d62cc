// Workers of queues (queues.mjs) that are killed at any moment, and replaced.

import { join } from 'node:path';
import type { QueueLimits } from 'perdure';

import { Process, root } from '../support/process.ts';
import type { StoreAddress } from '../support/providers.ts';
import { openLog, pause, seeded } from '../support/worker-parts.mjs';
import { type Line, QueueLog } from './queue-log.ts';

/** Instances that end between two kills. */
const BETWEEN_KILLS = 6;

const WORKERS = 4;

export class QueueWorkers {
  readonly log: QueueLog;
  readonly #write: (line: object) => void;
  readonly #command: (name: string) => string[];
  readonly #workers: Process<{ type: 'ready' }, object>[];

  /** Starts the workers. Each sets these limits when it starts. */
  constructor(store: StoreAddress, log: string, queues: Readonly<Record<string, QueueLimits>>) {
    this.log = new QueueLog(log);
    this.#write = openLog(log);
    const program = join(root, '__test__/crash/queues.mjs');
    this.#command = (name) => [process.execPath, program, JSON.stringify({ store, name, log, queues })];
    this.#workers = Array.from({ length: WORKERS }, (_, n) => this.#start(n));
  }

  #start(n: number): Process<{ type: 'ready' }, object> {
    const name = `worker ${n}`;
    return new Process(name, this.#command(name));
  }

  /** Writes a line to the log. */
  note(line: Partial<Line>): void {
    this.#write({ ...line, at: Date.now() });
  }

  /** Kills workers, two at once now and then, also while one of them starts. Calls `after` after each time. */
  async kill(times: number, seed: number, after: (kills: number) => Promise<void> = async () => {}): Promise<void> {
    const random = seeded(seed);
    let next = BETWEEN_KILLS;
    for (let kills = 0; kills < times; await pause(10)) {
      if (this.log.ended < next) continue;
      const at = Math.floor(random() * WORKERS);
      for (const n of kills % 5 === 4 ? [at, (at + 1) % WORKERS] : [at]) {
        await this.#workers[n]?.kill();
        this.note({ event: 'killed', worker: `worker ${n}` });
        this.#workers[n] = this.#start(n);
        kills += 1;
      }
      await after(kills);
      next = this.log.ended + BETWEEN_KILLS;
    }
  }
}

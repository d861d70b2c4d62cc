// A worker process: crash/worker.mjs, which runs the built package with plain Node, started, commanded and killed from
// here.

import { join } from 'node:path';
import { afterEach } from 'vitest';

import { type Exit, Process, root } from './process.ts';
import type { StoreAddress } from './providers.ts';

export { type Effect, readEffects } from './effects.ts';

/** The options of a worker process. */
export interface WorkerOptions {
  readonly store: StoreAddress;
  /** The effect log: see effects.ts. */
  readonly log: string;
  /** The name of this process in the effect log. */
  readonly name: string;
  /** Options of its runtime. */
  readonly runtime?: object;
  /** Duration of the activity `step`, ms. */
  readonly stepMs?: number;
  /** True if the activity `hold` never returns in this process. */
  readonly holds?: boolean;
  /** True if it runs code that harms its process. */
  readonly harms?: boolean;
}

/** Messages from a worker. */
export type WorkerMessage =
  | { type: 'ready' }
  /** An activity has begun. */
  | { type: 'step'; id: string }
  /** A start of an instance has been acknowledged. */
  | { type: 'acknowledged'; id: string }
  /** An awaited instance has ended, as the worker's own client sees it. */
  | { type: 'ended'; id: string; status: string; output: unknown }
  /** `shutdown()` was called and has not resolved yet. */
  | { type: 'stopping' };

/** Commands to a worker. */
export type WorkerCommand =
  /** Starts instances, one after the other. */
  | { type: 'start'; name: string; instances: readonly { id: string; input: unknown }[] }
  /** Waits for instances, and reports their ends. */
  | { type: 'wait'; ids: readonly string[] }
  | { type: 'shutdown'; timeout: string };

const program = join(root, '__test__/crash/worker.mjs');

afterEach(async () => {
  // No process outlives its test, however the test ended.
  await Promise.all([...Process.running].map((worker) => worker.kill()));
});

export class Worker extends Process<WorkerMessage, WorkerCommand> {
  /**
   * Spawns a process that may fail; see {@link start}. `under` is a program that runs it, such as one that changes the
   * user.
   */
  static spawn(options: WorkerOptions, under: readonly string[] = []): Worker {
    return new Worker(options.name, [...under, process.execPath, program, JSON.stringify(options)]);
  }

  /** Spawns a process, and waits until its runtime is started. */
  static async start(options: WorkerOptions): Promise<Worker> {
    const worker = Worker.spawn(options);
    await worker.said('ready');
    return worker;
  }

  /** Shuts the worker down in good order. */
  async stop(): Promise<Exit> {
    this.tell({ type: 'shutdown', timeout: '10s' });
    return this.exited();
  }
}

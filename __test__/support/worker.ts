// A worker process: crash/worker.mjs, which runs the built package with plain Node, started, told and killed from here.

import { join } from 'node:path';
import { afterEach } from 'vitest';

import { type Exit, Process, root } from './process.ts';
import type { StoreAddress } from './providers.ts';

export { type Effect, readEffects } from './effects.ts';

/** What a worker is started with. */
export interface WorkerOptions {
  readonly store: StoreAddress;
  /** The effect log: see effects.ts. */
  readonly log: string;
  /** A name for this process in the effect log. */
  readonly name: string;
  /** Options of its runtime. */
  readonly runtime?: object;
  /** How long the activity `step` takes, ms. */
  readonly stepMs?: number;
  /** Whether the activity `hold` never returns here. */
  readonly holds?: boolean;
  /** Whether it runs what does its process harm. */
  readonly harms?: boolean;
}

/** What a worker says. */
export type WorkerMessage =
  | { type: 'ready' }
  /** An activity has begun. */
  | { type: 'step'; id: string }
  /** A start of an instance has been acknowledged. */
  | { type: 'acknowledged'; id: string }
  /** An instance that it was told to wait for has ended, as its own client sees it. */
  | { type: 'ended'; id: string; status: string; output: unknown }
  /** `shutdown()` was called and has not resolved yet. */
  | { type: 'stopping' };

/** What it is told. */
export type WorkerCommand =
  /** Start instances, one after the other. */
  | { type: 'start'; name: string; instances: readonly { id: string; input: unknown }[] }
  /** Say when they have ended. */
  | { type: 'wait'; ids: readonly string[] }
  | { type: 'shutdown'; timeout: string };

const program = join(root, '__test__/crash/worker.mjs');

afterEach(async () => {
  // None outlives its test, however that ended.
  await Promise.all([...Process.running].map((worker) => worker.kill()));
});

export class Worker extends Process<WorkerMessage, WorkerCommand> {
  /** A process that may fail; see {@link start}. `under` is what runs it in its place, such as as another user. */
  static spawn(options: WorkerOptions, under: readonly string[] = []): Worker {
    return new Worker(options.name, [...under, process.execPath, program, JSON.stringify(options)]);
  }

  /** A process whose runtime is started. */
  static async start(options: WorkerOptions): Promise<Worker> {
    const worker = Worker.spawn(options);
    await worker.said('ready');
    return worker;
  }

  /** Shut it down in good order. */
  async stop(): Promise<Exit> {
    this.tell({ type: 'shutdown', timeout: '10s' });
    return this.exited();
  }
}

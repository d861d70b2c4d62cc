// The messages between chaos and its processes.

import { join } from 'node:path';

import { Process, root } from '../support/process.ts';
import type { StoreAddress } from '../support/providers.ts';

export interface WorkerOptions {
  readonly store: StoreAddress;
  /** The effect log. */
  readonly log: string;
  readonly name: string;
  readonly runtime: object;
}

export interface Counts {
  /** Turns that the store refused because the worker no longer owns the instance. */
  readonly fenced: number;
  /** Dead workers whose instances this worker released. */
  readonly takeovers: number;
  /** Writes that failed and were tried again. */
  readonly commitRetries: number;
  /** Attempts of activities that this worker runs now. */
  readonly openActivities: number;
  /** True if the prototypes of objects and arrays are unchanged. */
  readonly isNatural: boolean;
}

export type WorkerSaid = { readonly type: 'ready'; readonly pid: number } | ({ readonly type: 'counts' } & Counts);

export class ChaosWorker extends Process<WorkerSaid, { type: 'shutdown' }> {
  /** `through` is a program that runs the worker, with its arguments. */
  static of(options: WorkerOptions, through: readonly string[] = []): ChaosWorker {
    return new ChaosWorker(options.name, [
      ...through,
      process.execPath,
      join(root, '__test__/chaos/worker.mjs'),
      JSON.stringify(options),
    ]);
  }

  /** The last counters that the worker reported. */
  get counts(): Counts | undefined {
    return this.all('counts').at(-1);
  }
}

export interface ClientOptions {
  readonly store: StoreAddress;
  /** The client log. */
  readonly log: string;
  /** Decides the programs. */
  readonly seed: number;
  /** Number of programs that run at once. */
  readonly strands: number;
  /** A text that comes with every start and must appear in no error. */
  readonly note: string;
}

export type ClientSaid =
  | { readonly type: 'ready' }
  | { readonly type: 'over'; readonly program: number }
  | { readonly type: 'done' };

/** Messages to the client: begin no more programs, or begin one more at once, beside those that run. */
export type ClientTold = { readonly type: 'enough' | 'another' };

export class ChaosClient extends Process<ClientSaid, ClientTold> {
  static of(name: string, options: ClientOptions): ChaosClient {
    const loader = join(root, 'scripts/typescript.mjs');
    return new ChaosClient(name, [
      process.execPath,
      '--import',
      loader,
      join(root, '__test__/chaos/client.ts'),
      JSON.stringify(options),
    ]);
  }
}

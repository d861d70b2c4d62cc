// What chaos tells its processes, and what they say.

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
  /** Turns that the store refused because they were of somebody who owns the instance no more. */
  readonly fenced: number;
  /** Dead workers whose instances it released. */
  readonly takeovers: number;
  /** Writes that failed and were tried again. */
  readonly commitRetries: number;
  /** Attempts of activities that it has now. */
  readonly openActivities: number;
  /** Whether the prototypes of objects and arrays are as they were. */
  readonly isNatural: boolean;
}

export type WorkerSaid = { readonly type: 'ready'; readonly pid: number } | ({ readonly type: 'counts' } & Counts);

export class ChaosWorker extends Process<WorkerSaid, { type: 'shutdown' }> {
  /** `through` is a program that runs it, with arguments. */
  static of(options: WorkerOptions, through: readonly string[] = []): ChaosWorker {
    return new ChaosWorker(options.name, [
      ...through,
      process.execPath,
      join(root, '__test__/chaos/worker.mjs'),
      JSON.stringify(options),
    ]);
  }

  /** What it has told of itself. */
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
  /** How many programs go on at once. */
  readonly strands: number;
  /** Comes with every start, and must show in no error. */
  readonly note: string;
}

export type ClientSaid =
  | { readonly type: 'ready' }
  | { readonly type: 'over'; readonly program: number }
  | { readonly type: 'done' };

/** Begin no more programs, or one more at once, beside those that go on. */
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

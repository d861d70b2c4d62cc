// The messages between a soak and its processes.

import { join } from 'node:path';

import { Process, root } from '../support/process.ts';
import type { StoreAddress } from '../support/providers.ts';
import type { Gauges } from './gauge.ts';

/** Kinds of harmful instances that run beside all others and must not hold them up. */
export const TROUBLES = ['slow', 'holding', 'stuck', 'poisoned'] as const;

export type Trouble = (typeof TROUBLES)[number];

/** The figures of a client from its beginning to its rest. */
export interface Figures {
  readonly programs: number;
  /** Executions of long-lived instances that the watches have seen. */
  readonly cycles: number;
  readonly pruned: number;
  /** Short instances, each measured from the call that starts it until its client knows its end. */
  readonly probes: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Failures, as sentences. */
  readonly wrong: readonly string[];
}

export type Said =
  | { readonly type: 'ready' }
  | { readonly type: 'gauges'; readonly gauges: Gauges }
  /** A runtime has reported a problem that is no failure of user code. */
  | { readonly type: 'reported'; readonly what: string }
  | { readonly type: 'rested'; readonly figures: Figures };

export type Told =
  | { readonly do: 'tell' }
  /** To a client: begin the load, optionally with one kind of trouble beside it. */
  | { readonly do: 'begin'; readonly beside?: Trouble | undefined }
  /** To a client: begin nothing more, and let everything end. */
  | { readonly do: 'rest' }
  | { readonly do: 'shutdown' };

export class SoakProcess extends Process<Said, Told> {
  static worker(options: WorkerOptions): SoakProcess {
    return new SoakProcess(options.name, [
      process.execPath,
      '--expose-gc',
      join(root, '__test__/soak/worker.mjs'),
      JSON.stringify(options),
    ]);
  }

  static client(options: ClientOptions): SoakProcess {
    const command = [
      process.execPath,
      '--expose-gc',
      '--import',
      join(root, 'scripts/typescript.mjs'),
      join(root, '__test__/soak/client.ts'),
    ];
    return new SoakProcess('client', [...command, JSON.stringify(options)]);
  }

  async gauges(): Promise<Gauges> {
    const before = this.all('gauges').length;
    this.tell({ do: 'tell' });
    await this.said('gauges', before + 1);
    return this.all('gauges')[before]?.gauges ?? {};
  }

  /** Tells a client to rest. Resolves when all that it began has ended. */
  async rest(): Promise<Figures> {
    const before = this.all('rested').length;
    this.tell({ do: 'rest' });
    await this.said('rested', before + 1);
    const said = this.all('rested')[before];
    if (said === undefined) throw new Error('a process takes back what it said');
    return said.figures;
  }
}

export interface WorkerOptions {
  readonly store: StoreAddress;
  readonly name: string;
  readonly runtime: object;
}

export interface ClientOptions {
  readonly store: StoreAddress;
  /** Decides the programs. */
  readonly seed: number;
  /** Programs that begin per second. */
  readonly rate: number;
}

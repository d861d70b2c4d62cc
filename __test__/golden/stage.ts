// How golden histories are made: each program runs on a real store, and what it leaves there is exported.

import {
  type ActivityDefinition,
  Client,
  type HistoryEventKind,
  type HistoryExport,
  type OrchestrationDefinition,
  type Provider,
  Runtime,
  type RuntimeOptions,
} from 'perdure';
import type { PendingWork, ReplayOutcome } from 'perdure/testing';

import { eventually } from '../support/async.ts';

/** How long something may take that must come. */
const SOON = '20s';

/** How one instance of a program stands when it is exported. */
export interface Expected {
  /** Of its executions, in order. */
  readonly outcomes: readonly ReplayOutcome[];
  /** What the last one waits for; of a timer not when it is due, which is another time in each run. */
  readonly pending?: readonly (PendingWork | { readonly kind: 'timer'; readonly eventId: number })[];
}

/** A program whose histories are kept. */
export interface Program {
  readonly name: string;
  /** What the histories are replayed with. */
  readonly code: readonly OrchestrationDefinition[];
  /** The instances whose histories are kept, by id: the name of the program, or one that begins with it. */
  readonly instances: Readonly<Record<string, Expected>>;
  /** Run it up to where it is exported. */
  record(stage: Stage): Promise<void>;
}

/** A store while a program runs on it. */
export class Stage {
  readonly client: Client;
  readonly #provider: Provider;
  readonly #runtimes: Runtime[] = [];

  constructor(provider: Provider) {
    this.#provider = provider;
    this.client = new Client(provider);
  }

  /** A started runtime. */
  async start(
    definitions: readonly (ActivityDefinition | OrchestrationDefinition)[],
    options: RuntimeOptions = {},
  ): Promise<Runtime> {
    // Stacks hold paths of the machine, which nobody else has.
    const runtime = new Runtime(this.#provider, { logLevel: 'silent', sourceStacks: false, ...options });
    this.#runtimes.push(runtime);
    runtime.register(...definitions);
    await runtime.start();
    return runtime;
  }

  /** Resolves when the custom status of an instance is this text: the turn that set it is stored. */
  async status(id: string, text: string): Promise<void> {
    const signal = AbortSignal.timeout(20_000);
    for await (const { customStatus } of this.client.statusChanges(id, { signal })) if (customStatus === text) return;
    throw new Error(`${id} has ended before its status was '${text}'`);
  }

  /** Resolves when an instance has ended. */
  async end(id: string): Promise<void> {
    await this.client.waitForOrchestration(id, SOON);
  }

  /** Resolves when the history of an instance holds an event of this kind. */
  async recorded(id: string, kind: HistoryEventKind): Promise<void> {
    await eventually(20_000, `${kind} of ${id}`, async () =>
      (await this.client.getHistory(id)).some((event) => event.kind === kind),
    );
  }

  /** The executions of an instance. */
  async export(id: string): Promise<HistoryExport[]> {
    const status = await this.client.getStatus(id);
    const numbers = Array.from({ length: status?.executionId ?? 0 }, (_, i) => i + 1);
    return Promise.all(numbers.map((number) => this.client.exportHistory(id, number)));
  }

  /** Ends what still runs, so that no activity is left behind. */
  async strike(): Promise<void> {
    for await (const { id } of this.client.listInstances({ status: ['Pending', 'Running'] }))
      await this.client.terminateInstance(id);
    for (const runtime of this.#runtimes) await runtime.shutdown();
  }
}

/** Run a program on a store: what is exported of each of its instances. */
export async function perform(program: Program, provider: Provider): Promise<Map<string, HistoryExport[]>> {
  const stage = new Stage(provider);
  const { stackTraceLimit } = Error;
  // An error is recorded with its stack: the less is in it, the longer it stays the same.
  Error.stackTraceLimit = 0;
  try {
    await program.record(stage);
    const exported = new Map<string, HistoryExport[]>();
    for (const id of Object.keys(program.instances)) exported.set(id, await stage.export(id));
    return exported;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    await stage.strike();
  }
}

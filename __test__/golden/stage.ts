// The recording of golden histories: each program runs on a real store, and its instances are exported.

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

/** Limit of every wait. */
const SOON = '20s';

/** The expected state of an instance when it is exported. */
export interface Expected {
  /** The outcomes of its executions, in order. */
  readonly outcomes: readonly ReplayOutcome[];
  /** The work that the last execution waits for. A timer has no due time here, since that differs between runs. */
  readonly pending?: readonly (PendingWork | { readonly kind: 'timer'; readonly eventId: number })[];
}

/** A program whose histories are kept. */
export interface Program {
  readonly name: string;
  /** The code with which the histories are replayed. */
  readonly code: readonly OrchestrationDefinition[];
  /** The instances whose histories are kept, by id. Each id is the name of the program or begins with it. */
  readonly instances: Readonly<Record<string, Expected>>;
  /** Runs the program up to the point where it is exported. */
  record(stage: Stage): Promise<unknown>;
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

  /** Returns a started runtime. */
  async start(
    definitions: readonly (ActivityDefinition | OrchestrationDefinition)[],
    options: RuntimeOptions = {},
  ): Promise<Runtime> {
    // Stacks are omitted, since they contain paths of this machine.
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

  /** Resolves when the history of an instance contains an event of this kind. */
  async recorded(id: string, kind: HistoryEventKind): Promise<void> {
    await eventually(20_000, `${kind} of ${id}`, async () =>
      (await this.client.getHistory(id)).some((event) => event.kind === kind),
    );
  }

  /** Returns the exports of all executions of an instance. */
  async export(id: string): Promise<HistoryExport[]> {
    const status = await this.client.getStatus(id);
    const numbers = Array.from({ length: status?.executionId ?? 0 }, (_, i) => i + 1);
    return Promise.all(numbers.map((number) => this.client.exportHistory(id, number)));
  }

  /** Ends all instances that still run, so that no activity is left behind. */
  async strike(): Promise<void> {
    for await (const { id } of this.client.listInstances({ status: ['Pending', 'Running'] }))
      await this.client.terminateInstance(id);
    for (const runtime of this.#runtimes) await runtime.shutdown();
  }
}

/** Runs a program on a store. Returns the exports of each of its instances. */
export async function perform(program: Program, provider: Provider): Promise<Map<string, HistoryExport[]>> {
  const stage = new Stage(provider);
  const { stackTraceLimit } = Error;
  // An error is recorded with its stack. An empty stack stays the same.
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

// Clients that go on although their store comes and goes.

import { type Client, ProviderError } from 'perdure';
import { expect } from 'vitest';

import { SOON } from '../support/store.ts';
import { outputOf } from './outputs.ts';

/** Fails unless an error says that the same call may work later. */
export function expectRetryable(error: unknown): void {
  expect(error).toBeInstanceOf(ProviderError);
  expect(error).toMatchObject({ code: 'PROVIDER', retryable: true });
}

/** Call until it works. The call itself waits longer and longer for its store, so nothing needs to wait in between. Returns how often it failed. */
export async function insist(call: () => Promise<unknown>): Promise<number> {
  for (let failures = 0; ; failures += 1) {
    try {
      await call();
      return failures;
    } catch (error) {
      expectRetryable(error);
    }
  }
}

/** Starts instances and sends to them, and keeps account of what was acknowledged. */
export class Caller {
  /** How often a call has failed. */
  failures = 0;
  /** Ids of acknowledged starts of `steps`, with their seeds. */
  readonly started = new Map<string, number>();
  /** Ids of acknowledged requests to cancel. */
  readonly cancelled: string[] = [];
  readonly #client: Client;
  readonly #name: string;
  readonly #steps: number;
  #count = 0;

  constructor(client: Client, name: string, steps: number) {
    this.#client = client;
    this.#name = name;
    this.#steps = steps;
  }

  /** Start one instance that works, and another that is cancelled at once. */
  async once(): Promise<void> {
    this.#count += 1;
    const [id, seed] = [`${this.#name}-${this.#count}`, this.#count];
    this.failures += await insist(() =>
      this.#client.startOrchestration(id, 'steps', { seed, steps: this.#steps }, { onConflict: 'return' }),
    );
    this.started.set(id, seed);
    const other = `${id}-cancelled`;
    this.failures += await insist(() =>
      this.#client.startOrchestration(other, 'waits', null, { onConflict: 'return' }),
    );
    this.failures += await insist(() => this.#client.cancelInstance(other));
    this.cancelled.push(other);
  }

  /** S1: all that was acknowledged is there and comes to its end. */
  async expectEnded(): Promise<void> {
    for (const [id, seed] of this.started) {
      expect(await this.#client.waitForOrchestration(id, SOON), id).toMatchObject({
        status: 'Completed',
        output: outputOf(seed, this.#steps),
      });
    }
    for (const id of this.cancelled)
      expect(await this.#client.waitForOrchestration(id, SOON), id).toMatchObject({ status: 'Cancelled' });
  }
}

/** Sends parts to one instance of `collects`, each once, whatever came of it. */
export class Sender {
  /** Parts whose sending was acknowledged, and those of which nothing is known. */
  readonly acknowledged: number[] = [];
  readonly unknown: number[] = [];
  readonly id: string;
  readonly #client: Client;
  #count = 0;
  #steps = 0;

  constructor(client: Client, id: string) {
    this.#client = client;
    this.id = id;
  }

  async start(steps: number): Promise<void> {
    this.#steps = steps;
    await insist(() =>
      this.#client.startOrchestration(this.id, 'collects', { seed: 1, steps }, { onConflict: 'return' }),
    );
  }

  async send(): Promise<void> {
    this.#count += 1;
    const part = this.#count;
    try {
      await this.#client.enqueueEvent(this.id, 'parts', part);
      this.acknowledged.push(part);
    } catch (error) {
      expectRetryable(error);
      this.unknown.push(part);
    }
  }

  /** No more parts come. When it is told twice, the second one may find the instance ended. */
  async end(): Promise<void> {
    await insist(() => this.#client.enqueueEvent(this.id, 'parts', 'last').catch(this.#unlessEnded));
  }

  readonly #unlessEnded = (error: unknown) => {
    if ((error as { code?: string }).code !== 'RUNTIME_STATE') throw error;
  };

  /** S1, S2, S11: what was acknowledged came, the rest once or not at all, all in order. */
  async expectEnded(): Promise<void> {
    const { status, output } = await this.#client.waitForOrchestration(this.id, SOON);
    expect({ status, value: output.value }, this.id).toEqual({ status: 'Completed', value: outputOf(1, this.#steps) });
    const parts: number[] = output.parts;
    const unknown = new Set(this.unknown);
    expect(parts, this.id).toEqual([...new Set(parts)].sort((a, b) => a - b));
    expect(
      parts.filter((part) => !unknown.has(part)),
      this.id,
    ).toEqual(this.acknowledged);
  }
}

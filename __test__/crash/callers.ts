// Clients that continue while their store comes and goes.

import { type Client, ProviderError } from 'perdure';
import { expect } from 'vitest';

import { SOON } from '../support/store.ts';
import { outputOf } from './outputs.ts';

/** Fails unless the error says that the same call may work later. */
export function expectRetryable(error: unknown): void {
  expect(error).toBeInstanceOf(ProviderError);
  expect(error).toMatchObject({ code: 'PROVIDER', retryable: true });
}

/**
 * Calls until the call succeeds. The call itself waits longer and longer for its store, so no pause is needed in
 * between. Returns the number of failures.
 */
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

/** Starts and cancels instances, and records the acknowledgements. */
export class Caller {
  /** The number of failed calls. */
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

  /** Starts one instance that works, and another that is cancelled at once. */
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

  /** S1: each instance whose start or cancellation was acknowledged exists and comes to its end. */
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

/** Sends parts to one instance of `collects`. Each part is sent once, even if its sending fails. */
export class Sender {
  /** Parts whose sending was acknowledged, and parts with an unknown outcome. */
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

  /** Sends the last part. If this is repeated, the second call may find the instance ended. */
  async end(): Promise<void> {
    await insist(() => this.#client.enqueueEvent(this.id, 'parts', 'last').catch(this.#unlessEnded));
  }

  readonly #unlessEnded = (error: unknown) => {
    if ((error as { code?: string }).code !== 'RUNTIME_STATE') throw error;
  };

  /** S1, S2, S11: each acknowledged part arrived, each other part at most once, all in order. */
  async expectEnded(): Promise<void> {
    const { status, output } = await this.#client.waitForOrchestration<any>(this.id, SOON);
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

// The fixture of an end-to-end test: a store of its own for each file, and runtimes that end with the test.

import { Client, type Provider, type ProviderOptions, Runtime, type RuntimeOptions } from 'perdure';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';

import { type Deferred, deferred } from './async.ts';
import './leaks.ts';
import type { StoreAddress, StoreKind, StoreSite } from './providers.ts';

/** Time that clients wait for an event that must come. */
export const SOON = '45s';

/** A store for the tests of one `describe`, with one provider opened on it. */
export class TestStore {
  /** Errors that runtimes have reported, which are no failures of user code. A test that expects some removes them. */
  readonly errors: Error[] = [];
  #site: StoreSite | undefined;
  #provider: Provider | undefined;
  #client: Client | undefined;
  #ids = 0;
  readonly #suspended = new Map<string, Deferred<void>>();
  readonly #runtimes: Runtime[] = [];
  readonly #providers: Provider[] = [];

  get provider(): Provider {
    return present(this.#provider);
  }

  get client(): Client {
    return present(this.#client);
  }

  get address(): StoreAddress {
    return present(this.#site).address;
  }

  /** Returns an instance id that no other test of the store has. */
  id(what = 'instance'): string {
    this.#ids += 1;
    return `${what}-${this.#ids}`;
  }

  /** Returns a runtime that is not started and that is shut down when the test ends. */
  runtime(options: RuntimeOptions = {}, provider = this.provider): Runtime {
    const runtime = new Runtime(provider, { logLevel: 'silent', ...options });
    runtime.on('error', (error) => this.errors.push(error));
    runtime.on('instance', ({ instanceId, status }) => {
      if (status === 'Suspended') this.#suspension(instanceId).resolve();
    });
    this.#runtimes.push(runtime);
    return runtime;
  }

  /** Returns a started runtime with the registrations of `register`. */
  async start(register: (runtime: Runtime) => void, options?: RuntimeOptions, provider?: Provider): Promise<Runtime> {
    const runtime = this.runtime(options, provider);
    register(runtime);
    await runtime.start();
    return runtime;
  }

  /**
   * Resolves when an instance was suspended (again) by a runtime of this store, and the error about it was reported.
   */
  async suspended(id: string): Promise<void> {
    await this.#suspension(id).promise;
    this.#suspended.delete(id);
  }

  #suspension(id: string): Deferred<void> {
    const known = this.#suspended.get(id) ?? deferred();
    this.#suspended.set(id, known);
    return known;
  }

  /** Opens another provider of the same store, which is closed when the test ends. */
  async open(options?: ProviderOptions): Promise<Provider> {
    const provider = await present(this.#site).open(options);
    this.#providers.push(provider);
    return provider;
  }

  /**
   * Resolves when all writes that this process has handed to the store so far are stored and answered: writes are
   * answered in order, and this is one more.
   */
  async settled(): Promise<void> {
    await this.client.startOrchestration(this.id('settled'), 'nobody registers this');
  }

  async create(kind: StoreKind): Promise<void> {
    this.#site = kind.create();
    this.#provider = await this.#site.open();
    this.#client = new Client(this.#provider);
  }

  async endTest(): Promise<void> {
    for (const runtime of this.#runtimes.splice(0)) await runtime.shutdown();
    for (const provider of this.#providers.splice(0)) await provider.close();
    expect(this.errors.splice(0), 'a runtime reported an error').toEqual([]);
  }

  async remove(): Promise<void> {
    await this.#provider?.close();
    await this.#site?.remove();
  }
}

/** Returns a store of this kind for the tests of the enclosing `describe`. */
export function useStore(kind: StoreKind): TestStore {
  const store = new TestStore();
  beforeAll(() => store.create(kind));
  afterEach(() => store.endTest());
  afterAll(() => store.remove());
  return store;
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the store is there only while tests run');
  return value;
}

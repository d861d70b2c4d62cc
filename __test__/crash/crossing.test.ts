import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { expectAllOver } from '../support/invariants.ts';
import { POSTGRES_URL, postgresAt, SHARED_STORES, type StoreKind, temporaryFolder } from '../support/providers.ts';
import { SOON, type TestStore, useStore } from '../support/store.ts';
import { Worker } from '../support/worker.ts';

/** Runs the test with a worker in another process. */
async function withWorker(store: TestStore, test: () => Promise<void>): Promise<void> {
  const folder = temporaryFolder();
  const worker = await Worker.start({ store: store.address, log: join(folder, 'log'), name: 'worker' });
  await test();
  expect(await worker.stop()).toEqual({ code: 0, signal: null });
  expect(worker.stderr).toBe('');
  expectAllOver(store.address);
  rmSync(folder, { recursive: true });
}

/**
 * Measures the time from a request until the client sees that an instance of the other process has ended, ms: the way
 * there and back.
 */
async function timesOf(
  rounds: number,
  start: (round: number) => Promise<string>,
  ask: (id: string) => Promise<void>,
  store: TestStore,
): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const id = await start(round);
    const ended = store.client.waitForOrchestration(id, SOON);
    const before = performance.now();
    await ask(id);
    await ended;
    times.push(performance.now() - before);
  }
  return times.sort((a, b) => a - b);
}

function events(store: TestStore, rounds: number): Promise<number[]> {
  const { client } = store;
  const start = async (round: number) => {
    await client.startOrchestration(`event-${round}`, 'answers');
    return `event-${round}`;
  };
  return timesOf(rounds, start, (id) => client.raiseEvent(id, 'question', 1), store);
}

function cancels(store: TestStore, rounds: number): Promise<number[]> {
  const { client } = store;
  const start = async (round: number) => {
    await client.startOrchestration(`cancel-${round}`, 'waits');
    return `cancel-${round}`;
  };
  return timesOf(rounds, start, (id) => client.cancelInstance(id), store);
}

/** The median. It is some tens of milliseconds on a quiet machine. A busy machine is allowed more. */
const p50 = (sorted: readonly number[]) => sorted[Math.floor(sorted.length / 2)];

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('events, cancels and results cross processes at once', async () => {
    await withWorker(store, async () => {
      expect(p50(await events(store, 50))).toBeLessThan(300);
      expect(p50(await cancels(store, 50))).toBeLessThan(300);
    });
  });
});

const unheard: StoreKind = postgresAt(POSTGRES_URL, { notify: false });

describe('on Postgres without notifications', () => {
  const store = useStore(unheard);

  it('they cross processes as well, by a look once a second', async () => {
    await withWorker(store, async () => {
      // One poll finds the request, and another one the result.
      expect(p50(await events(store, 5))).toBeLessThan(2_000 + 2_000);
      expect(p50(await cancels(store, 5))).toBeLessThan(2_000 + 2_000);
    });
  });
});

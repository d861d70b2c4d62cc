// Keys that take turns while workers are killed: a key with many instances does not hold up the others.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { expectInvariants } from '../support/invariants.ts';
import { loadOfKeys, unfairShares } from '../support/key-shares.ts';
import { Process } from '../support/process.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { entriesOf, overConcurrency } from './queue-log.ts';
import { QueueWorkers } from './queue-workers.ts';

const KILLS = 10;
const FAIR = { concurrency: 20, fairness: 'key' } as const;
const WITHIN_MS = 120_000;

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterEach(() => expectInvariants(store.address));
  afterAll(() => rmSync(folder, { recursive: true }));

  it(`each key has its share over ${KILLS} kills`, { timeout: 300_000 }, async () => {
    const { client } = store;
    await client.queues.set('fair', FAIR);
    const load = loadOfKeys();
    const starts = load.map(({ id, key }) => ({ name: 'brief', version: '1.0.0', id, key, queue: 'fair' }));
    expect((await client.startMany(starts)).filter(({ error }) => error !== undefined)).toEqual([]);
    const workers = new QueueWorkers(store.address, join(folder, 'effects'), { fair: FAIR });
    await workers.kill(KILLS, 14);
    await eventually(WITHIN_MS, 'all have ended', async () => {
      const { waiting = 0, running = 0 } = (await client.queues.get('fair')) ?? {};
      return waiting + running === 0;
    });
    workers.log.read();
    const entries = entriesOf(workers.log.lines, 'instances');
    expect(overConcurrency(entries, FAIR.concurrency)).toEqual([]);
    const begun = entries.map(({ id }) => id);
    expect(begun.toSorted()).toEqual(load.map(({ id }) => id).toSorted());
    expect(unfairShares(begun, load)).toEqual([]);
  });
});

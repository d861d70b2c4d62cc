import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client as PgClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { expectAllOver } from '../support/invariants.ts';
import { POSTGRES_URL, postgresAt, temporaryFolder } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { readEffects, Worker } from '../support/worker.ts';
import { Caller, Sender } from './callers.ts';
import { repeatedWithoutReason } from './checker.ts';

const STEPS = 10;

/** The number of times that all connections are broken, and that one is broken in the middle of a commit. */
const ROUNDS = 10;
const COMMITS = 20;

describe.each([4, 1])('with a pool of %i', (poolSize) => {
  const name = `perdure test ${randomUUID()}`;
  const url = new URL(POSTGRES_URL);
  url.searchParams.set('application_name', name);
  // A commit is slowed down, so that it can be hit in the middle.
  url.searchParams.set('options', '-c commit_delay=20000 -c commit_siblings=0');
  const store = useStore(postgresAt(url.href.replaceAll('+', '%20'), { poolSize }));
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));
  const admin = new PgClient({ connectionString: POSTGRES_URL });
  beforeAll(() => admin.connect());
  afterAll(() => admin.end());

  /** Breaks connections off. Returns their number. */
  async function terminate(which: string): Promise<number> {
    const { rows } = await admin.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND ${which}`,
      [name],
    );
    return rows.length;
  }

  it('connections that break off again and again, also in a commit, cost no work and do nothing twice', async () => {
    const { client, address } = store;
    const log = join(folder, 'log');
    const workers = await Promise.all(
      ['one', 'two'].map((worker) =>
        Worker.start({ store: address, log, name: worker, stepMs: 2, runtime: { logLevel: 'error', lease: '5m' } }),
      ),
    );
    const callers = Array.from({ length: 3 }, (_, i) => new Caller(client, `caller ${i}`, STEPS));
    const senders = Array.from({ length: 3 }, (_, i) => new Sender(client, `sender ${i}`));
    for (const sender of senders) await sender.start(STEPS);

    let over = false;
    const calling = [
      ...callers.map((caller) => () => caller.once()),
      ...senders.map((sender) => () => sender.send()),
    ].map(async (call) => {
      while (!over) await call();
    });
    for (let round = 0; round < ROUNDS; round += 1) {
      await Promise.all(workers.map((worker) => worker.said('step', worker.all('step').length + 10)));
      expect(await terminate('true')).toBeGreaterThan(0);
    }
    let met = 0;
    while (met < COMMITS) met += await terminate("state = 'active' AND query = 'COMMIT'");
    over = true;
    await Promise.all(calling);
    await Promise.all(senders.map((sender) => sender.end()));

    for (const caller of callers) await caller.expectEnded();
    for (const sender of senders) await sender.expectEnded();
    for (const worker of workers) {
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      expect(worker.stderr).toBe('');
    }
    expectAllOver(address);
    // No worker was away for as long as its lease, so there was no reason to run an attempt twice.
    expect(repeatedWithoutReason(readEffects(log), [])).toEqual([]);
  });
});

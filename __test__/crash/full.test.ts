import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { PostgresProvider } from 'perdure';
import { Client as PgClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { rejection } from '../support/async.ts';
import { Cluster, noCluster } from '../support/cluster.ts';
import { expectAllOver } from '../support/invariants.ts';
import { postgresAt, type StoreKind, temporaryFolder } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { Worker } from '../support/worker.ts';
import { expectRetryable, insist } from './callers.ts';
import { outputOf } from './outputs.ts';

const STEPS = 50;

describe.skipIf(noCluster)(`on a server of its own${noCluster === undefined ? '' : ` (${noCluster})`}`, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.create({ max_connections: 15, superuser_reserved_connections: 0 });
  });
  afterAll(() => cluster.remove());
  const kind: StoreKind = { name: 'Postgres', isShared: true, create: () => postgresAt(cluster.url).create() };
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it('a full server is reported, and work continues when it has room', async () => {
    const { client, address } = store;
    const worker = await Worker.start({
      store: address,
      log: join(folder, 'log'),
      name: 'worker',
      stepMs: 5,
      runtime: { logLevel: 'error', lease: '5m' },
    });
    await client.startOrchestration('early', 'steps', { seed: 1, steps: STEPS });
    await worker.said('step', 5);

    // Other clients take every connection, including those of the worker and of the client.
    const others = [new PgClient({ connectionString: cluster.url })];
    const [admin] = others as [PgClient];
    await admin.connect();
    const broken = () =>
      admin.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND application_name <> 'other'`,
      );
    await admin.query("SET application_name TO 'other'");
    while ((await broken()).rows.length > 0) await take(others);

    const refusal = await rejection(PostgresProvider.connect(cluster.url, { schema: 'another' }));
    expectRetryable(refusal);
    expect(refusal.message).toMatch(/is overloaded \(.*too many clients.* \[53300\]\)\.$/);
    const late = client.startOrchestration.bind(
      client,
      'late',
      'steps',
      { seed: 2, steps: STEPS },
      { onConflict: 'return' },
    );
    expectRetryable(await rejection(late()));
    expectRetryable(await rejection(client.getStatus('early')));

    await Promise.all(others.map((other) => other.end()));
    await insist(late);
    expect(await client.waitForOrchestration('early', SOON)).toMatchObject({
      status: 'Completed',
      output: outputOf(1, STEPS),
    });
    expect(await client.waitForOrchestration('late', SOON)).toMatchObject({
      status: 'Completed',
      output: outputOf(2, STEPS),
    });
    expect(await worker.stop()).toEqual({ code: 0, signal: null });
    expect(worker.stderr).toBe('');
    expectAllOver(address);
  });

  /** Opens connections until the server refuses one. */
  async function take(others: PgClient[]): Promise<void> {
    for (;;) {
      const other = new PgClient({ connectionString: cluster.url, application_name: 'other' });
      try {
        await other.connect();
      } catch (error) {
        expect(error).toMatchObject({ code: '53300' });
        return;
      }
      others.push(other);
    }
  }
});

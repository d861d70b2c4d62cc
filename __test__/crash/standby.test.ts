// A primary whose synchronous standby is away acknowledges nothing, and reports no error either: each commit waits
// there. A connection that is given up meanwhile leaves its backend behind, which continues to wait. Backends once
// piled up until there was no connection left.

import { Client, PostgresProvider, Runtime } from 'perdure';
import { afterAll, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { Cluster, noCluster } from '../support/cluster.ts';

/** Twice the timeout of a statement. */
const AWAY_MS = 32_000;
const POOL_SIZE = 2;

let cluster: Cluster | undefined;
afterAll(() => cluster?.remove());

it('no backends pile up while commits wait for a synchronous standby, and all of them count once it is back', {
  timeout: 120_000,
}, async ({ skip }) => {
  if (noCluster !== undefined) skip(noCluster);
  const server = await Cluster.create();
  cluster = server;
  const provider = await PostgresProvider.connect(server.url, { poolSize: POOL_SIZE });
  const runtime = new Runtime(provider, { lease: '2s', logLevel: 'silent' });
  runtime.registerActivity('next', (_ctx, n: number) => n + 1);
  runtime.registerOrchestration('sum', function* (ctx): Generator<any, number, any> {
    let sum = 0;
    for (let i = 0; i < 20; i += 1) sum = yield ctx.scheduleActivity('next', sum);
    return sum;
  });
  await runtime.start();
  const client = new Client(provider);

  await server.set('synchronous_standby_names', 'nobody');
  let over = false;
  const ids = Array.from({ length: 8 }, (_, i) => `sum-${i}`);
  const starts = ids.map(async (id) => {
    while (!over) {
      const started = await client.startOrchestration(id, 'sum', undefined, { onConflict: 'return' }).then(
        () => true,
        (error) => {
          if (error.retryable !== true) throw error;
          return false;
        },
      );
      if (started) return;
    }
    await client.startOrchestration(id, 'sum', undefined, { onConflict: 'return' });
  });
  const until = Date.now() + AWAY_MS;
  let most = 0;
  let waited = 0;
  await eventually(2 * AWAY_MS, 'the standby has been away for long', async () => {
    const rows = await server.ask("SELECT wait_event FROM pg_stat_activity WHERE application_name = 'perdure'");
    most = Math.max(most, rows.length);
    waited = Math.max(waited, rows.filter((row) => row.wait_event === 'SyncRep').length);
    return Date.now() > until;
  });
  expect(waited).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(POOL_SIZE + 1);

  over = true;
  await server.set('synchronous_standby_names', '');
  await Promise.all(starts);
  for (const id of ids)
    expect(await client.waitForOrchestration(id, '30s')).toMatchObject({ status: 'Completed', output: 20 });
  await runtime.shutdown();
  await provider.close();
});

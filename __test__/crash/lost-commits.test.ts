// A server continues without its last commits: a standby that had not received them was promoted, or a base backup took
// its place. Numbers that the store counts are then given out a second time. A worker that had seen a message took the
// next one with the same number for it, and never read it, although it was acknowledged.

import { Client, PostgresProvider, Runtime } from 'perdure';
import { afterEach, describe, expect, it } from 'vitest';

import { aborted, eventually } from '../support/async.ts';
import { Cluster, noCluster } from '../support/cluster.ts';
import { SOON } from '../support/store.ts';
import { insist } from './callers.ts';

const clusters: Cluster[] = [];
afterEach(async () => {
  for (const cluster of clusters.splice(0)) await cluster.remove();
});

/** Runs the test with a worker on one store. Its lease outlasts the test. */
async function withWorker(url: string, test: (client: Client) => Promise<void>): Promise<void> {
  const provider = await PostgresProvider.connect(url, { poolSize: 2 });
  const runtime = new Runtime(provider, { lease: '10m', logLevel: 'silent' });
  // The activity runs for as long as the instance, so the worker keeps the instance in memory.
  runtime.registerActivity('stays', (ctx) => aborted(ctx.signal));
  runtime.registerOrchestration('collects', function* (ctx): Generator<any, string[], any> {
    const stays = ctx.scheduleActivity('stays');
    const all: string[] = [];
    for (;;) {
      ctx.setCustomStatus(all.length);
      const { value } = yield ctx.race(ctx.waitForEvent('next'), stays);
      if (value === 'end') return all;
      all.push(value);
    }
  });
  await runtime.start();
  try {
    await test(new Client(provider));
  } finally {
    await runtime.shutdown();
    await provider.close();
  }
}

/** Sends an event, and waits until it was read. */
async function send(client: Client, id: string, what: string, count: number): Promise<void> {
  await client.raiseEvent(id, 'next', what);
  await eventually(20_000, `${what} was read`, async () => (await client.getStatus(id))?.customStatus === count);
}

/** Writes acknowledged changes that survive. */
async function begin(client: Client): Promise<void> {
  await client.startOrchestration('kept', 'collects');
  await send(client, 'kept', 'first', 1);
}

/**
 * Writes acknowledged changes that are lost: an event that was read, events that wait unread, and a started instance.
 */
async function goOn(client: Client): Promise<void> {
  await send(client, 'kept', 'lost', 2);
  await client.raiseEvent('kept', 'nobody waits for this', 1);
  await client.raiseEvent('kept', 'nobody waits for this', 2);
  await client.startOrchestration('lost', 'collects');
}

/** Expects that each change that is acknowledged from now on is there. */
async function expectGoesOn(client: Client): Promise<void> {
  await insist(() => client.getStatus('kept'));
  expect(await client.getStatus('lost')).toBeNull();
  await insist(() => client.startOrchestration('new', 'collects', undefined, { onConflict: 'return' }));
  // Each of these events has a number that a lost one had.
  for (const what of ['new', 'newer', 'end']) await client.raiseEvent('kept', 'next', what);
  expect(await client.waitForOrchestration('kept', SOON)).toMatchObject({
    status: 'Completed',
    output: ['first', 'new', 'newer'],
  });
  await client.raiseEvent('new', 'next', 'end');
  expect(await client.waitForOrchestration('new', SOON)).toMatchObject({ status: 'Completed', output: [] });
}

describe.skipIf(noCluster)(`on servers of its own${noCluster === undefined ? '' : ` (${noCluster})`}`, () => {
  it('a message that a promoted standby acknowledges is read, although a lost one had its number', {
    timeout: 120_000,
  }, async () => {
    const primary = await Cluster.create();
    clusters.push(primary);
    const standby = await Cluster.standbyOf(primary);
    clusters.push(standby);
    const url = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
    await withWorker(url, async (client) => {
      await begin(client);
      const behind = 'SELECT 1 FROM pg_stat_replication WHERE replay_lsn IS DISTINCT FROM pg_current_wal_lsn()';
      await eventually(20_000, 'the standby has it', async () => (await primary.ask(behind)).length === 0);
      await standby.set('primary_conninfo', '');
      await eventually(
        20_000,
        'the standby is alone',
        async () => (await primary.ask('SELECT 1 FROM pg_stat_replication')).length === 0,
      );
      await goOn(client);
      primary.kill();
      await standby.promote();
      await expectGoesOn(client);
    });
  });

  it('a message that a restored server acknowledges is read, although a lost one had its number', {
    timeout: 120_000,
  }, async () => {
    const server = await Cluster.create({ archive_mode: 'off' });
    clusters.push(server);
    await withWorker(server.url, async (client) => {
      await begin(client);
      const backup = await Cluster.backupOf(server);
      clusters.push(backup);
      await goOn(client);
      const [moment] = (await server.ask('SELECT clock_timestamp()::text AS now')) as [{ now: string }];
      const looked = `SELECT 1 FROM pg_stat_activity
        WHERE query LIKE '%pg_snapshot_xmax%' AND state = 'idle' AND query_start > '${moment.now}'`;
      await eventually(
        20_000,
        'the worker has seen how far the server got',
        async () => (await server.ask(looked)).length > 0,
      );
      server.kill();
      await backup.start();
      await expectGoesOn(client);
    });
  });
});

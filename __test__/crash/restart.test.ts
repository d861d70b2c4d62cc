import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'perdure';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { rejection } from '../support/async.ts';
import { Cluster, noCluster, type StopMode } from '../support/cluster.ts';
import { expectAllOver } from '../support/invariants.ts';
import { postgresAt, type StoreKind, temporaryFolder } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { readEffects, Worker } from '../support/worker.ts';
import { Caller, expectRetryable, Sender } from './callers.ts';
import { repeatedWithoutReason } from './checker.ts';

const STEPS = 10;

/** A server that crashes may give out the number of a transaction again. That happens in one of several crashes. */
const MODES: readonly StopMode[] = [
  'fast',
  'immediate',
  'fast',
  'immediate',
  'immediate',
  'immediate',
  'immediate',
  'immediate',
];

/** Expects that calls fail with an error that says that there is no server, and that the same call may work later. */
async function refused(client: Client): Promise<void> {
  const calls = [
    client.getStatus('sender 0'),
    client.raiseEvent('sender 0', 'question'),
    client.startOrchestration('new', 'steps'),
  ];
  for (const error of await Promise.all(calls.map(rejection))) expectRetryable(error);
}

describe.skipIf(noCluster)(`on a server of its own${noCluster === undefined ? '' : ` (${noCluster})`}`, () => {
  let cluster: Cluster;
  // A commit is slowed down, so that many of the restarts come in the middle of one.
  beforeAll(async () => {
    cluster = await Cluster.create({ commit_delay: 20_000, commit_siblings: 0 });
  });
  afterAll(() => cluster.remove());
  const kind: StoreKind = { name: 'Postgres', isShared: true, create: () => postgresAt(cluster.url).create() };
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it('work waits while the server is down, then continues; nothing is lost, failed or done twice', async () => {
    const { client, address } = store;
    const log = join(folder, 'log');
    const options = { store: address, log, stepMs: 5, runtime: { logLevel: 'error', lease: '5m' } };
    const workers = await Promise.all(['one', 'two'].map((name) => Worker.start({ ...options, name })));
    const callers = Array.from({ length: 4 }, (_, i) => new Caller(client, `caller ${i}`, STEPS));
    const senders = Array.from({ length: 4 }, (_, i) => new Sender(client, `sender ${i}`));
    for (const sender of senders) await sender.start(STEPS);

    // A client of another provider. That provider has no commit under way when the server goes, so its calls fail at
    // once.
    const asking = new Client(await store.open());

    let over = false;
    const calling = [
      ...callers.map((caller) => () => caller.once()),
      ...senders.map((sender) => () => sender.send()),
    ].map(async (call) => {
      while (!over) await call();
    });
    for (const [round, mode] of MODES.entries()) {
      // Both workers have resumed work.
      await Promise.all(workers.map((worker) => worker.said('step', worker.all('step').length + 20)));
      await cluster.stop(mode);
      if (round === 0) await refused(asking);
      await cluster.start();
    }
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
  }, 90_000);
});

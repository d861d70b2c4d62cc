// The information that a client gets about the store itself and about the workers on it.

import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

import {
  Client,
  PostgresProvider,
  type Provider,
  type RuntimeOptions,
  SchemaVersionError,
  SqliteProvider,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred, eventually, rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const manifest = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Starts a runtime with an orchestration of one activity, which reports its call and continues on command. */
  async function working(name: string, options: RuntimeOptions) {
    const called = deferred<void>();
    const done = deferred<void>();
    const runtime = await store.start((started) => {
      started.registerActivity('wait', async () => {
        called.resolve();
        await done.promise;
      });
      started.registerOrchestration(name, function* (ctx) {
        yield ctx.scheduleActivity('wait');
      });
    }, options);
    return { runtime, called, done };
  }

  it('a store is described by its place, its tables, its size and its settings', async () => {
    const found = await store.client.describeStore();
    const { address } = store;
    expect(found.kind).toBe(address.kind);
    expect(found.location).toEqual(
      address.kind === 'sqlite' ? address.path || ':memory:' : expect.stringMatching(/^postgres:\/\//),
    );
    expect(Math.abs(found.clock.getTime() - Date.now())).toBeLessThan(60_000);
    expect(found.schemaVersion).toBeGreaterThan(0);
    expect(found.bytes).toBeGreaterThan(10_000);
    expect(found.settings).toMatchObject(
      address.kind === 'postgres'
        ? { server_version: expect.stringMatching(/^\d+/), synchronous_commit: 'on', fsync: expect.any(String) }
        : {
            sqlite_version: expect.stringMatching(/^3\./),
            ...(address.path === '' ? {} : { journal_mode: 'wal', synchronous: 'full' }),
          },
    );
  });

  it('live workers are listed with their instances and tasks', async () => {
    const name = store.id('working');
    const { runtime, called, done } = await working(name, { workerName: 'ada' });
    const id = store.id();
    await store.client.startOrchestration(id, name);
    await called.promise;
    const [worker, ...others] = await store.client.workers();
    expect(others).toEqual([]);
    expect(worker).toMatchObject({ name: 'ada', pid: process.pid, isAlive: true, instances: 1, tasks: 0 });
    expect(worker?.leaseUntil.getTime()).toBeGreaterThan((await store.client.describeStore()).clock.getTime());
    done.resolve();
    await store.client.waitForOrchestration(id, SOON);
    await runtime.shutdown();
    expect(await store.client.workers()).toEqual([]);
  });

  it('workers report their description at the start, and their load with each heartbeat', async () => {
    const name = store.id('told');
    const { runtime, called, done } = await working(name, {
      activityConcurrency: 7,
      orchestrationConcurrency: 9,
      lease: '5s',
    });
    const about = async () => (await store.client.workers())[0]?.about;
    expect(await about()).toMatchObject({
      hostName: hostname(),
      nodeVersion: process.versions.node,
      perdureVersion: manifest.version,
      threads: 0,
      activityConcurrency: 7,
      orchestrationConcurrency: 9,
      lanes: [{ pinnedJobs: 0, takenJobs: 0, steals: 0, parks: expect.any(Number), busyShare: 0 }],
    });
    const id = store.id();
    await store.client.startOrchestration(id, name);
    await called.promise;
    await eventually(10_000, 'a heartbeat tells of the activity', async () => (await about())?.runningActivities === 1);
    expect(await about()).toMatchObject({ loadedInstances: 1 });
    done.resolve();
    await store.client.waitForOrchestration(id, SOON);
    await runtime.shutdown();
  });

  it('a history is read from anywhere on', async () => {
    const name = store.id('steps');
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        for (let n = 0; n < 10; n += 1) yield ctx.scheduleTimer(0);
      }),
    );
    const id = store.id();
    const { client } = store;
    await client.startOrchestration(id, name);
    await client.waitForOrchestration(id, SOON);
    const whole = await client.getHistory(id);
    const pages = [];
    for (let from: number | null = 1; from !== null; ) {
      const page = await client.historyPage(id, { from, limit: 5 });
      expect(page.executionId).toBe(1);
      pages.push(page.events);
      from = page.next;
    }
    expect(pages.flat()).toEqual(whole);
    expect(pages.slice(0, -1).every((page) => page.length === 5)).toBe(true);
    expect(await client.historyPage(id, { from: whole.length })).toEqual({
      executionId: 1,
      events: whole.slice(-1),
      next: null,
    });
    expect(await client.historyPage(id, { from: whole.length + 1 })).toEqual({
      executionId: 1,
      events: [],
      next: null,
    });
    expect((await rejection(client.historyPage(id, { limit: 2_001 }))).message).toMatch(
      /client.historyPage: limit must be a whole number from 1 to 2000/,
    );
    expect((await rejection(client.historyPage('nobody'))).name).toBe('InstanceNotFoundError');
    expect((await rejection(client.historyPage(id, { executionId: 2 }))).message).toContain('execution');
  });
});

describe.each(SHARED_STORES)('without migrations, on $name', (kind) => {
  it('a store is opened where there is one, and is not made', async () => {
    const site = kind.create();
    const look = (): Promise<Provider> =>
      site.address.kind === 'sqlite'
        ? SqliteProvider.open(site.address.path, { migrate: false })
        : PostgresProvider.connect(site.address.url, { schema: site.address.schema, migrate: false });
    const absent = await rejection(look());
    expect(absent).toMatchObject({ name: 'ProviderError', retryable: false });
    expect(absent).not.toBeInstanceOf(SchemaVersionError);
    expect(await rejection(look())).toMatchObject({ name: 'ProviderError' });
    await (await site.open()).close();
    const provider = await look();
    expect((await new Client(provider).stats()).instances.Running).toBe(0);
    await provider.close();
    await site.remove();
  });
});

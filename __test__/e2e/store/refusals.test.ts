// A server that refuses calls temporarily says nothing about the turns that it was given. Once, two seconds without
// logins, or as a standby, left every instance with a turn in that time owned for ever by a live worker that had
// forgotten it.

import { setTimeout as lasts } from 'node:timers/promises';
import { Client as PgClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { Counter } from '../../support/async.ts';
import { Cluster, noCluster } from '../../support/cluster.ts';
import { postgresAt, type StoreKind } from '../../support/providers.ts';
import { useStore } from '../../support/store.ts';

const INSTANCES = 8;
const STEPS = 30;
const FAULT_MS = 2_000;

const ROLE = 'app';

async function onServer(cluster: Cluster, ...statements: string[]): Promise<void> {
  const server = new PgClient({ connectionString: cluster.url });
  await server.connect();
  for (const statement of statements) await server.query(statement);
  await server.end();
}

const CUT_OFF = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${ROLE}'`;

/** Faults of the server: the begin and the end of each. */
const FAULTS: readonly {
  name: string;
  begin(cluster: Cluster): Promise<void>;
  end(cluster: Cluster): Promise<void>;
}[] = [
  {
    name: 'lets the role not log in',
    begin: (cluster) => onServer(cluster, `ALTER ROLE ${ROLE} NOLOGIN`, CUT_OFF),
    end: (cluster) => onServer(cluster, `ALTER ROLE ${ROLE} LOGIN`),
  },
  {
    name: 'takes no connection to the database',
    begin: (cluster) => onServer(cluster, 'ALTER DATABASE store ALLOW_CONNECTIONS false', CUT_OFF),
    end: (cluster) => onServer(cluster, 'ALTER DATABASE store ALLOW_CONNECTIONS true'),
  },
  {
    name: 'grants the role nothing',
    begin: (cluster) => onStore(cluster, `REVOKE ALL ON ALL TABLES IN SCHEMA perdure FROM ${ROLE}`),
    end: (cluster) => onStore(cluster, `GRANT ALL ON ALL TABLES IN SCHEMA perdure TO ${ROLE}`),
  },
  {
    name: 'reads only',
    begin: (cluster) => onServer(cluster, `ALTER ROLE ${ROLE} SET default_transaction_read_only = on`, CUT_OFF),
    end: (cluster) => onServer(cluster, `ALTER ROLE ${ROLE} RESET default_transaction_read_only`, CUT_OFF),
  },
  {
    name: 'is a standby',
    begin: (cluster) => cluster.demote(),
    end: (cluster) => cluster.promote(),
  },
];

function storeUrl(cluster: Cluster, user: string): string {
  const url = new URL(cluster.url);
  url.username = user;
  url.pathname = '/store';
  return url.href;
}

async function onStore(cluster: Cluster, statement: string): Promise<void> {
  const server = new PgClient({ connectionString: storeUrl(cluster, 'postgres') });
  await server.connect();
  await server.query(statement);
  await server.end();
}

describe.skipIf(noCluster)(`a server${noCluster === undefined ? '' : ` (${noCluster})`}`, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.create();
    await onServer(
      cluster,
      `CREATE ROLE ${ROLE} LOGIN`,
      `CREATE DATABASE store`,
      `GRANT CREATE ON DATABASE store TO ${ROLE}`,
    );
    // The schema belongs to another role, so that rights can be taken away.
    await onStore(cluster, `CREATE SCHEMA perdure AUTHORIZATION ${ROLE}`);
  });
  afterAll(() => cluster.remove());
  const kind: StoreKind = {
    name: 'Postgres',
    isShared: true,
    create: () => postgresAt(storeUrl(cluster, ROLE), { schema: 'perdure' }).create(),
  };
  const store = useStore(kind);

  it.each(FAULTS)(
    'that $name for two seconds keeps no instance from going on',
    async ({ name, begin, end }) => {
      const taken = new Counter();
      const calls = new Map<string, number>();
      await store.start((runtime) => {
        runtime.registerActivity('step', async (ctx, step: number) => {
          const key = `${ctx.instanceId} ${step}`;
          calls.set(key, (calls.get(key) ?? 0) + 1);
          await lasts(5);
          taken.add();
          return step;
        });
        runtime.registerOrchestration('steps', function* (ctx) {
          for (let step = 0; step < STEPS; step += 1) yield ctx.scheduleActivity('step', step);
          return 'done';
        });
      });
      const ids = Array.from({ length: INSTANCES }, (_, i) => `${name} ${i}`);
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'steps')));
      await taken.reaches(INSTANCES * 3);
      await begin(cluster);
      await lasts(FAULT_MS);
      await end(cluster);
      const ended = await Promise.all(ids.map((id) => store.client.waitForOrchestration(id, '20s')));
      expect(ended.map(({ status }) => status)).toEqual(ids.map(() => 'Completed'));
      // The worker was there all the time, so nothing runs twice. Only a promotion begins a new history of commits, so
      // activities that ran then run again, once.
      const most = name === 'is a standby' ? 2 : 1;
      expect([...calls.values()].filter((count) => count > most)).toEqual([]);
      expect(calls.size).toBe(INSTANCES * STEPS);
    },
    60_000,
  );
});

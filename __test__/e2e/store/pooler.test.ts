// A real PgBouncer in transaction mode, without any option that announces it. Perdure detects it, and leaves no state
// of this process on a server's connection.

import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, PostgresProvider, Runtime } from 'perdure';
import { Client as PgClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { eventually } from '../../support/async.ts';
import { Cluster, freePort, noCluster, user } from '../../support/cluster.ts';
import { temporaryFolder } from '../../support/providers.ts';

/** See scripts/with-programs.mjs. */
const program =
  process.env.PERDURE_TEST_PGBOUNCER ||
  ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/opt/homebrew/bin/pgbouncer'].find(existsSync);
const missing = noCluster ?? (program === undefined ? "the program 'pgbouncer' is not here" : undefined);

describe.skipIf(missing !== undefined)(
  `behind PgBouncer in transaction mode${missing === undefined ? '' : ` (${missing})`}`,
  () => {
    let cluster: Cluster;
    let pooler: ChildProcess;
    let url: string;
    const folder = temporaryFolder();
    beforeAll(async () => {
      cluster = await Cluster.create();
      const port = await freePort();
      const ini = join(folder, 'pgbouncer.ini');
      writeFileSync(
        ini,
        `[databases]\n* = host=127.0.0.1 port=${cluster.port} user=postgres\n` +
          `[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\n` +
          `unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\n`,
      );
      for (const path of [folder, ini])
        if (user?.uid !== undefined && user.gid !== undefined) chownSync(path, user.uid, user.gid);
      pooler = spawn(program ?? '', [ini], { ...user, stdio: 'ignore' });
      url = `postgres://postgres@127.0.0.1:${port}/postgres`;
      await eventually(20_000, 'it answers', async () => {
        const client = new PgClient({ connectionString: url });
        return client.connect().then(
          () => client.end().then(() => true),
          () => false,
        );
      });
    });
    afterAll(async () => {
      pooler?.kill();
      await cluster?.remove();
      rmSync(folder, { recursive: true });
    });

    it('work is done as ever, and leaves no setting, statement or channel behind', {
      timeout: 60_000,
    }, async () => {
      const provider = await PostgresProvider.connect(url, { schema: 'shop' });
      const runtime = new Runtime(provider, { logLevel: 'error' });
      runtime.registerActivity('next', (_ctx, n: number) => n + 1);
      runtime.registerOrchestration('sum', function* (ctx): Generator<any, number, any> {
        let sum = 0;
        for (let i = 0; i < 5; i += 1) sum = yield ctx.scheduleActivity('next', sum);
        return sum;
      });
      await runtime.start();
      const client = new Client(provider);
      const ids = Array.from({ length: 20 }, (_, i) => `sum-${i}`);
      await Promise.all(ids.map((id) => client.startOrchestration(id, 'sum')));
      for (const id of ids)
        expect(await client.waitForOrchestration(id, '20s')).toMatchObject({ status: 'Completed', output: 5 });

      // Uses all connections of the server at once, each in a transaction.
      const others = await Promise.all(
        Array.from({ length: 4 }, async () => {
          const other = new PgClient({ connectionString: url });
          await other.connect();
          await other.query('BEGIN');
          return other;
        }),
      );
      const left = await Promise.all(
        others.map(async (other) => {
          const { rows } = await other.query(
            `SELECT current_setting('enable_seqscan') AS seqscan, current_setting('statement_timeout') AS timeout,
             (SELECT count(*)::int FROM pg_listening_channels()) AS channels,
             (SELECT count(*)::int FROM pg_prepared_statements) AS statements`,
          );
          await other.end();
          return rows[0] as unknown;
        }),
      );
      expect(left).toEqual(others.map(() => ({ seqscan: 'on', timeout: '0', channels: 0, statements: 0 })));
      await runtime.shutdown();
      await provider.close();
    });
  },
);

// A real PgBouncer in transaction mode, without any option that announces it. Perdure detects it, and leaves no state
// of this process on a server's connection.

import { Client, PostgresProvider, Runtime } from 'perdure';
import { Client as PgClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { noPooler, Pooler } from '../../support/pooler.ts';

describe.skipIf(noPooler !== undefined)(
  `behind PgBouncer in transaction mode${noPooler === undefined ? '' : ` (${noPooler})`}`,
  () => {
    let pooler: Pooler;
    beforeAll(async () => {
      pooler = await Pooler.create(4);
    });
    afterAll(() => pooler?.remove());

    it('work is done as ever, and leaves no setting, statement or channel behind', async () => {
      const { url } = pooler;
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

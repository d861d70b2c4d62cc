// Transactional steps on `pg` behind a pooler, which has a connection of the server for each transaction.

import { defineOrchestration } from 'perdure';
import { pgDatasource } from 'perdure/pg';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { noPooler, Pooler } from '../support/pooler.ts';
import { ANY_STORE } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';

describe.skipIf(noPooler !== undefined)(
  `steps behind PgBouncer in transaction mode${noPooler === undefined ? '' : ` (${noPooler})`}`,
  () => {
    const store = useStore(ANY_STORE);
    let pooler: Pooler;
    let pool: Pool;
    beforeAll(async () => {
      pooler = await Pooler.create(4);
      pool = new Pool({ connectionString: pooler.url, max: 12 });
      await pool.query('create table lines (instance text, n int)');
      await pgDatasource(pool).install();
    });
    afterAll(async () => {
      await pool.end();
      await pooler.remove();
    });

    it.each([{ isolation: 'read committed' }, { isolation: 'serializable' }] as const)(
      'happen once, and leave no setting behind: $isolation',
      async ({ isolation }) => {
        await pool.query('truncate lines, perdure_steps');
        const bank = pgDatasource(pool);
        const step = bank.activity(
          'step',
          async (tx, n: number, { instanceId }) => {
            await tx.query('insert into lines values ($1, $2)', [instanceId, n]);
            return n + 1;
          },
          { isolation },
        );
        const chain = defineOrchestration('chain', function* (ctx) {
          let n = 0;
          while (n < 5) n = yield* ctx.call(step, n);
          return n;
        });
        await store.start((runtime) => runtime.register(step, chain));
        const ids = Array.from({ length: 20 }, () => store.id());
        await Promise.all(ids.map((id) => store.client.start(chain, undefined, { id })));
        for (const id of ids) expect(await store.client.handle(id).result({ timeout: SOON })).toBe(5);
        const { rows } = await pool.query('select instance, n, count(*)::int from lines group by 1, 2');
        expect(rows).toHaveLength(100);
        expect(rows.every(({ count }) => count === 1)).toBe(true);
        expect((await pool.query('show idle_in_transaction_session_timeout')).rows).toEqual([
          { idle_in_transaction_session_timeout: '0' },
        ]);
      },
    );
  },
);

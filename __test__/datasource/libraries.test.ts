// Transactional steps on other libraries, through `defineDatasource`, against a real server.

import { randomUUID } from 'node:crypto';
import {
  type ActivityContext,
  type ActivityDefinition,
  defineActivity,
  defineOrchestration,
  NonRetryableError,
  TimeoutError,
} from 'perdure';
import type { DatasourceActivityOptions } from 'perdure/datasource';
import { Pool } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { deferred } from '../support/async.ts';
import { ANY_STORE, POSTGRES_URL } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { LIBRARIES, type Library } from './libraries.ts';

type Body = (query: (text: string) => Promise<any[]>, input: any, ctx: ActivityContext) => unknown;

describe.each(LIBRARIES)('a step on $name', (libraryKind) => {
  const store = useStore(ANY_STORE);
  const schema = `library_${randomUUID().slice(0, 8)}`;
  const options = `-c search_path=${schema}`;
  const pool = new Pool({ connectionString: POSTGRES_URL, options, max: 2 });
  let library: Library;

  beforeAll(async () => {
    await pool.query(`create schema ${schema}; create table ${schema}.accounts (name text primary key, cents bigint)`);
    library = await libraryKind.open(POSTGRES_URL, options);
    await library.datasource.install();
  });
  beforeEach(async () => {
    await pool.query(`truncate accounts, perdure_steps; insert into accounts values ('ann', 0)`);
  });
  afterAll(async () => {
    await library.close();
    await pool.query(`drop schema ${schema} cascade`);
    await pool.end();
  });

  const stepOf = (body: Body, options?: DatasourceActivityOptions): ActivityDefinition<any, any> =>
    library.datasource.activity(
      'step',
      (tx, input: any, ctx) => body((text) => library.query(tx, text), input, ctx),
      options,
    );
  const run = async (step: ActivityDefinition<any, any>, input: unknown, count = 1): Promise<any[]> => {
    const all = defineOrchestration('all', function* (ctx, given: unknown) {
      return yield* ctx.all(Array.from({ length: count }, () => ctx.call(step, given)));
    });
    await store.start((runtime) => runtime.register(step, all));
    const handle = await store.client.start(all, input, { id: store.id() });
    return handle.result({ timeout: SOON });
  };
  const cents = async (): Promise<number> => Number((await pool.query('select cents from accounts')).rows[0].cents);
  const records = async (): Promise<any[]> => (await pool.query('select * from perdure_steps')).rows;
  const add: Body = async (query, amount: number) => {
    await query(`update accounts set cents = cents + ${amount} where name = 'ann'`);
    return new Date(amount);
  };

  it('commits its writes with the record of its output', async () => {
    expect(await run(stepOf(add), 300)).toEqual([new Date(300)]);
    expect(await cents()).toBe(300);
    expect(await records()).toMatchObject([{ attempt: '1', error: null, store: await store.client.storeId() }]);
  });

  it('rolls back when its function throws, and records the failure', async () => {
    const failing = stepOf(async (query, amount, ctx) => {
      await add(query, amount, ctx);
      throw new NonRetryableError('no such account');
    });
    await expect(run(failing, 300)).rejects.toMatchObject({ cause: { message: 'no such account' } });
    expect(await cents()).toBe(0);
    const [row] = await records();
    expect(JSON.parse(row.error)).toMatchObject({ message: 'no such account' });
  });

  it('happens with the attempt that does not fail', async () => {
    const step = stepOf(
      async (query, amount, ctx) => {
        await add(query, amount, ctx);
        if (ctx.attempt < 3) throw new Error('not yet');
        return ctx.attempt;
      },
      { retry: { initialInterval: 1, jitter: 0 } },
    );
    expect(await run(step, 1)).toEqual([3]);
    expect(await cents()).toBe(1);
    expect(await records()).toMatchObject([{ attempt: '3', error: null }]);
  });

  it.each([undefined, 'read committed', 'repeatable read', 'serializable'] as const)(
    'gives a repeated attempt the recorded outcome, isolation: %s',
    async (isolation) => {
      const step = stepOf(add, isolation === undefined ? {} : { isolation });
      // The calls have the same key, as the attempts of two workers have.
      const twice = defineActivity('twice', async (ctx, amount: number) => [
        ...(await Promise.all([step.fn(ctx, amount), step.fn(ctx, amount)])),
        await step.fn(ctx, amount),
      ]);
      const [outcomes] = await run(twice, 5);
      expect(outcomes).toEqual([new Date(5), new Date(5), new Date(5)]);
      expect(await cents()).toBe(5);
    },
  );

  it('runs again within its attempt after a serialization failure', async () => {
    const step = stepOf(
      async (query, amount: number) => {
        const [row] = await query(`select cents from accounts where name = 'ann'`);
        await query(`update accounts set cents = ${Number(row.cents) + amount} where name = 'ann'`);
      },
      { isolation: 'serializable', retry: { maxAttempts: 1 } },
    );
    await run(step, 1, 8);
    expect(await cents()).toBe(8);
  });

  it.each([false, true])('ends soon when it is out of time, readOnly: %s', async (readOnly) => {
    const step = stepOf(
      async (query) => {
        if (!readOnly) await query(`update accounts set cents = 7`);
        await query(`select pg_sleep(30)::text, '${schema}'`);
      },
      { timeout: '2s', retry: { maxAttempts: 1 }, readOnly },
    );
    const began = performance.now();
    const error = await run(step, null).catch(({ cause }) => cause);
    expect(error).toBeInstanceOf(TimeoutError);
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(await cents()).toBe(0);
    const { rows } = await pool.query(
      `select from pg_stat_activity
        where query like '%pg_sleep(30)%${schema}%' and pid <> pg_backend_pid() and state = 'active'`,
    );
    expect(rows).toEqual([]);
  });

  it('refuses the statements that its function sends after the end of its time', async () => {
    const goOn = deferred<void>();
    let late: Promise<unknown> | undefined;
    const step = stepOf(
      (query, amount, ctx) => {
        late = goOn.promise.then(() => add(query, amount, ctx));
        late.catch(() => undefined);
        return late;
      },
      { timeout: '2s', retry: { maxAttempts: 1 } },
    );
    await expect(run(step, 5)).rejects.toMatchObject({ cause: { code: 'TIMEOUT' } });
    goOn.resolve();
    await expect(late).rejects.toMatchObject({ code: 'DATASOURCE', message: /has ended, and a statement came after/ });
    expect(await cents()).toBe(0);
  });

  it('does not write when it only reads', async () => {
    const step = stepOf(add, { readOnly: true, retry: { maxAttempts: 1 } });
    await expect(run(step, 1)).rejects.toThrow("activity 'step' failed");
    expect(await cents()).toBe(0);
  });

  it('fails for good when its function ends the transaction', async () => {
    const step = stepOf(async (query) => {
      await query('update accounts set cents = 7');
      await query('commit');
    });
    await expect(run(step, null)).rejects.toMatchObject({
      cause: { code: 'DATASOURCE', message: /^the function ended its transaction/, retryable: false },
    });
  });

  it('names a table that is missing', async () => {
    const step = stepOf(add, { retry: { maxAttempts: 1 } });
    await pool.query('alter table perdure_steps rename to others');
    const error = await run(step, 1).catch(({ cause }) => cause);
    await pool.query('alter table others rename to perdure_steps');
    expect(error).toMatchObject({ code: 'DATASOURCE', message: /^the table "perdure_steps" is missing.*install/ });
    expect(await cents()).toBe(0);
  });

  it('is swept when its instance is gone and a day has passed', async () => {
    const { client } = store;
    await run(stepOf(add), 1);
    const [{ instance }] = await records();
    await client.deleteInstance(instance);
    expect(await library.datasource.sweep(client)).toBe(0);
    await pool.query(`update perdure_steps set at = now() - interval '25 hours'`);
    expect(await library.datasource.sweep(client)).toBe(1);
    expect(await records()).toEqual([]);
  });
});

// Transactional steps: on each database of the user's, with each store.

import { DatasourceError, defineActivity, defineOrchestration, NonRetryableError } from 'perdure';
import { crashEverywhere, type TestRuntime } from 'perdure/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { type Body, DATABASES, type DatabaseKind, type UserDatabase } from './databases.ts';

const QUICK = { retry: { initialInterval: 1, jitter: 0 } } as const;

function useDatabase(kind: DatabaseKind): () => UserDatabase {
  let database: UserDatabase;
  beforeAll(async () => {
    database = await kind.create();
    await database.install();
    await database.query('create table accounts (name text primary key, cents bigint not null check (cents >= 0))');
    await database.query('create table movements (what text)');
  });
  beforeEach(async () => {
    for (const table of ['accounts', 'movements', 'perdure_steps']) await database.query(`delete from ${table}`);
    await database.query(`insert into accounts values ('ann', 1000), ('ben', 0)`);
  });
  afterAll(() => database.close());
  return () => database;
}

const count = async (database: UserDatabase, table = 'movements'): Promise<number> =>
  Number((await database.query(`select count(*) as n from ${table}`))[0].n);

/** The statements of a transfer. They need not be awaited on a synchronous library. */
const move: Body = (query, cents: number) => {
  const statements = [
    query(`insert into movements values ('moved ${cents}')`),
    query(`update accounts set cents = cents - ${cents} where name = 'ann'`),
    query(`update accounts set cents = cents + ${cents} where name = 'ben'`),
  ];
  const last = query(`select cents from accounts where name = 'ben'`);
  const balance = (rows: any): number => Number(rows[0].cents);
  return last instanceof Promise
    ? Promise.all([...statements, last]).then((all) => balance(all.at(-1)))
    : balance(last);
};

describe.each(DATABASES)('a step on $name', (kind) => {
  const database = useDatabase(kind);

  describe.each(STORES)('with a store on $name', (storeKind) => {
    const store = useStore(storeKind);

    /** Runs an orchestration that calls one step once. Returns its output. */
    const run = async (body: Body, input: unknown, options?: Parameters<UserDatabase['step']>[2]): Promise<unknown> => {
      const step = database().step('step', body, { ...QUICK, ...options });
      const once = defineOrchestration('once', function* (ctx, given: unknown) {
        return yield* ctx.call(step, given);
      });
      await store.start((runtime) => runtime.register(step, once));
      const handle = await store.client.start(once, input, { id: store.id() });
      return handle.result({ timeout: SOON });
    };

    it('commits its writes with the record of its output', async () => {
      expect(await run(move, 300)).toBe(300);
      expect(await database().query('select name, cents from accounts order by name')).toMatchObject([
        { name: 'ann', cents: kind.isPostgres ? '700' : 700 },
        { name: 'ben', cents: kind.isPostgres ? '300' : 300 },
      ]);
      const [row] = await database().query('select * from perdure_steps');
      expect(row).toMatchObject({ output: '300', error: null, store: await store.client.storeId() });
      expect(Number(row.attempt)).toBe(1);
    });

    it('rolls back when its function throws, and happens with the next attempt', async () => {
      const output = await run((query, input, ctx) => {
        const moved = move(query, input, ctx);
        const fail = (result: unknown): unknown => {
          if (ctx.attempt < 3) throw new Error('not yet');
          return result;
        };
        return moved instanceof Promise ? moved.then(fail) : fail(moved);
      }, 5);
      expect(output).toBe(5);
      expect(await count(database())).toBe(1);
      const rows = await database().query('select attempt, error from perdure_steps');
      expect(rows.map(({ attempt, error }) => [Number(attempt), error])).toEqual([[3, null]]);
    });

    it('records its failure before it is reported', async () => {
      const failing = run((query) => {
        void query(`insert into movements values ('gone')`);
        throw new NonRetryableError('no such account');
      }, null);
      await expect(failing).rejects.toMatchObject({ cause: { message: 'no such account', code: 'NON_RETRYABLE' } });
      expect(await count(database())).toBe(0);
      const [row] = await database().query('select output, error from perdure_steps');
      expect([row.output, JSON.parse(row.error).message]).toEqual([null, 'no such account']);
    });

    it('stores values that JSON cannot hold', async () => {
      const value = { at: new Date(7), all: new Map([['a', 1n]]), quoted: `'\\ "\n é😀` };
      expect(await run(() => value, null)).toEqual(value);
    });

    it('rolls back when its output cannot be stored', async () => {
      const failing = run((query) => {
        void query(`insert into movements values ('gone')`);
        return () => 1;
      }, null);
      await expect(failing).rejects.toMatchObject({ cause: { code: 'PAYLOAD', message: /^output cannot be stored/ } });
      expect(await count(database())).toBe(0);
    });

    it('is not repeated by an attempt that runs beside it', async () => {
      const step = database().step('step', move, QUICK);
      // Both calls have the same key, as an attempt of another worker has.
      const twice = defineActivity('twice', async (ctx, cents: number) =>
        Promise.all([step.fn(ctx, cents), step.fn(ctx, cents), step.fn(ctx, cents)]),
      );
      const main = defineOrchestration('main', function* (ctx) {
        return yield* ctx.call(twice, 2);
      });
      await store.start((runtime) => runtime.register(twice, main));
      const handle = await store.client.start(main, undefined, { id: store.id() });
      expect(await handle.result({ timeout: SOON })).toEqual([2, 2, 2]);
      expect(await count(database())).toBe(1);
    });

    it('does not happen after an attempt of the same number or a later one has failed', async () => {
      const step = database().step('step', move, QUICK);
      const fails = database().step(
        'fails',
        () => {
          throw new Error('refused');
        },
        QUICK,
      );
      const outcome = (work: unknown): Promise<unknown> => Promise.resolve(work).catch((error: Error) => error.message);
      const both = defineActivity('both', async (ctx) => [
        await outcome(fails.fn(ctx, null)),
        await outcome(step.fn(ctx, 2)),
      ]);
      const main = defineOrchestration('main', function* (ctx) {
        return yield* ctx.call(both);
      });
      await store.start((runtime) => runtime.register(both, main));
      const handle = await store.client.start(main, undefined, { id: store.id() });
      expect(await handle.result({ timeout: SOON })).toEqual(['refused', 'refused']);
      expect(await count(database())).toBe(0);
    });

    it('leaves no record when it only reads', async () => {
      const read: Body = (query) => {
        const cents = ([row]: any): number => Number(row.cents);
        const rows = query(`select cents from accounts where name = 'ann'`);
        return rows instanceof Promise ? rows.then(cents) : cents(rows);
      };
      expect(await run(read, null, { readOnly: true })).toBe(1_000);
      expect(await count(database(), 'perdure_steps')).toBe(0);
    });

    it('does not write when it only reads', async () => {
      const failing = run(move, 1, { readOnly: true, retry: { maxAttempts: 1 } });
      await expect(failing).rejects.toMatchObject({ cause: { message: /read-?only/ } });
      expect(await count(database())).toBe(0);
    });

    it('fails for good when its function ends the transaction', async () => {
      const ending: Body = (query) => {
        const statements = [query(`insert into movements values ('alone')`), query('commit')];
        return statements[0] instanceof Promise ? Promise.all(statements) : statements;
      };
      const error = await run(ending, null).catch(({ cause }) => cause);
      expect(error).toBeInstanceOf(DatasourceError);
      expect(error).toMatchObject({
        message: /^the function ended its transaction/,
        retryable: false,
        outcome: 'unknown',
      });
      expect(await count(database())).toBe(1);
    });

    it('names a table that is missing', async () => {
      const step = database()
        .other('nowhere')
        .step('step', move, { retry: { maxAttempts: 1 } });
      const once = defineOrchestration('once', function* (ctx) {
        return yield* ctx.call(step, 1);
      });
      await store.start((runtime) => runtime.register(step, once));
      const handle = await store.client.start(once, undefined, { id: store.id() });
      await expect(handle.result({ timeout: SOON })).rejects.toMatchObject({
        cause: { code: 'DATASOURCE', message: /^the table "nowhere" is missing.*install/, outcome: 'not committed' },
      });
      expect(await count(database())).toBe(0);
    });

    it('is swept when its instance is gone and a day has passed', async () => {
      const { client } = store;
      await run(move, 1);
      const [{ instance }] = await database().query('select instance from perdure_steps');
      await client.deleteInstance(instance);
      expect(await database().sweep(client)).toBe(0);
      const old = kind.isPostgres ? `now() - interval '25 hours'` : `'2020-01-01T00:00:00.000Z'`;
      await database().query(`update perdure_steps set at = ${old}`);
      expect(await database().sweep(client)).toBe(1);
      expect(await count(database(), 'perdure_steps')).toBe(0);
    });

    it('is kept while its instance is there', async () => {
      await run(move, 1);
      const old = kind.isPostgres
        ? `now() - interval '25 hours'`
        : `strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-25 hours')`;
      await database().query(`update perdure_steps set at = ${old}`);
      expect(await database().sweep(store.client)).toBe(0);
      await database().query(`update perdure_steps set store = 'another', instance = 'gone'`);
      expect(await database().sweep(store.client)).toBe(0);
    });
  });

  it('happens once with a crash after each event', async () => {
    const { result, crashes } = await crashEverywhere(async (test: TestRuntime) => {
      for (const table of ['movements', 'perdure_steps']) await database().query(`delete from ${table}`);
      await database().query(`update accounts set cents = case name when 'ann' then 1000 else 0 end`);
      const step = database().step('step', move, QUICK);
      const pay = defineOrchestration('pay', function* (ctx) {
        return [yield* ctx.call(step, 10), yield* ctx.call(step, 20)];
      });
      test.register(step, pay);
      const handle = await test.start(pay, undefined, { id: 'pay' });
      const balances = await handle.result();
      return { balances, movements: await count(database()) };
    });
    expect(result).toEqual({ balances: [10, 30], movements: 2 });
    expect(crashes).toBeGreaterThan(4);
  });
});

// Transactional steps on `pg` while connections break, transactions collide and rights are missing.

import { randomUUID } from 'node:crypto';
import { type ActivityDefinition, defineOrchestration, TimeoutError } from 'perdure';
import { pgDatasource } from 'perdure/pg';
import { Pool } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { deferred } from '../support/async.ts';
import { ANY_STORE } from '../support/providers.ts';
import { Proxy } from '../support/proxy.ts';
import { SOON, useStore } from '../support/store.ts';

const url = process.env.PERDURE_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';
const schema = `steps_${randomUUID().slice(0, 8)}`;
const options = `-c search_path=${schema}`;
const pool = new Pool({ connectionString: url, options, max: 4 });
const QUICK = { retry: { initialInterval: 1, jitter: 0 } } as const;

beforeAll(async () => {
  await pool.query(`create schema ${schema}`);
  await pool.query('create table counters (name text primary key, n bigint not null); create table lines (what text)');
  await pgDatasource(pool).install();
});
beforeEach(async () => {
  await pool.query(`truncate counters, lines, perdure_steps; insert into counters values ('a', 0)`);
});
afterAll(async () => {
  await pool.query(`drop schema ${schema} cascade`);
  await pool.end();
});

const lines = async (): Promise<number> => Number((await pool.query('select count(*) from lines')).rows[0].count);

const store = useStore(ANY_STORE);

async function run(step: ActivityDefinition<any, any>, input?: unknown): Promise<unknown> {
  const once = defineOrchestration('once', function* (ctx, given: unknown) {
    return yield* ctx.call(step, given);
  });
  await store.start((runtime) => runtime.register(step, once));
  const handle = await store.client.start(once, input, { id: store.id() });
  return handle.result({ timeout: SOON });
}

/** The beginnings of the messages that run the prepared statements of each step: an empty portal, and a name. */
const [AT_BEGIN, AT_COMMIT] = ['\0perdure_begin', '\0perdure_commit'];

describe('a step that is out of time', () => {
  it('has its query cancelled and its writes rolled back', async () => {
    const step = pgDatasource(pool).activity(
      'slow',
      async (tx) => {
        await tx.query(`insert into lines values ('gone')`);
        await tx.query(`select pg_sleep(600), '${schema}'`);
      },
      { timeout: '2s', retry: { maxAttempts: 1 } },
    );
    const error = await run(step).catch(({ cause }) => cause);
    expect(error).toBeInstanceOf(TimeoutError);
    const { rows } = await pool.query(
      `select from pg_stat_activity where query like '%pg_sleep(600), ''${schema}%'
       and pid <> pg_backend_pid() and state = 'active'`,
    );
    expect(rows).toEqual([]);
    expect(await lines()).toBe(0);
    const [row] = (await pool.query('select error from perdure_steps')).rows;
    expect(JSON.parse(row.error)).toMatchObject({ name: 'TimeoutError' });
  });

  it('has happened if its commit came to pass', async () => {
    const { proxy, url: through } = await Proxy.to(url);
    const own = new Pool({ connectionString: through, options });
    try {
      const aborted = deferred();
      const step = pgDatasource(own).activity(
        'late',
        async (tx, _, { signal }) => {
          signal.addEventListener('abort', () => aborted.resolve());
          await tx.query(`insert into lines values ('there')`);
          return 'done';
        },
        { timeout: '2s', retry: { maxAttempts: 1 } },
      );
      const blocked = proxy.blockAt(AT_COMMIT);
      const result = run(step);
      await blocked;
      // The attempt is out of time while its commit is on the way.
      await aborted.promise;
      proxy.free();
      expect(await result).toBe('done');
      expect(await lines()).toBe(1);
    } finally {
      await own.end();
      await proxy.close();
    }
  });
});

describe('a connection that breaks', () => {
  const PLACES = [
    ['the preparation of BEGIN', 'BEGIN'],
    ['BEGIN', AT_BEGIN],
    ['an insertion', 'insert into lines'],
    ['an update', 'update counters'],
    ['COMMIT', AT_COMMIT],
  ] as const;
  it.each(PLACES.flatMap((place) => [[...place, 'before'] as const, [...place, 'after'] as const]))(
    'at %s (%j), %s the server has it, leaves a step that happens once',
    async (_, place, when) => {
      const { proxy, url: through } = await Proxy.to(url);
      const own = new Pool({ connectionString: through, options });
      try {
        const step = pgDatasource(own).activity(
          'breaks',
          async (tx, n: number) => {
            await tx.query(`insert into lines values ('there')`);
            await tx.query(`update counters set n = n + $1 where name = 'a'`, [n]);
            return n;
          },
          { retry: { maxAttempts: 1 } },
        );
        await own.query('select 1');
        const broken = proxy.breakAt(place, when);
        expect(await run(step, 7)).toBe(7);
        await broken;
        expect(await lines()).toBe(1);
        expect((await pool.query('select n from counters')).rows).toEqual([{ n: '7' }]);
      } finally {
        await own.end();
        await proxy.close();
      }
    },
  );

  it('at the record of a failure leaves a step that has failed', async () => {
    const { proxy, url: through } = await Proxy.to(url);
    const own = new Pool({ connectionString: through, options });
    try {
      const step = pgDatasource(own).activity(
        'fails',
        () => {
          throw new Error('refused');
        },
        { retry: { maxAttempts: 1 } },
      );
      const broken = proxy.breakAt('ON CONFLICT (key) DO UPDATE', 'after');
      await expect(run(step)).rejects.toMatchObject({ cause: { message: 'refused' } });
      await broken;
    } finally {
      await own.end();
      await proxy.close();
    }
  });

  it('is not noticed by the process while it is idle', async () => {
    const own = new Pool({ connectionString: url, options });
    const bank = pgDatasource(own);
    const { rows } = await own.query('select pg_backend_pid() as pid');
    await pool.query(`select pg_terminate_backend(${rows[0].pid})`);
    await bank.install();
    await own.end();
  });
});

describe('transactions that collide', () => {
  it.each(['repeatable read', 'serializable'] as const)('run again within their attempt, %s', async (isolation) => {
    const step = pgDatasource(pool).activity(
      'count',
      async (tx) => {
        const { rows } = await tx.query(`select n from counters where name = 'a'`);
        await tx.query(`update counters set n = $1 where name = 'a'`, [Number(rows[0].n) + 1]);
      },
      { isolation, retry: { maxAttempts: 1 } },
    );
    const all = defineOrchestration('all', function* (ctx) {
      yield* ctx.all(Array.from({ length: 12 }, () => ctx.call(step)));
    });
    await store.start((runtime) => runtime.register(step, all));
    await (await store.client.start(all, undefined, { id: store.id() })).result({ timeout: SOON });
    expect((await pool.query('select n from counters')).rows).toEqual([{ n: '12' }]);
  });

  it('run again after a deadlock', async () => {
    await pool.query(`insert into counters values ('b', 0)`);
    const bank = pgDatasource(pool);
    const step = bank.activity(
      'cross',
      async (tx, [first, second]: [string, string]) => {
        await tx.query('update counters set n = n + 1 where name = $1', [first]);
        await tx.query(`select pg_sleep(0.05)`);
        await tx.query('update counters set n = n + 1 where name = $1', [second]);
      },
      { retry: { maxAttempts: 1 } },
    );
    const all = defineOrchestration('all', function* (ctx) {
      yield* ctx.all([ctx.call(step, ['a', 'b']), ctx.call(step, ['b', 'a'])]);
    });
    await store.start((runtime) => runtime.register(step, all));
    await (await store.client.start(all, undefined, { id: store.id() })).result({ timeout: SOON });
    expect((await pool.query('select n from counters order by name')).rows).toEqual([{ n: '2' }, { n: '2' }]);
  });
});

describe.each(['-3 days', '3 days'])('on a server whose clock is off by %s', (offset) => {
  /** The functions of the server come after those of this schema, so `now()` is another clock for the datasource. */
  const other = `${schema}_clock`;
  const own = new Pool({ connectionString: url, options: `-c search_path=${other},${schema},pg_catalog`, max: 4 });
  beforeAll(async () => {
    await own.query(`create schema ${other}`);
    await own.query(
      `create function ${other}.now() returns timestamptz language sql stable
       as $$ select pg_catalog.now() + interval '${offset}' $$`,
    );
    await pgDatasource(own, { table: `${other}.steps` }).install();
  });
  afterAll(async () => {
    await own.query(`drop schema ${other} cascade`);
    await own.end();
  });

  it('a step happens once, and its row is kept for a day', async () => {
    const bank = pgDatasource(own, { table: `${other}.steps` });
    let attempts = 0;
    const step = bank.activity(
      'step',
      async (tx) => {
        await tx.query(`insert into lines values ('there')`);
        attempts += 1;
        if (attempts === 1) throw new Error('again');
        return 'done';
      },
      QUICK,
    );
    expect(await run(step)).toBe('done');
    expect(await lines()).toBe(1);
    const [row] = (await own.query('select instance, now() - at < interval $$1 minute$$ as is_new from steps')).rows;
    expect(row.is_new).toBe(true);
    // The instance is there, then it is gone, then its row is a day old.
    expect(await bank.sweep(store.client)).toBe(0);
    await store.client.deleteInstance(row.instance);
    expect(await bank.sweep(store.client)).toBe(0);
    await own.query(`update steps set at = at - interval '25 hours'`);
    expect(await bank.sweep(store.client)).toBe(1);
  });
});

describe('bad use', () => {
  it('of a transaction after a failed statement says what to do', async () => {
    const step = pgDatasource(pool).activity(
      'swallows',
      async (tx) => {
        await tx.query('select 1 / 0').catch(() => undefined);
      },
      { retry: { maxAttempts: 1 } },
    );
    await expect(run(step)).rejects.toMatchObject({ cause: { code: 'DATASOURCE', message: /SAVEPOINT/ } });
  });

  it('does not include savepoints', async () => {
    const step = pgDatasource(pool).activity('saves', async (tx) => {
      await tx.query(`insert into lines values ('there'); savepoint s; insert into lines values ('gone')`);
      await tx.query('select 1 / 0').catch(() => undefined);
      await tx.query('rollback to savepoint s');
    });
    await run(step);
    expect(await lines()).toBe(1);
  });

  it('by a statement after the end is refused', async () => {
    let late: Promise<unknown> | undefined;
    let release: (() => void) | undefined;
    const step = pgDatasource(pool).activity('late', async (tx) => {
      late = new Promise<void>((resolve) => {
        release = resolve;
      }).then(() => tx.query(`insert into lines values ('late')`));
      late.catch(() => undefined);
      expect(() => tx.release()).toThrow(/releases the client of a step itself/);
    });
    await run(step);
    release?.();
    await expect(late).rejects.toMatchObject({ code: 'DATASOURCE', message: /has ended, and a statement came after/ });
    expect(await lines()).toBe(0);
  });

  it('of two statements at once runs both in the transaction', async () => {
    const step = pgDatasource(pool).activity('parallel', async (tx) => {
      await Promise.all([tx.query(`insert into lines values ('one')`), tx.query(`insert into lines values ('two')`)]);
    });
    await run(step);
    expect(await lines()).toBe(2);
  });

  it('of a pool that has ended names the pool', async () => {
    const own = new Pool({ connectionString: url, options });
    const step = pgDatasource(own).activity('ended', async () => 1, { retry: { maxAttempts: 1 } });
    await own.end();
    await expect(run(step)).rejects.toMatchObject({ cause: { message: /pool of this datasource has ended/ } });
  });

  it('by a role without rights names the table and the grant', async () => {
    const role = `${schema}_role`;
    await pool.query(`create role ${role} login; grant usage on schema ${schema} to ${role}`);
    const own = new Pool({ connectionString: url, options, user: role });
    try {
      const address = new URL(url);
      address.username = role;
      const limited = new Pool({ connectionString: address.href, options });
      const step = pgDatasource(limited).activity('refused', async () => 1, { retry: { maxAttempts: 1 } });
      await expect(run(step)).rejects.toMatchObject({
        cause: { code: 'DATASOURCE', message: /may not use its table "perdure_steps".*GRANT SELECT/ },
      });
      await limited.end();
    } finally {
      await own.end();
      await pool.query(`drop owned by ${role}; drop role ${role}`);
    }
  });

  it('by a function that stays idle for too long is ended by the server', async () => {
    const step = pgDatasource(pool, { idleTimeout: '50ms' }).activity(
      'idle',
      async (tx) => {
        await tx.query(`insert into lines values ('gone')`);
        await new Promise((resolve) => tx.once('error', resolve));
      },
      { ...QUICK, retry: { maxAttempts: 1 } },
    );
    await expect(run(step)).rejects.toMatchObject({ cause: { code: 'DATASOURCE', message: /idleTimeout/ } });
    expect(await lines()).toBe(0);
  });
});

it.each([
  [() => pgDatasource(null as never), /^pgDatasource takes a Pool of the package pg, not null$/],
  [() => pgDatasource(pool, { tabel: 'x' } as never), /unknown option `tabel`; did you mean `table`\?$/],
  [() => pgDatasource(pool, { table: 'a b' }), /^pgDatasource: table must be the name of a table/],
  [() => pgDatasource(pool).activity('', async () => 1), /^the activity name must not be empty$/],
  [
    () => pgDatasource(pool).activity('a', async () => 1, { isolation: 'snapshot' as never }),
    /^activity 'a': isolation must be one of 'read committed', 'repeatable read', 'serializable'/,
  ],
])('a wrong argument is named, %#', (call, message) => {
  expect(call).toThrow(TypeError);
  expect(call).toThrow(message);
});

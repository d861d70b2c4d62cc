// Transactional steps on `pg` whose transaction begins with the first statement of the function: those that no attempt
// has tried before, on a connection that has run another step.

import { randomUUID } from 'node:crypto';
import { type ActivityContext, type ActivityDefinition, defineOrchestration, TimeoutError } from 'perdure';
import { pgDatasource } from 'perdure/pg';
import { Pool, type PoolClient } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';

import { ANY_STORE } from '../support/providers.ts';
import { Proxy } from '../support/proxy.ts';
import { SOON, useStore } from '../support/store.ts';

const url = process.env.PERDURE_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';
const schema = `untried_${randomUUID().slice(0, 8)}`;
const options = `-c search_path=${schema}`;
const pool = new Pool({ connectionString: url, options, max: 2 });
const store = useStore(ANY_STORE);

beforeAll(async () => {
  await pool.query(`create schema ${schema}; create table ${schema}.lines (what text unique)`);
  await pgDatasource(pool).install();
});
afterAll(async () => {
  await pool.query(`drop schema ${schema} cascade`);
  await pool.end();
});

/** The proxy before the server, the pool of the datasource, and what its connection has sent. */
let proxy: Proxy;
let own: Pool;
let sent: () => Buffer[];
let bank: ReturnType<typeof pgDatasource>;

beforeEach(async () => {
  await pool.query('truncate lines, perdure_steps');
  const to = await Proxy.to(url);
  proxy = to.proxy;
  sent = proxy.record();
  own = new Pool({ connectionString: to.url, options, max: 1 });
  bank = pgDatasource(own);
  expect(await run(bank.activity('first', (tx) => tx.query('select 1').then(() => 'ready')))).toBe('ready');
});
afterEach(async () => {
  await own.end();
  await proxy.close();
});

async function run(step: ActivityDefinition<any, any>): Promise<unknown> {
  const once = defineOrchestration('once', function* (ctx) {
    return yield* ctx.call(step);
  });
  const runtime = await store.start((starting) => starting.register(step, once));
  const handle = await store.client.start(once, undefined, { id: store.id() });
  return handle.result({ timeout: SOON }).finally(() => runtime.shutdown());
}

const lines = async (): Promise<string[]> =>
  (await pool.query('select what from lines order by what')).rows.map(({ what }) => what);
const records = async (): Promise<unknown[]> =>
  (await pool.query(`select attempt::int, output, error from perdure_steps where output is distinct from '"ready"'`))
    .rows;
const write = (tx: PoolClient, what: string): Promise<unknown> => tx.query(`insert into lines values ($1)`, [what]);

/** The beginnings of the messages that run the prepared statements: an empty portal, and a name. */
const [AT_BEGIN, AT_LOOK, AT_COMMIT] = ['\0perdure_begin', '\0perdure_select', '\0perdure_commit'];
const FLUSH = 'H\0\0\0\x04';
const SYNC = 'S\0\0\0\x04';

/** Returns what the last connection has sent from the begin of its last transaction to a text. */
function fromBeginTo(text: string): string {
  const all = sent().at(-1)?.toString('latin1') ?? '';
  const end = all.lastIndexOf(text);
  return all.slice(all.lastIndexOf(AT_BEGIN, end), end);
}

it('begins with the first statement, in one message', async () => {
  const step = bank.activity('step', async (tx) => {
    await write(tx, 'a');
    await write(tx, 'b');
    return 'done';
  });
  expect(await run(step)).toBe('done');
  const first = fromBeginTo(AT_COMMIT).split('insert into lines')[0];
  expect(first).toContain(FLUSH);
  expect(first).not.toContain(SYNC);
  expect(await lines()).toEqual(['a', 'b']);
  expect(await records()).toEqual([{ attempt: 1, output: '"done"', error: null }]);
});

it.each<[string, (tx: PoolClient) => unknown, string[]]>([
  ['several statements in one text', (tx) => tx.query(`insert into lines values ('a'); select 1`), ['a']],
  ['a prepared one', (tx) => tx.query({ name: 'own', text: 'insert into lines values ($1)', values: ['a'] }), ['a']],
  ['one with a callback', (tx) => new Promise((end) => tx.query(`insert into lines values ('a')`, end)), ['a']],
  ['one that comes later', (tx) => new Promise(setImmediate).then(() => write(tx, 'a')), ['a']],
  ['two at once', (tx) => Promise.all([write(tx, 'a'), write(tx, 'b')]), ['a', 'b']],
  ['none', () => undefined, []],
  ['one that has no value for a parameter', (tx) => tx.query('select $1', [{ toPostgres: fails }]).catch(() => 0), []],
])('happens once if the first statement is %s', async (_, body, expected) => {
  let calls = 0;
  const step = bank.activity('step', async (tx) => {
    calls += 1;
    await body(tx);
    return 'done';
  });
  expect(await run(step)).toBe('done');
  expect([calls, await lines()]).toEqual([1, expected]);
  expect(await records()).toEqual([{ attempt: 1, output: '"done"', error: null }]);
});

function fails(): never {
  throw new Error('no value');
}

it('gets the rows of its first statement, and of no other', async () => {
  const step = bank.activity('step', async (tx) => (await tx.query('select 7 as n union select 8 order by n')).rows);
  expect(await run(step)).toEqual([{ n: 7 }, { n: 8 }]);
});

it.each<[string, (tx: PoolClient) => unknown]>([
  ['before its first statement', () => fails()],
  ['in its first statement', (tx) => tx.query(`select 'no value'::int`)],
  ['after its first statement', (tx) => write(tx, 'a').then(fails)],
])('that fails %s is rolled back, and the next attempt looks for its record', async (_, body) => {
  const step = bank.activity(
    'step',
    async (tx, __: unknown, { attempt }) => {
      if (attempt === 1) await body(tx);
      await write(tx, `attempt ${attempt}`);
      return attempt;
    },
    { retry: { initialInterval: 1, jitter: 0 } },
  );
  expect(await run(step)).toBe(2);
  expect(await lines()).toEqual(['attempt 2']);
  expect(fromBeginTo('insert into lines')).toContain(AT_LOOK);
  expect(await records()).toEqual([{ attempt: 2, output: '2', error: null }]);
});

it('has its first statement cancelled when it is out of time', async () => {
  const step = bank.activity('slow', (tx) => tx.query(`select pg_sleep(600), '${schema}'`).then(() => null), {
    timeout: '1s',
    retry: { maxAttempts: 1 },
  });
  expect(await run(step).catch(({ cause }) => cause)).toBeInstanceOf(TimeoutError);
  const running = `select from pg_stat_activity where query like '%pg_sleep(600), ''${schema}%' and state = 'active'
    and pid <> pg_backend_pid()`;
  expect((await pool.query(running)).rows).toEqual([]);
  expect(await records()).toMatchObject([{ attempt: 1, error: expect.stringContaining('TimeoutError') }]);
});

it('has the outcome of the record that it meets at its end', async () => {
  let calls = 0;
  const step = bank.activity('step', async (tx, _, ctx: ActivityContext) => {
    calls += 1;
    await write(tx, 'own');
    // As another worker writes it, that runs the same attempt.
    const row = [ctx.idempotencyKey, await ctx.client.storeId(), ctx.instanceId, ctx.executionId, 1, '"theirs"'];
    await pool.query(
      'insert into perdure_steps (key, store, instance, execution, attempt, output) values ($1, $2, $3, $4, $5, $6)',
      row,
    );
    return 'own';
  });
  expect(await run(step)).toBe('theirs');
  expect([calls, await lines()]).toEqual([1, []]);
});

it.each(['DEALLOCATE ALL', `select pg_terminate_backend(pg_backend_pid())`])(
  'happens once after %s on its connection',
  async (text) => {
    await own.query(text).catch(() => undefined);
    const step = bank.activity('step', (tx) => write(tx, 'a').then(() => 'done'));
    expect(await run(step)).toBe('done');
    expect(await lines()).toEqual(['a']);
    expect(await records()).toEqual([{ attempt: 1, output: '"done"', error: null }]);
  },
);

it('looks for its record if the client has a statement to send when it is acquired', async () => {
  own.on('acquire', (client) => void client.query(`select set_config('app.tenant', 'ann', false)`));
  const tenant = bank.activity(
    'step',
    async (tx) => (await tx.query(`select current_setting('app.tenant') as t`)).rows,
  );
  expect(await run(tenant)).toEqual([{ t: 'ann' }]);
  expect(fromBeginTo('current_setting')).toContain(AT_LOOK);
});

it('begins anew if its function hides that the first statement was refused', async () => {
  await own.query('DEALLOCATE ALL');
  const step = bank.activity('step', (tx) =>
    write(tx, 'a').then(
      () => 'there',
      () => 'hidden',
    ),
  );
  expect(await run(step)).toBe('there');
  expect(await lines()).toEqual(['a']);
});

it('that ends its transaction itself fails for good', async () => {
  const step = bank.activity('step', async (tx) => {
    await write(tx, 'a');
    await tx.query('commit');
  });
  await expect(run(step)).rejects.toMatchObject({ cause: { message: /ended its transaction/, retryable: false } });
});

it.each([
  [AT_BEGIN, 'before'],
  [AT_BEGIN, 'after'],
  [`values ('second')`, 'before'],
  [`values ('second')`, 'after'],
  [AT_COMMIT, 'before'],
  [AT_COMMIT, 'after'],
] as const)('happens once if its connection breaks at %j, %s the server has it', async (place, when) => {
  const step = bank.activity(
    'step',
    async (tx) => {
      await write(tx, 'first');
      await tx.query(`insert into lines values ('second')`);
      return 'done';
    },
    { retry: { maxAttempts: 1 } },
  );
  const broken = proxy.breakAt(place, when);
  expect(await run(step)).toBe('done');
  await broken;
  expect(await lines()).toEqual(['first', 'second']);
  expect(await records()).toEqual([{ attempt: 1, output: '"done"', error: null }]);
});

it.each(['read committed', 'repeatable read', 'serializable'] as const)('is %s', async (isolation) => {
  const step = bank.activity('step', async (tx) => (await tx.query('show transaction_isolation')).rows, { isolation });
  expect(await run(step)).toEqual([{ transaction_isolation: isolation }]);
  expect(fromBeginTo('show transaction_isolation')).not.toContain(SYNC);
});

// Requests in a transaction of a Postgres database: its locks, its commits, its rights, and its libraries.

import Database from 'better-sqlite3';
import { drizzle } from 'drizzle-orm/node-postgres';
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js';
import { Kysely, PostgresDialect } from 'kysely';
import { type Client, defineOrchestration, PostgresProvider, Client as StoreClient } from 'perdure';
import { escapeIdentifier, Client as PgClient, Pool } from 'pg';
import postgres from 'postgres';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { POSTGRES_URL, postgresAt } from '../../support/providers.ts';
import { query } from '../../support/rows.ts';
import { SOON, useStore } from '../../support/store.ts';

const echo = defineOrchestration('echo', function* (_, input: unknown) {
  return input;
});
const steps = defineOrchestration('steps', function* (ctx) {
  const seen: unknown[] = [];
  for (const name of ['a', 'b']) {
    seen.push(yield* ctx.waitForEvent(name));
    ctx.setCustomStatus(name);
  }
  return seen;
});

/** A name that has to be quoted in every place. */
const SCHEMA = `Perdure's "test" \\ $$ ${process.pid}`;
const quoted = escapeIdentifier(SCHEMA);

describe('on Postgres', () => {
  const store = useStore(postgresAt(POSTGRES_URL, { schema: SCHEMA }));
  let client: Client;
  let users: PgClient[];

  beforeEach(() => {
    client = store.client;
    users = [];
  });

  afterEach(async () => {
    for (const user of users) await user.end();
  });

  const result = (id: string): Promise<unknown> => client.handle(id).result({ timeout: SOON });

  async function connect(url = POSTGRES_URL): Promise<PgClient> {
    const user = new PgClient({ connectionString: url });
    users.push(user);
    await user.connect();
    await user.query(`SET search_path TO ${quoted}`);
    return user;
  }

  // Q1. A request that locked the instance would hold up each of these turns until the transaction ends.
  it('an open transaction holds up no turn of its instance or of another one', async () => {
    const user = await connect();
    await store.start((runtime) => runtime.register(steps));
    const [id, other] = [store.id(), store.id()];
    await client.start(steps, undefined, { id });
    await client.start(steps, undefined, { id: other });
    await user.query('BEGIN');
    await client.within(user).raiseEvent(id, 'b', 'within');
    for (const one of [id, other]) {
      await client.raiseEvent(one, 'a', 1);
      expect((await client.waitForStatusChange(one, 0, { timeout: SOON }))?.customStatus).toBe('a');
    }
    await client.raiseEvent(other, 'b', 2);
    expect(await result(other)).toEqual([1, 2]);
    expect((await client.getStatus(id))?.status).toBe('Running');
    await user.query('COMMIT');
    expect(await result(id)).toEqual([1, 'within']);
  });

  it('transactions that send to the same instances in opposite orders do not wait for each other', async () => {
    const [one, two] = [await connect(), await connect()];
    const ids = [store.id(), store.id(), store.id()];
    for (const id of ids) await client.startOrchestration(id, 'nobody registers this');
    for (let round = 0; round < 20; round += 1) {
      const started = [`of round ${round}`, `of round ${round} too`];
      const send = async (user: PgClient, order: readonly string[], starts: readonly string[]): Promise<void> => {
        await user.query('BEGIN');
        for (const id of order) await client.within(user).raiseEvent(id, 'go', round);
        for (const id of starts)
          await client.within(user).startOrchestration(id, 'nobody registers this', null, { onConflict: 'return' });
        await user.query('COMMIT');
      };
      await Promise.all([send(one, ids, started), send(two, ids.toReversed(), started.toReversed())]);
    }
    for (const id of ids) expect((await client.facts(id)).unread.messages).toBe(40);
    expect((await client.checkStore()).findings).toEqual([]);
  });

  // Q5.
  it('an id that comes into use after the check fails the commit', async () => {
    const [user, other] = [await connect(), await connect()];
    const [id, kept] = [store.id(), store.id()];
    await user.query('BEGIN');
    await client.within(user).startOrchestration(id, 'echo', 'late');
    await client.startOrchestration(id, 'nobody registers this', 'early');
    expect(await rejection(user.query('COMMIT'))).toMatchObject({
      code: '23505',
      message: `an instance with the id '${id}' exists already`,
      hint: expect.stringContaining('onConflict'),
    });
    expect(await client.getStatus(id, { input: true })).toMatchObject({ input: 'early' });
    await user.query('BEGIN');
    await client.within(user).startOrchestration(kept, 'echo', 'late', { onConflict: 'return' });
    await client.within(other).startOrchestration(kept, 'nobody registers this', 'early');
    await user.query('COMMIT');
    expect(await client.getStatus(kept, { input: true })).toMatchObject({ input: 'early' });
  });

  it('a message to an instance that has ended since is dropped, and one over the limit fails the commit', async () => {
    const user = await connect();
    const [id, full] = [store.id(), store.id()];
    for (const one of [id, full]) await client.startOrchestration(one, 'nobody registers this');
    await user.query('BEGIN');
    await client.within(user).raiseEvent(id, 'go');
    await client.terminateInstance(id);
    await user.query('COMMIT');
    expect(
      query(store.address, `SELECT seq FROM messages JOIN instances ON key = instance_key WHERE id = '${id}'`),
    ).toEqual([]);
    const small = new StoreClient(store.provider, { limits: { mailboxMessages: 1 } }).within(user);
    await user.query('BEGIN');
    await small.raiseEvent(full, 'go');
    await small.raiseEvent(full, 'go');
    expect(await rejection(user.query('COMMIT'))).toMatchObject({ code: '54000', message: /limit of 1 unread/ as any });
    expect((await client.facts(full)).unread.messages).toBe(0);
  });

  // Q5.
  it('a queue that is deleted after the check fails the commit', async () => {
    const user = await connect();
    const [id, kept] = [store.id(), store.id()];
    await client.queues.set('gone', {});
    await client.startOrchestration(kept, 'nobody registers this');
    for (const level of ['READ COMMITTED', 'REPEATABLE READ']) {
      await user.query(`BEGIN ISOLATION LEVEL ${level}`);
      await client.within(user).startOrchestration(store.id(), 'echo');
      await client.within(user).startOrchestration(id, 'echo', 1, { queue: 'gone', key: 'a' });
      await client.queues.delete('gone');
      const error = await rejection(user.query('COMMIT'));
      if (level === 'READ COMMITTED')
        expect(error).toMatchObject({
          code: '42704',
          message: `instance '${id}' cannot be started: there is no queue 'gone'`,
          hint: expect.stringContaining('client.queues.set'),
        });
      else expect(error).toMatchObject({ code: '40001' });
      expect(await client.getStatus(id)).toBeNull();
      await client.queues.set('gone', {});
    }
    expect((await client.checkStore()).findings).toEqual([]);
  });

  it('a transaction of any isolation starts in a queue that is at work', async () => {
    const user = await connect();
    await store.start((runtime) => runtime.register(echo));
    await client.queues.set('busy', { rate: { limit: 1_000, per: '1h' }, fairness: 'key' });
    for (const level of ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']) {
      const [first, second] = [store.id(), store.id()];
      await user.query(`BEGIN ISOLATION LEVEL ${level}`);
      await client.within(user).start(echo, 1, { id: first, queue: 'busy', key: 'a' });
      // The row of the queue is updated by each admission, and here by one after the snapshot of the transaction.
      await client.start(echo, 2, { id: second, queue: 'busy', key: 'a' });
      expect(await result(second)).toBe(2);
      await user.query('COMMIT');
      expect(await result(first)).toBe(1);
    }
  });

  it('transactions that commit at once put their starts into one queue, with turns for the keys', async () => {
    const pairs = [await connect(), await connect(), await connect()];
    await client.queues.set('shared', { fairness: 'key' });
    for (let round = 0; round < 10; round += 1) {
      const begin = async (user: PgClient, n: number): Promise<void> => {
        await user.query('BEGIN');
        for (const id of [0, 1, 2])
          await client.within(user).startOrchestration(`shared ${round} ${n} ${id}`, 'nobody registers this', 1, {
            queue: 'shared',
            key: `key ${n}`,
          });
      };
      await Promise.all(pairs.map(begin));
      await Promise.all(pairs.map((user) => user.query('COMMIT')));
    }
    expect((await client.queues.get('shared'))?.waiting).toBe(90);
    for (const n of [0, 1, 2]) {
      const rows = query(store.address, `SELECT turn FROM queue_places WHERE queue_key = 'key ${n}' ORDER BY turn`);
      expect(rows.map(({ turn }) => Number(turn))).toEqual(Array.from({ length: 30 }, (_, turn) => turn + 1));
    }
    expect((await client.checkStore()).findings).toEqual([]);
  });

  it('a delay counts from the commit on', async () => {
    const user = await connect();
    const id = store.id();
    await user.query('BEGIN');
    await client.within(user).startOrchestration(id, 'nobody registers this', 1, { delay: '1h' });
    await user.query('SELECT pg_sleep(0.05)');
    const { rows } = await user.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now');
    await user.query('COMMIT');
    const [row] = query(store.address, `SELECT wake_at FROM instances WHERE id = '${id}'`);
    expect(Number(row?.wake_at)).toBeGreaterThanOrEqual(Math.floor(rows[0].now) + 3_600_000);
  });

  // Q3. Workers would also notice the commit by themselves, within a second.
  it('the commit notifies the workers', async () => {
    const [user, listener] = [await connect(), await connect()];
    const [id, owned] = [store.id(), store.id()];
    for (const one of [id, owned]) await client.startOrchestration(one, 'nobody registers this');
    const { rows } = await user.query("SELECT prosrc FROM pg_proc WHERE oid = 'carry_out_requests'::regproc");
    const [, channel] = /pg_notify\('(perdure_[\da-f]{16})'/.exec(rows[0].prosrc) ?? [];
    const heard: string[] = [];
    listener.on('notification', ({ payload = '' }) => heard.push(payload));
    await listener.query(`LISTEN ${channel}`);
    await user.query('BEGIN');
    await client.within(user).raiseEvent(id, 'b');
    await user.query('COMMIT');
    // The owner of an instance is told by name. Here it is one that exists in this transaction alone.
    await user.query(`BEGIN; UPDATE instances SET owner = 'w-1' WHERE id = '${owned}'`);
    await client.within(user).raiseEvent(owned, 'b');
    await user.query(`SET CONSTRAINTS ALL IMMEDIATE; UPDATE instances SET owner = NULL WHERE id = '${owned}'; COMMIT`);
    await client.queues.set('told', {});
    await client
      .within(user)
      .startOrchestration(store.id(), 'nobody registers this', 1, { queue: 'told', delay: '1d' });
    await listener.query('SELECT');
    expect(heard.filter((payload) => payload.startsWith('sql '))).toEqual(['sql w', 'sql m w-1', 'sql w']);
  });

  // Q4. No commit leaves a row while the trigger is there.
  it('a check finds a request that was not carried out', async () => {
    const user = await connect();
    await user.query(`ALTER TABLE requests DISABLE TRIGGER requests_carried_out;
      INSERT INTO requests (kind, instance) VALUES ('Event', 'left');
      ALTER TABLE requests ENABLE TRIGGER requests_carried_out`);
    expect((await client.checkStore()).findings).toMatchObject([
      { rule: 'orphan', detail: "a request for instance 'left' was committed and not carried out" },
    ]);
    await user.query('DELETE FROM requests');
    expect((await client.checkStore()).findings).toEqual([]);
  });

  it('a role with USAGE and EXECUTE alone makes requests and reads no table', async () => {
    const owner = await connect();
    const role = `perdure_test_${process.pid}`;
    await owner.query(`CREATE ROLE ${role}; SET ROLE ${role}`);
    await owner.query('BEGIN');
    await client.queues.set('of a role', { concurrency: 1 });
    const options = { queue: 'of a role', key: 'a', delay: '1ms', timeout: '1h' } as const;
    const call = () => client.within(owner).startOrchestration(id, 'echo', 1, options);
    const id = store.id();
    expect(await rejection(call())).toMatchObject({ name: 'ProviderError', message: /EXECUTE/ as any });
    await owner.query('ROLLBACK; RESET ROLE');
    await owner.query(`GRANT USAGE ON SCHEMA ${quoted} TO ${role}`);
    await owner.query(`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ${quoted} TO ${role}; SET ROLE ${role}`);
    await store.start((runtime) => runtime.register(echo));
    await owner.query('BEGIN');
    await call();
    await owner.query('COMMIT');
    expect(await result(id)).toBe(1);
    expect((await owner.query('SELECT status($1)', [id])).rows[0].status).toMatchObject({ status: 'Completed' });
    for (const sql of [
      'SELECT FROM instances',
      'SELECT FROM queues',
      'SELECT FROM requests',
      "INSERT INTO requests (kind) VALUES ('Start')",
    ])
      expect(await rejection(owner.query(sql))).toMatchObject({ code: '42501' });
    await owner.query(`RESET ROLE; DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  it('plain SQL starts, sends and reads, and its errors have a code and a hint', async () => {
    const user = await connect();
    await store.start((runtime) => runtime.register(echo, steps));
    const [id, other] = [store.id(), store.id()];
    await user.query('SELECT start($1, $2, $3, $4)', [
      id,
      'steps',
      '{"a": [1]}',
      '{"tags": {"b": "2"}, "priority": -7, "version": null}',
    ]);
    await user.query("SELECT raise_event($1, 'a', '{\"b\": 2}'), raise_event(id => $1, name => 'b')", [id]);
    expect(await result(id)).toEqual([{ b: 2 }, undefined]);
    const { rows } = await user.query('SELECT status($1), status($2) AS none', [id, other]);
    expect(rows[0].none).toBeNull();
    const status = await client.getStatus(id);
    expect(rows[0].status).toEqual({
      id,
      name: 'steps',
      version: steps.version,
      status: 'Completed',
      executionId: 1,
      outputEncoded: expect.stringMatching(/^~/),
      customStatus: 'b',
      customStatusVersion: status?.customStatusVersion,
      createdAt: status?.createdAt.toISOString(),
      updatedAt: status?.updatedAt.toISOString(),
      completedAt: status?.completedAt?.toISOString(),
      priority: -7,
      tags: { b: '2' },
    });
    await user.query("SELECT start($1, 'echo', '[1]')", [other]);
    expect(await result(other)).toEqual([1]);
    for (const [sql, code, message] of [
      ["start('', 'echo')", '22023', 'the instance id must not be empty'],
      ["start(NULL, 'echo')", '22023', 'the instance id must not be NULL'],
      ["start('a', repeat('x', 257))", '22023', 'the orchestration name must have at most 256 characters, got 257'],
      ["start('a', 'echo', NULL, '[]')", '22023', 'the options must be a JSON object, got a JSON array'],
      ["start('a', 'echo', NULL, '{\"tag\": 1}')", '22023', "the option 'tag' is unknown; the options are version, "],
      ["start('a', 'echo', NULL, '{\"tags\": [\"a\"]}')", '22023', "the option 'tags' must be an object of strings"],
      ["start('a', 'echo', NULL, '{\"priority\": 1.5}')", '22023', "the option 'priority' must be a whole number"],
      ["start('a', 'echo', to_jsonb(repeat('x', 2097152)))", '54000', 'the input takes 2097154 bytes, over the limit'],
      [`start('${id}', 'echo')`, '23505', `an instance with the id '${id}' exists already`],
      ["raise_event('absent', 'go')", 'P0002', "there is no instance with the id 'absent'"],
      [`enqueue_event('${id}', 'go')`, '55000', `instance '${id}' has ended (Completed) and takes no more messages`],
      [`raise_event('${id}', NULL)`, '22023', 'the event name must not be NULL'],
      ["cancel('absent')", 'P0002', "there is no instance with the id 'absent'"],
    ] as const) {
      const error = await rejection(user.query(`SELECT ${sql}`));
      expect({ sql, ...error, message: error.message }).toMatchObject({ code, hint: expect.any(String) });
      expect(error.message).toContain(message);
    }
    expect(await client.getStatus('a')).toBeNull();
  });

  it('transactions of other libraries are known by their shape, and their pools are refused', async () => {
    await store.start((runtime) => runtime.register(echo));
    const pool = new Pool({ connectionString: POSTGRES_URL, max: 2 });
    const sql = postgres(POSTGRES_URL, { max: 2 });
    const kysely = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
    await client.queues.set('of libraries', { concurrency: 1 });
    const options = { queue: 'of libraries', key: "it's", startAt: new Date(0), timeout: '1h' } as const;
    const start = (tx: object, id: string) => client.within(tx).startOrchestration(id, 'echo', "it's", options);
    const lost = new Error('rolled back');
    const runs: Record<string, (work: (tx: object) => Promise<void>) => Promise<unknown>> = {
      drizzle: (work) => drizzle(pool).transaction((tx) => work(tx)),
      'drizzle within a savepoint': (work) => drizzle(pool).transaction((tx) => tx.transaction((inner) => work(inner))),
      'drizzle on postgres.js': (work) => drizzlePostgresJs(sql).transaction((tx) => work(tx)),
      'postgres.js': (work) => sql.begin((tx) => work(tx)),
      kysely: (work) => kysely.transaction().execute((tx) => work(tx)),
    };
    for (const [name, run] of Object.entries(runs)) {
      await run((tx) => start(tx, name));
      expect(await result(name)).toBe("it's");
      const work = async (tx: object): Promise<void> => {
        await start(tx, `lost by ${name}`);
        throw lost;
      };
      expect(await rejection(run(work))).toBe(lost);
      expect(await client.getStatus(`lost by ${name}`)).toBeNull();
      const error = await rejection(run((tx) => start(tx, name)));
      expect(error).toMatchObject({ name: 'InstanceExistsError', instanceId: name });
    }
    for (const given of [pool, sql, drizzle(pool), drizzlePostgresJs(sql), kysely])
      expect(() => client.within(given)).toThrow(TypeError);
    await kysely.destroy();
    await sql.end();
  });

  it('a transaction of another database is refused', async () => {
    expect(() => client.within(new Database(':memory:'))).toThrow(
      /the transaction is of a SQLite database, and the store of this client is on a Postgres database/,
    );
    const user = await connect();
    const elsewhere = await PostgresProvider.connect(POSTGRES_URL, { schema: `${SCHEMA} 2` });
    await user.query(`DROP SCHEMA ${escapeIdentifier(`${SCHEMA} 2`)} CASCADE`);
    const error = await rejection(new StoreClient(elsewhere).within(user).startOrchestration('a', 'echo'));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain(`the schema ${escapeIdentifier(`${SCHEMA} 2`)}`);
    expect(error.cause).toMatchObject({ code: '3F000' });
    await elsewhere.close();
  });
});

// Requests in a transaction of a SQLite file: synchronous transactions, other languages, and two copies of SQLite in
// one process.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import { drizzle } from 'drizzle-orm/better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { type Client, defineOrchestration, InstanceExistsError } from 'perdure';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { hasProgram } from '../../support/programs.ts';
import { SHARED_STORES, type SqliteAddress } from '../../support/providers.ts';
import { query } from '../../support/rows.ts';
import { SOON, useStore } from '../../support/store.ts';

const echo = defineOrchestration('echo', function* (_, input: unknown) {
  return input;
});
const wait = defineOrchestration('wait', function* (ctx) {
  return [yield* ctx.waitForEvent('go'), yield* ctx.dequeueEvent('mail')];
});

describe('on SQLite', () => {
  const store = useStore(SHARED_STORES.find(({ name }) => name.includes('SQLite')) as (typeof SHARED_STORES)[number]);
  let client: Client;
  let user: Database.Database;
  let path: string;

  beforeEach(() => {
    client = store.client;
    path = (store.address as SqliteAddress).path;
    user = new Database(path);
  });

  afterEach(() => user.close());

  const result = (id: string): Promise<unknown> => client.handle(id).result({ timeout: SOON });

  it('a request is made within a synchronous transaction, and its error rolls it back', async () => {
    await store.start((runtime) => runtime.register(echo));
    user.exec('CREATE TABLE orders (id TEXT)');
    const [one, two] = [store.id(), store.id()];
    const place = user.transaction((...ids: string[]) => {
      for (const id of ids) {
        user.prepare('INSERT INTO orders VALUES (?)').run(id);
        void client.within(user).start(echo, id, { id });
      }
    });
    place(one);
    expect(await result(one)).toBe(one);
    expect(() => place(two, one)).toThrow(InstanceExistsError);
    expect(user.prepare('SELECT id FROM orders').pluck().all()).toEqual([one]);
    expect(await client.getStatus(two)).toBeNull();
  });

  // Each copy took its locks as if the other one were not there. The first one to close the file deleted the log that
  // the other one wrote to, so that no other process saw its commits.
  it('another copy of SQLite in this process takes turns with the store, and may close the file', async () => {
    const [during, after] = [store.id(), store.id()];
    user.exec('BEGIN IMMEDIATE');
    let isWritten = false;
    const started = client.startOrchestration(during, 'nobody registers this').then(() => (isWritten = true));
    for (const id of ['a', 'b', 'c']) await client.within(user).startOrchestration(id, 'nobody registers this');
    expect(await client.getStatus(during)).toBeNull();
    expect(isWritten).toBe(false);
    user.exec('COMMIT');
    await started;
    user.close();
    expect(existsSync(`${path}-wal`)).toBe(true);
    await client.startOrchestration(after, 'nobody registers this');
    const rows = query(store.address, 'SELECT id FROM instances');
    expect(rows.map(({ id }) => id)).toEqual(expect.arrayContaining(['a', 'b', 'c', during, after]));
    expect(query(store.address, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    user = new Database(path);
  });

  it('transactions of other libraries are known by their shape', async () => {
    await store.start((runtime) => runtime.register(echo));
    await client.queues.set('of libraries', { concurrency: 1, fairness: 'key' });
    const options = { queue: 'of libraries', key: "it's", startAt: new Date(0), timeout: '1h' } as const;
    const kysely = new Kysely<unknown>({ dialect: new SqliteDialect({ database: user }) });
    await kysely.transaction().execute((tx) => client.within(tx).startOrchestration('kysely', 'echo', 1, options));
    drizzle(user).transaction((tx) => void client.within(tx).startOrchestration('drizzle', 'echo', 2, options));
    expect([await result('kysely'), await result('drizzle')]).toEqual([1, 2]);
    user.transaction(() => void client.within(user).startOrchestration('better-sqlite3', 'echo', 3, options))();
    expect(await result('better-sqlite3')).toBe(3);
    expect(() =>
      drizzle(user).transaction((tx) => void client.within(tx).startOrchestration('drizzle', 'echo')),
    ).toThrow(InstanceExistsError);
  });

  it('a database without the views is refused', async () => {
    const other = new Database(':memory:');
    expect(() => client.within(other).cancelInstance('a')).toThrow(/does not have the views of Perdure/);
    other.close();
  });

  it('plain SQL starts, sends and reads, and refuses wrong values', async () => {
    await store.start((runtime) => runtime.register(wait));
    const id = store.id();
    user.exec(`INSERT INTO perdure_start VALUES ('${id}', 'wait', NULL, '{"tags": {"a": "1"}, "priority": 2}');
      INSERT INTO perdure_raise_event VALUES ('${id}', 'go', '{"b": [1]}');
      INSERT INTO perdure_enqueue_event (id, queue) VALUES ('${id}', 'mail')`);
    expect(await result(id)).toEqual([{ b: [1] }, undefined]);
    const row = user.prepare('SELECT * FROM perdure_status WHERE id = ?').get(id);
    expect(row).toMatchObject({ status: 'Completed', priority: 2, tags: '{"a":"1"}', output: expect.any(String) });
    for (const [sql, message] of [
      ["perdure_start (id, name) VALUES ('', 'x')", /the instance id must be a text/],
      ["perdure_start (id, name) VALUES (5, 'x')", /the instance id must be a text/],
      ["perdure_start (id) VALUES ('x')", /the orchestration name must be a text/],
      ["perdure_start (id, name, input) VALUES ('x', 'x', '{')", /the input must be JSON text/],
      ["perdure_start (id, name, input) VALUES ('x', 'x', x'31')", /the input must be JSON text/],
      ["perdure_start (id, name, options) VALUES ('x', 'x', '[]')", /the options must be a JSON object/],
      ["perdure_start (id, name, options) VALUES ('x', 'x', '{\"a\":1}')", /an option is unknown; the options are/],
      ["perdure_start (id, name, options) VALUES ('x', 'x', '{\"priority\":1.5}')", /the option priority must be/],
      ["perdure_start (id, name, options) VALUES ('x', 'x', '{\"tags\":{\"a\":1}}')", /the option tags must be/],
      ["perdure_start (id, name, options) VALUES ('x', 'x', '{\"version\":\"\"}')", /the option version must be/],
      ["perdure_start (id, name, options) VALUES ('x', 'x', '{\"onConflict\":\"x\"}')", /the option onConflict must/],
      ["perdure_start (id, name, options) VALUES ('x', 'x', '{\"startAt\":\"2026-02-30T10:00Z\"}')", /startAt must be/],
      ["perdure_start (id, name, options) VALUES ('x', 'x', '{\"startAt\":\"2026-02-03T25:00Z\"}')", /startAt must be/],
      [
        "perdure_start (id, name, input) VALUES ('x', 'x', json_quote(hex(zeroblob(1048577))))",
        /more than 2097152 bytes/,
      ],
      [`perdure_start (id, name) VALUES ('${id}', 'x')`, /an instance with this id exists already/],
      ["perdure_raise_event VALUES ('absent', 'go', NULL)", /there is no instance with this id/],
      [`perdure_raise_event VALUES ('${id}', 'go', NULL)`, /the instance has ended/],
      [`perdure_enqueue_event VALUES ('${id}', NULL, NULL)`, /the name of an event or a queue must be/],
      ["perdure_cancel (id) VALUES ('absent')", /there is no instance with this id/],
    ] as const)
      for (const insert of ['INSERT', 'INSERT OR IGNORE', 'INSERT OR REPLACE'])
        expect(() => user.exec(`${insert} INTO ${sql}`)).toThrow(message);
    expect(await client.getStatus('x')).toBeNull();
  });

  it('Python starts in its transaction', async (context) => {
    // Python is no tool of the tests, and most machines have it.
    if (!hasProgram('python3', ['-c', 'import sqlite3'])) return context.skip('there is no python3 with sqlite3');
    await store.start((runtime) => runtime.register(echo));
    const program = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("CREATE TABLE invoices (id TEXT)")
with db:
    db.execute("INSERT INTO invoices VALUES (?)", ("7",))
    start = ("python", "echo", json.dumps({"n": "é"}))
    db.execute("INSERT INTO perdure_start (id, name, input) VALUES (?, ?, ?)", start)
try:
    with db:
        db.execute("INSERT INTO perdure_start (id, name) VALUES ('lost', 'echo')")
        db.execute("INSERT INTO perdure_start (id, name) VALUES ('python', 'echo')")
except sqlite3.IntegrityError as error:
    print(error)
`;
    const printed = execFileSync('python3', ['-c', program, path], { encoding: 'utf8' });
    expect(printed).toBe('perdure: an instance with this id exists already\n');
    expect(await result('python')).toEqual({ n: 'é' });
    expect(await client.getStatus('lost')).toBeNull();
  });
});

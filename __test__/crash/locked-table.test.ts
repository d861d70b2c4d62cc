// A statement waits at the server for the lock of a table, as during an index build, and its connection breaks. The
// server does not notice, and executes the statement when it gets the lock. By then the call had been resolved as "not
// written" and was repeated. So an acknowledged event arrived twice, and a start that its own process had dropped
// belonged to that process and stood still for ever.

import { Client, PostgresProvider, type Runtime } from 'perdure';
import { Client as PgClient } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { POSTGRES_URL, type PostgresAddress, postgresAt } from '../support/providers.ts';
import { Proxy } from '../support/proxy.ts';
import { SOON, useStore } from '../support/store.ts';
import { insist } from './callers.ts';

/** The table locks of an index build and of a migration. */
const LOCKS = ['SHARE', 'ACCESS EXCLUSIVE'] as const;

describe('on Postgres', () => {
  const store = useStore(postgresAt(POSTGRES_URL));
  // Two connections: within a transaction, `pg_stat_activity` stays as it was at its first reading.
  const [admin, holder] = [
    new PgClient({ connectionString: POSTGRES_URL }),
    new PgClient({ connectionString: POSTGRES_URL }),
  ];
  beforeAll(() => Promise.all([admin.connect(), holder.connect()]));
  afterAll(() => Promise.all([admin.end(), holder.end()]));
  let proxy: Proxy;
  let provider: PostgresProvider;
  let client: Client;
  let runtime: Runtime;
  beforeEach(async () => {
    const way = await Proxy.to(POSTGRES_URL);
    proxy = way.proxy;
    // A server that receives the cancellation drops the waiting statement. A server that does not receive it must not
    // execute the statement later either.
    proxy.losesCancels = true;
    provider = await PostgresProvider.connect(way.url, {
      schema: (store.address as PostgresAddress).schema,
      // Statements of the runtime wait for the table, too. They must not keep all connections from the call.
      poolSize: 5,
    });
    client = new Client(provider);
    runtime = await store.start(
      (it) =>
        it
          .registerOrchestration('counts', function* (ctx) {
            let count = 0;
            while ((yield ctx.waitForEvent('tick')) !== 'end') count += 1;
            return count;
          })
          .registerOrchestration('greets', function* (ctx, name) {
            return `hello ${yield ctx.scheduleActivity('name', name)}`;
          })
          .registerActivity('name', async (_, name) => name),
      {},
      provider,
    );
  });
  afterEach(async () => {
    await runtime.shutdown();
    await provider.close();
    await proxy.close();
  });

  /** Calls, and breaks the connection while the statement of the call waits for a table. */
  async function callBehindLock(lock: string, call: () => Promise<unknown>): Promise<void> {
    const { schema } = store.address as PostgresAddress;
    // The statements for one message, for one start, and for a turn that a message wakes.
    const waiting = async () => {
      const sql =
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' " +
        "AND position($1 IN query) > 0 AND query ~ '^WITH (told|claimed|registered)'";
      return (await admin.query(sql, [schema])).rows.map(({ pid }) => pid as number);
    };
    await holder.query(`BEGIN; LOCK TABLE "${schema}".instances IN ${lock} MODE`);
    const called = insist(call);
    try {
      await eventually(20_000, 'the statement waits', async () => (await waiting()).length > 0);
      const first = await waiting();
      proxy.cut();
      // The statement is sent again. It waits behind the abandoned one, unless the server has noticed the broken
      // connection.
      await eventually(20_000, 'it waits again', async () => (await waiting()).some((pid) => !first.includes(pid)));
    } finally {
      await holder.query('COMMIT');
      await called;
    }
    await eventually(20_000, 'the server is through', async () => (await waiting()).length === 0);
  }

  it.each(LOCKS)('an event that waited for a table in %s mode comes once', async (lock) => {
    const id = store.id();
    await client.startOrchestration(id, 'counts');
    await client.raiseEvent(id, 'tick', 1);
    await callBehindLock(lock, () => client.raiseEvent(id, 'tick', 2));
    await client.raiseEvent(id, 'tick', 'end');
    expect((await client.waitForOrchestration(id, SOON)).output).toBe(2);
  });

  describe.each(LOCKS)('a start that waited for a table in %s mode', (lock) => {
    it.each([undefined, 'return'] as const)('is acknowledged once, and runs (onConflict: %s)', async (onConflict) => {
      const [first, id] = [store.id(), store.id()];
      const start = (which: string) =>
        client.startOrchestration(which, 'greets', which, onConflict === undefined ? {} : { onConflict });
      // This prepares the statement of a start, so that later the statement itself waits and not its preparation.
      await start(first);
      expect((await client.waitForOrchestration(first, SOON)).output).toBe(`hello ${first}`);
      await callBehindLock(lock, () => start(id));
      expect((await client.waitForOrchestration(id, SOON)).output).toBe(`hello ${id}`);
    });
  });
});

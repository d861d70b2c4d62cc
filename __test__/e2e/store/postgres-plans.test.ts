// The Postgres store reads only the rows that it needs, also if the server has analyzed empty tables.

import { randomUUID } from 'node:crypto';
import {
  Client,
  defineActivity,
  defineEntity,
  defineOrchestration,
  type OrchestrationContext,
  PostgresProvider,
  Runtime,
} from 'perdure';
import { escapeIdentifier, Client as PgClient } from 'pg';
import { describe, expect, it } from 'vitest';

import { eventually } from '../../support/async.ts';
import { POSTGRES_URL, STORES } from '../../support/providers.ts';

/** Most rows of one index, or of a table that is read whole, that all statements read for one parent of the load. */
const READ_MAX = 200;

const beat = defineActivity('beat', async (ctx, n: number) => {
  ctx.heartbeat(n);
  return n;
});
const far = defineActivity(
  'far',
  async (ctx, n: number) => {
    ctx.heartbeat(n);
    return n;
  },
  { queue: 'far' },
);
const limited = defineActivity('limited', async (_ctx, n: number) => n, {
  queue: 'line',
  key: (n) => `${n % 10}`,
});
const count = defineEntity('count', {
  initial: () => ({ sum: 0 }),
  handlers: {
    *add(ctx, by: number) {
      ctx.state.sum += by;
      return ctx.state.sum;
    },
  },
});
const child = defineOrchestration('child', function* (ctx, n: number) {
  yield* ctx.sleep('1ms');
  ctx.traceInfo('awake');
  return yield* ctx.call(beat, n);
});
const waiter = defineOrchestration('waiter', function* (ctx) {
  yield* ctx.waitForEvent('go');
});
const parent = defineOrchestration('parent', function* (ctx: OrchestrationContext, n: number) {
  ctx.state.set('step', 'begun');
  const results = yield* ctx.all([
    ctx.callOrchestration(child, n),
    ctx.call(far, n),
    ctx.call(far, n, { session: `session ${n % 20}` }),
    ctx.call(limited, n),
    ctx.entity(count, `key ${n % 50}`).add(1),
  ]);
  ctx.stream('results').write(results);
  ctx.state.set('step', 'ended');
});

describe.skipIf(!STORES.some(({ name }) => name === 'Postgres'))('when the tables were analyzed while empty', () => {
  it('reads no more rows for each instance when there are many', async () => {
    const name = `perdure test ${randomUUID()}`;
    const url = new URL(POSTGRES_URL);
    url.searchParams.set('application_name', name);
    const server = new PgClient({ connectionString: POSTGRES_URL });
    await server.connect();
    const ask = async (sql: string) => (await server.query(sql, [name])).rows;
    try {
      // The tables have pages from now on, and most of them have no rows.
      await run(url.href, name, 20);
      for (const { tablename } of await ask('SELECT tablename FROM pg_tables WHERE schemaname = $1')) {
        await server.query(`ANALYZE ${escapeIdentifier(name)}.${escapeIdentifier(tablename)}`);
      }
      const read = async () => {
        // A backend that is gone has reported what it read.
        await eventually(
          20_000,
          'no connection is left',
          async () => (await ask('SELECT FROM pg_stat_activity WHERE application_name = $1')).length === 0,
        );
        return new Map<string, number>(
          (await ask(READ)).map(({ of, rows }: { of: string; rows: string }) => [of, Number(rows)]),
        );
      };
      const before = await read();
      const parents = 500;
      await run(url.href, name, parents);
      const each = [...(await read())].map(([of, rows]) => [of, (rows - (before.get(of) ?? 0)) / parents] as const);
      expect(each.length).toBeGreaterThan(60);
      expect(Object.fromEntries(each.filter(([, rows]) => rows > READ_MAX))).toEqual({});
    } finally {
      await server.query(`DROP SCHEMA IF EXISTS ${escapeIdentifier(name)} CASCADE`);
      await server.end();
    }
  });
});

const READ = `SELECT indexrelname AS of, idx_tup_fetch AS rows FROM pg_stat_user_indexes WHERE schemaname = $1
UNION ALL SELECT relname || ', read whole', seq_tup_read FROM pg_stat_user_tables WHERE schemaname = $1`;

/** Runs as many parents, and as many instances that wait for an event, all at once. */
async function run(url: string, schema: string, parents: number): Promise<void> {
  const open = () => PostgresProvider.connect(url, { schema, poolSize: 4 });
  const providers = [await open(), await open()];
  const runtimes = providers.map((provider, n) => {
    const runtime = new Runtime(provider, {
      logLevel: 'silent',
      ...(n > 0 ? { queues: ['far', 'line'] } : { keepLogs: { level: 'info' } }),
    });
    if (n === 0) runtime.register(beat, child, parent, waiter, count);
    else runtime.register(far, limited);
    return runtime;
  });
  for (const runtime of runtimes) await runtime.start();
  const client = new Client(providers[0]!);
  await client.queues.set('line', { concurrency: 50, perKey: { concurrency: 20 }, fairness: 'key' });
  const numbers = Array.from({ length: parents }, (_, n) => n);
  const running = numbers.map((n) => client.start(parent, n));
  const queued = numbers.map((n) => client.start(child, n, { queue: 'line', key: `${n % 10}` }));
  const waiting = await Promise.all(numbers.map(() => client.start(waiter)));
  for (const { id } of waiting) void client.raiseEvent(id, 'go', 1);
  const all = [...(await Promise.all([...running, ...queued])), ...waiting];
  await Promise.all(all.map((handle) => handle.result()));
  await client.prune({ limit: all.length });
  for (const runtime of runtimes) await runtime.shutdown();
  for (const provider of providers) await provider.close();
}

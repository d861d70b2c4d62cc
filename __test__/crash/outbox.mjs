// A shop: see outbox.test.ts. It writes orders and the starts of their instances in transactions of its own, and runs
// the instances. Some transactions it rolls back, and in some it dies.

import Database from 'better-sqlite3';
import { Client, defineOrchestration, PostgresProvider, Runtime, SqliteProvider } from 'perdure';
import pg from 'pg';

import { seeded } from '../support/worker-parts.mjs';

const { address, from, to, seed } = JSON.parse(process.argv[2]);
const isSqlite = address.kind === 'sqlite';

const random = seeded(seed);

const order = defineOrchestration('order', function* (ctx, number) {
  return number + (yield* ctx.waitForEvent('more'));
});

const provider = isSqlite
  ? await SqliteProvider.open(address.path)
  : await PostgresProvider.connect(address.url, { schema: address.schema, poolSize: 3 });
const runtime = new Runtime(provider, { logLevel: 'silent' });
runtime.register(order);
await runtime.start();
const client = new Client(provider);
const user = isSqlite ? new Database(address.path, { timeout: 60_000 }) : new pg.Client(address.url);
if (!isSqlite) await user.connect();
const run = async (sql) => (isSqlite ? user.exec(sql) : user.query(sql));
const tell = (message) => new Promise((resolve) => process.send(message, resolve));
const die = () => process.kill(process.pid, 'SIGKILL');
if (!isSqlite) await run(`SET search_path TO ${pg.escapeIdentifier(address.schema)}`);

for (let number = from; number < to; ) {
  const end = Math.min(to, number + 1 + Math.floor(random() * 8));
  await tell({ type: 'at', number: end });
  await run(isSqlite ? 'BEGIN IMMEDIATE' : 'BEGIN');
  for (; number < end; number += 1) {
    await run(`INSERT INTO orders VALUES (${number})`);
    const place = number % 2 === 0 ? {} : { queue: 'orders', key: `customer ${number % 7}`, delay: number % 3 };
    await client.within(user).start(order, number, { id: `order-${number}`, ...place });
    await client.within(user).raiseEvent(`order-${number}`, 'more', 1);
    if (random() < 0.001) die();
  }
  const fate = random();
  if (fate < 0.2) {
    await run('ROLLBACK');
  } else if (fate < 0.21) {
    // The outcome of this commit is known to the database alone.
    void run('COMMIT');
    setTimeout(die, random() * 3);
    await new Promise(() => {});
  } else {
    await run('COMMIT');
  }
}
await (isSqlite ? user.close() : user.end());
await runtime.shutdown();
await provider.close();
await tell({ type: 'done' });
process.disconnect();

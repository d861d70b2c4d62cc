// A worker process that moves money between accounts in the user's database, by transactional steps or by plain
// activities. Runs in plain Node with the built package; transfers.test.ts starts and kills it.

import Database from 'better-sqlite3';
import { Client, defineActivity, defineOrchestration, Runtime } from 'perdure';
import { betterSqlite3Datasource } from 'perdure/better-sqlite3';
import { pgDatasource } from 'perdure/pg';
import { Pool } from 'pg';

import { openStore, pause, say } from '../support/worker-parts.mjs';

const { store, bank, isPlain, runtime: runtimeOptions } = JSON.parse(process.argv[2]);

/** How long a transfer is under way, within its transaction and after it, ms. */
const SLOW = 15;

/** Returns the activity's function: one transfer. */
function onPostgres() {
  const pool = new Pool({ connectionString: bank.url, options: `-c search_path=${bank.schema}`, max: 4 });
  pool.on('error', () => undefined);
  const move = async (tx, { id, from, to, cents }) => {
    await tx.query('update accounts set cents = cents - $2 where name = $1', [from, cents]);
    await tx.query('select pg_sleep($1)', [SLOW / 1_000]);
    await tx.query('update accounts set cents = cents + $2 where name = $1', [to, cents]);
    await tx.query('insert into movements (transfer) values ($1)', [id]);
    return cents;
  };
  if (!isPlain) return pgDatasource(pool).activity('move', move, { isolation: 'repeatable read' }).fn;
  return async (_, input) => {
    const tx = await pool.connect();
    try {
      await tx.query('begin');
      const output = await move(tx, input);
      await tx.query('commit');
      return output;
    } catch (error) {
      await tx.query('rollback');
      throw error;
    } finally {
      tx.release();
    }
  };
}

function onSqlite() {
  const database = new Database(bank.path, { timeout: 2_000 });
  const move = (tx, { id, from, to, cents }) => {
    tx.prepare('update accounts set cents = cents - ? where name = ?').run(cents, from);
    tx.prepare('update accounts set cents = cents + ? where name = ?').run(cents, to);
    tx.prepare('insert into movements (transfer) values (?)').run(id);
    return cents;
  };
  if (!isPlain) return betterSqlite3Datasource(database).activity('move', move).fn;
  return async (_, input) => database.transaction(() => move(database, input)).immediate();
}

const move = bank.kind === 'postgres' ? onPostgres() : onSqlite();
const transfer = defineActivity(
  'transfer',
  async (ctx, input) => {
    const output = await move(ctx, input);
    await pause(SLOW);
    return output;
  },
  { retry: { maxAttempts: 50, initialInterval: 50, maxInterval: 500 } },
);
const transfers = defineOrchestration('transfers', function* (ctx, input) {
  return yield* ctx.call(transfer, input);
});

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', ...runtimeOptions });
runtime.register(transfer, transfers);
runtime.on('error', () => undefined);
await runtime.start();
const client = new Client(provider);
process.on('message', async ({ type }) => {
  if (type !== 'shutdown') return;
  await runtime.shutdown({ timeout: '10s' });
  await provider.close();
  process.exit(0);
});
say({ type: 'ready', id: await client.storeId() });

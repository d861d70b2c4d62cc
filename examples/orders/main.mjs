// Orders on Postgres, processed by several workers, one of which is killed.
//
//   node examples/orders/main.mjs [--orders 30] [--workers 3] [--within 2s]
//     [--schema perdure_orders] [--folder .perdure/orders] [--remove]
//
// This process is the client. It starts the workers and the orders, approves four orders of five and lets the others
// expire, kills a worker in the middle, and checks the books at the end. It runs no order itself. Kill it and start it
// again: it continues.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client, PostgresProvider } from 'perdure';
import { attemptsOf, order, paymentsOf } from './orders.mjs';

const { values: options } = parseArgs({
  options: {
    orders: { type: 'string', default: '30' },
    workers: { type: 'string', default: '3' },
    within: { type: 'string', default: '2s' },
    schema: { type: 'string', default: 'perdure_orders' },
    folder: { type: 'string', default: '.perdure/orders' },
    remove: { type: 'boolean', default: false },
  },
});
const { schema, folder } = options;
const url = process.env.PERDURE_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';
mkdirSync(folder, { recursive: true });

const provider = await PostgresProvider.connect(url, { schema, poolSize: 3 });
const client = new Client(provider);

const workers = await Promise.all(
  Array.from({ length: Number(options.workers) }, (_, i) => startWorker(`worker-${i + 1}`)),
);
for (const { name, child } of workers) console.log(`${name} is at work (pid ${child.pid})`);

const handles = [];
let charged = 0;
const following = [];
for (let n = 1; n <= Number(options.orders); n += 1) {
  const handle = await client.start(
    order,
    { total: 10 + n, within: options.within },
    { id: `order-${n}`, onConflict: 'return' },
  );
  handles.push(handle);
  following.push(follow(handle, n));
  await delay(20); // orders arrive one after the other
}
await Promise.all(following);

const results = await Promise.all(handles.map((handle) => handle.result()));
await Promise.all(workers.map(stopWorker));
process.exitCode = check(results) ? 0 : 1;
await provider.close();
if (options.remove) await remove();

/** Follows an order: approves it, or lets it expire. */
async function follow(handle, n) {
  for await (const { status, customStatus } of client.statusChanges(handle.id)) {
    if (customStatus !== 'charged' || status !== 'Running') continue;
    charged += 1;
    if (charged === Math.ceil(options.orders / 3)) await killWorker();
    if (n % 5 !== 0) await approve(handle);
  }
}

async function approve(handle) {
  try {
    await handle.raiseEvent('approve', { by: 'ada' });
  } catch (error) {
    if ((await handle.status()).status !== 'Completed') throw error; // otherwise the order has just expired
  }
}

async function startWorker(name) {
  const child = fork(new URL('./worker.mjs', import.meta.url), [name, schema, folder]);
  await once(child, 'message');
  return { name, child };
}

async function killWorker() {
  const { name, child } = workers[1] ?? workers[0];
  if (child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  const before = charged; // the other workers go on meanwhile
  await gone;
  console.log(`kill -9 ${child.pid} (${name}), after ${before} orders were charged`);
}

async function stopWorker({ child }) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.disconnect();
  await gone;
}

/** Prints the work of each worker. Returns true if each order has ended once and was charged once. */
function check(results) {
  const attempts = readFileSync(attemptsOf(folder), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const payments = readdirSync(paymentsOf(folder)).filter((name) => name.endsWith('.json'));
  console.log();
  for (const { name } of workers) {
    const ran = (step) => attempts.filter((attempt) => attempt.worker === name && attempt.step === step).length;
    console.log(`${name}: ${ran('charge')} charges, ${ran('ship')} shipments`);
  }
  const keys = new Set(attempts.map(({ step, key }) => `${step} ${key}`));
  const count = (outcome) => results.filter((result) => result.outcome === outcome).length;
  console.log(`steps begun again because of the kill: ${attempts.length - keys.size}`);
  console.log(`${results.length} orders have ended: ${count('shipped')} shipped, ${count('expired')} expired`);
  console.log(`${payments.length} payments`);
  return payments.length === results.length && count('shipped') + count('expired') === results.length;
}

/** Removes the tables and the files. */
async function remove() {
  const { default: pg } = await import('pg');
  const server = new pg.Client({ connectionString: url });
  await server.connect();
  await server.query(`DROP SCHEMA ${server.escapeIdentifier(schema)} CASCADE`);
  await server.end();
  await rm(folder, { recursive: true });
}

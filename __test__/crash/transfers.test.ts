// 1 000 transfers between 100 accounts of the user's by worker processes that are killed, and that stand still for
// longer than their leases. Each transactional step happens once. The same program with a plain activity moves money
// twice, so the test can fail.

import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { betterSqlite3Datasource } from 'perdure/better-sqlite3';
import { pgDatasource } from 'perdure/pg';
import { Pool } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { Cluster, noCluster } from '../support/cluster.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES, type StoreAddress, temporaryFolder } from '../support/providers.ts';
import { type TestStore, useStore } from '../support/store.ts';
import { pause, seeded } from '../support/worker-parts.mjs';

const ACCOUNTS = 100;
const TRANSFERS = 1_000;
const CENTS = 1_000;
const WORKERS = 3;
const LEASE_MS = 1_500;
const RUNTIME = { lease: `${LEASE_MS}ms`, activityConcurrency: 3 };
const random = seeded(7);
const draw = (max: number): number => Math.floor(random() * max);
const program = join(root, '__test__/crash/bank.mjs');

/** The user's database: where the workers find it, and how the test reads it. */
interface Bank {
  readonly place: object;
  ask(sql: string): Promise<any[]>;
  close(): Promise<void>;
}

afterEach(async () => {
  await Promise.all([...Process.running].map((worker) => worker.kill()));
});

async function bankOf(address: StoreAddress): Promise<Bank> {
  return address.kind === 'postgres' ? postgresBank(address.url) : sqliteBank();
}

async function postgresBank(url: string): Promise<Bank> {
  const schema = `transfers_${randomUUID().slice(0, 8)}`;
  const pool = new Pool({ connectionString: url, options: `-c search_path=${schema}` });
  // The next statement tells what has happened to an idle connection.
  pool.on('error', () => undefined);
  await pool.query(`create schema ${schema}`);
  await pgDatasource(pool).install();
  return {
    place: { kind: 'postgres', url, schema },
    ask: async (sql) => (await pool.query(sql)).rows,
    close: async () => {
      await pool.query(`drop schema ${schema} cascade`);
      await pool.end();
    },
  };
}

async function sqliteBank(): Promise<Bank> {
  const folder = temporaryFolder();
  const path = join(folder, 'bank.db');
  const database = new Database(path, { timeout: 10_000 });
  database.pragma('journal_mode = wal');
  await betterSqlite3Datasource(database).install();
  return {
    place: { kind: 'sqlite', path },
    ask: async (sql) => {
      const statement = database.prepare(sql);
      return statement.reader ? statement.all() : (statement.run(), []);
    },
    close: async () => {
      database.close();
      rmSync(folder, { recursive: true });
    },
  };
}

type Worker = Process<{ type: string }, object>;

/** Fills the accounts, and starts all transfers. Returns the balances that are right. */
async function fill({ client }: TestStore, bank: Bank, prefix: string): Promise<Map<string, number>> {
  await bank.ask('create table if not exists accounts (name text primary key, cents bigint not null)');
  await bank.ask('create table if not exists movements (transfer text not null)');
  for (const table of ['accounts', 'movements', 'perdure_steps']) await bank.ask(`delete from ${table}`);
  const names = Array.from({ length: ACCOUNTS }, (_, n) => `a${n}`);
  await bank.ask(`insert into accounts values ${names.map((name) => `('${name}', ${CENTS})`).join(', ')}`);
  const expected = new Map(names.map((name) => [name, CENTS]));
  const starts: Promise<string>[] = [];
  for (let n = 0; n < TRANSFERS; n += 1) {
    const [from, to, cents] = [`a${draw(ACCOUNTS)}`, `a${draw(ACCOUNTS)}`, 1 + draw(9)];
    const input = { id: `${prefix}-${n}`, from, to, cents };
    expected.set(from, (expected.get(from) as number) - cents);
    expected.set(to, (expected.get(to) as number) + cents);
    starts.push(client.startOrchestration(input.id, 'transfers', input));
  }
  await Promise.all(starts);
  return expected;
}

/** Runs all transfers in worker processes that are killed and stopped. Returns the number of faults. */
async function run(
  store: TestStore,
  bank: Bank,
  isPlain: boolean,
  prefix: string,
  more?: (n: number) => Promise<boolean>,
): Promise<{ expected: Map<string, number>; faults: number }> {
  const before = (await store.client.stats()).instances.Completed;
  const expected = await fill(store, bank, prefix);
  const options = JSON.stringify({ store: store.address, bank: bank.place, isPlain, runtime: RUNTIME });
  const start = (): Worker => new Process('bank', [process.execPath, program, options]);
  const workers = Array.from({ length: WORKERS }, start);
  let faults = 0;
  while ((await store.client.stats()).instances.Completed < before + TRANSFERS) {
    const at = faults % WORKERS;
    const worker = workers[at] as Worker;
    await worker.said('ready');
    if ((await more?.(faults)) === true) {
      // The fault was one of another kind.
    } else if (faults % 4 === 3) {
      // It stands still for longer than its lease, and another worker takes its attempts over.
      worker.pause();
      await pause(2 * LEASE_MS);
      worker.resume();
    } else {
      await pause(300 + draw(500));
      await worker.kill();
      workers[at] = start();
    }
    faults += 1;
  }
  await Promise.all(workers.map((worker) => worker.kill()));
  return { expected, faults };
}

async function movements(bank: Bank): Promise<{ all: number; transfers: number }> {
  const [row] = await bank.ask('select count(*) as n, count(distinct transfer) as transfers from movements');
  return { all: Number(row.n), transfers: Number(row.transfers) };
}

async function expectRight(bank: Bank, expected: ReadonlyMap<string, number>): Promise<void> {
  const balances = await bank.ask('select name, cents from accounts');
  expect(new Map(balances.map(({ name, cents }) => [name, Number(cents)]))).toEqual(expected);
  expect(await movements(bank)).toEqual({ all: TRANSFERS, transfers: TRANSFERS });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  let bank: Bank;
  beforeAll(async () => {
    bank = await bankOf(store.address);
  });
  afterAll(() => bank.close());

  it('transactional steps move the money of each transfer once', async () => {
    const { expected, faults } = await run(store, bank, false, 'exact');
    expect(faults).toBeGreaterThan(3);
    await expectRight(bank, expected);
  }, 300_000);

  it('plain activities move some of it twice', async () => {
    await run(store, bank, true, 'plain');
    const { all, transfers } = await movements(bank);
    expect(transfers).toBe(TRANSFERS);
    expect(all).toBeGreaterThan(TRANSFERS);
  }, 300_000);
});

const [file] = SHARED_STORES;
if (file === undefined) throw new Error('there is a store to test on');

describe.skipIf(noCluster)(
  `on a server apart from the store${noCluster === undefined ? '' : ` (${noCluster})`}`,
  () => {
    const store = useStore(file);

    it('which loses its power, transactional steps move the money of each transfer once', async () => {
      const cluster = await Cluster.create();
      try {
        const bank = await postgresBank(cluster.url);
        let restarts = 0;
        const { expected } = await run(store, bank, false, 'restarts', async (n) => {
          if (n % 3 === 2) return false;
          await pause(300 + draw(300));
          await cluster.stop('immediate');
          await cluster.startAgain();
          restarts += 1;
          return true;
        });
        expect(restarts).toBeGreaterThan(1);
        await expectRight(bank, expected);
        await bank.close();
      } finally {
        await cluster.remove();
      }
    }, 300_000);
  },
);

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

import { Process, root } from '../support/process.ts';
import { SHARED_STORES, type StoreAddress, temporaryFolder } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { seeded } from './random.ts';

const ACCOUNTS = 100;
const TRANSFERS = 1_000;
const CENTS = 1_000;
const WORKERS = 3;
const LEASE_MS = 1_500;
const RUNTIME = { lease: `${LEASE_MS}ms`, activityConcurrency: 3 };
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
  if (address.kind === 'postgres') {
    const schema = `transfers_${randomUUID().slice(0, 8)}`;
    const pool = new Pool({ connectionString: address.url, options: `-c search_path=${schema}` });
    await pool.query(`create schema ${schema}`);
    await pgDatasource(pool).install();
    return {
      place: { kind: 'postgres', url: address.url, schema },
      ask: async (sql) => (await pool.query(sql)).rows,
      close: async () => {
        await pool.query(`drop schema ${schema} cascade`);
        await pool.end();
      },
    };
  }
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

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  let bank: Bank;
  beforeAll(async () => {
    bank = await bankOf(store.address);
    await bank.ask('create table accounts (name text primary key, cents bigint not null)');
    await bank.ask('create table movements (transfer text not null)');
  });
  afterAll(() => bank.close());

  /** Runs all transfers under kills. Returns the balances that are right, and the number of kills. */
  const run = async (isPlain: boolean): Promise<{ expected: Map<string, number>; kills: number }> => {
    for (const table of ['accounts', 'movements', 'perdure_steps']) await bank.ask(`delete from ${table}`);
    const names = Array.from({ length: ACCOUNTS }, (_, n) => `a${n}`);
    await bank.ask(`insert into accounts values ${names.map((name) => `('${name}', ${CENTS})`).join(', ')}`);
    const random = seeded(7);
    const draw = (max: number): number => Math.floor(random() * max);
    const expected = new Map(names.map((name) => [name, CENTS]));
    const prefix = isPlain ? 'plain' : 'exact';
    const starts: Promise<void>[] = [];
    for (let n = 0; n < TRANSFERS; n += 1) {
      const [from, to, cents] = [`a${draw(ACCOUNTS)}`, `a${draw(ACCOUNTS)}`, 1 + draw(9)];
      const input = { id: `${prefix}-${n}`, from, to, cents };
      expected.set(from, (expected.get(from) as number) - cents);
      expected.set(to, (expected.get(to) as number) + cents);
      starts.push(store.client.startOrchestration(input.id, 'transfers', input));
    }
    await Promise.all(starts);
    const start = (): Process<{ type: string }, object> =>
      new Process('bank', [
        process.execPath,
        program,
        JSON.stringify({ store: store.address, bank: bank.place, isPlain, runtime: RUNTIME }),
      ]);
    const workers = Array.from({ length: WORKERS }, start);
    const ended = async (): Promise<number> => (await store.client.stats()).instances.Completed;
    const before = await ended();
    let kills = 0;
    while ((await ended()) < before + TRANSFERS) {
      const at = kills % WORKERS;
      await (workers[at] as Process<{ type: string }, object>).said('ready');
      if (kills % 4 === 3) {
        // It stands still for longer than its lease, and another worker takes its attempts over.
        workers[at]?.pause();
        await new Promise((resolve) => setTimeout(resolve, 2 * LEASE_MS));
        workers[at]?.resume();
      } else {
        await new Promise((resolve) => setTimeout(resolve, 300 + draw(500)));
        await workers[at]?.kill();
        workers[at] = start();
      }
      kills += 1;
    }
    await Promise.all(workers.map((worker) => worker.kill()));
    return { expected, kills };
  };

  it('transactional steps move the money of each transfer once', async () => {
    const { expected, kills } = await run(false);
    expect(kills).toBeGreaterThan(3);
    const balances = await bank.ask('select name, cents from accounts');
    expect(new Map(balances.map(({ name, cents }) => [name, Number(cents)]))).toEqual(expected);
    const [{ n, transfers }] = await bank.ask(
      'select count(*) as n, count(distinct transfer) as transfers from movements',
    );
    expect([Number(n), Number(transfers)]).toEqual([TRANSFERS, TRANSFERS]);
  }, 300_000);

  it('plain activities move some of it twice', async () => {
    await run(true);
    const [{ n, transfers }] = await bank.ask(
      'select count(*) as n, count(distinct transfer) as transfers from movements',
    );
    expect(Number(transfers)).toBe(TRANSFERS);
    expect(Number(n)).toBeGreaterThan(TRANSFERS);
  }, 300_000);
});

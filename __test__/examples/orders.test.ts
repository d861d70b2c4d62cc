import { randomUUID } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client, PostgresProvider } from 'perdure';
import { Client as PgClient } from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { Example } from '../support/example.ts';
import { POSTGRES_URL, temporaryFolder } from '../support/providers.ts';

let folder: string;
let schema: string;
beforeEach(() => {
  process.env.PERDURE_POSTGRES_URL = POSTGRES_URL;
  folder = temporaryFolder();
  schema = `perdure test ${randomUUID()}`;
});
afterEach(async () => {
  rmSync(folder, { recursive: true, force: true });
  await ask(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
});

const orders = (...args: string[]) =>
  new Example('orders/main', '--folder', join(folder, 'orders'), '--schema', schema, '--orders', '20', ...args);

async function ask(sql: string): Promise<any[]> {
  const server = new PgClient({ connectionString: POSTGRES_URL });
  await server.connect();
  const { rows } = await server.query(sql);
  await server.end();
  return rows;
}

it('ends each order once on three workers, over the kill of one', async () => {
  const run = orders('--within', '1s');
  expect(await run.ended(), run.errors).toBe('0');

  expect(run.output).toMatch(/^kill -9 \d+ \(worker-2\), after 7 orders were charged$/m);
  expect(run.output).toMatch(/^20 orders have ended: \d+ shipped, \d+ expired\n20 payments$/m);
  const ran = [...run.output.matchAll(/^worker-(\d): (\d+) charges, (\d+) shipments$/gm)];
  expect(ran.map(([, worker]) => worker)).toEqual(['1', '2', '3']);
  // The store itself shows it: each order has one end, on any worker.
  const ends = await ask(
    `SELECT i.id FROM "${schema}".instances i JOIN "${schema}".history h ON h.instance_key = i.key
     WHERE h.kind = 'ExecutionCompleted'`,
  );
  expect(ends.map(({ id }) => id).sort()).toEqual(Array.from({ length: 20 }, (_, n) => `order-${n + 1}`).sort());
  // The others have released their rows. That of the dead one may be left if it owned nothing when it was killed: then
  // no order waits for its takeover, and the run can end before the next look for dead workers.
  const left = await ask(`SELECT name FROM "${schema}".workers WHERE name <> 'worker-2'`);
  expect(left, run.output + run.errors).toEqual([]);
});

it('continues after its client and workers were killed, and removes everything with --remove', async () => {
  const first = orders('--within', '1s');
  await first.printed(/^kill -9/m);
  expect(await first.kill()).toBe('SIGKILL');

  const second = orders('--within', '1s', '--remove');
  expect(await second.ended(), second.errors).toBe('0');
  expect(second.output).toMatch(/^20 orders have ended/m);
  expect(await ask(`SELECT FROM pg_namespace WHERE nspname = '${schema}'`)).toEqual([]);
  expect(existsSync(join(folder, 'orders'))).toBe(false);
});

it('starts nothing over when all orders have ended', async () => {
  const args = ['--within', '0ms'];
  expect(await orders(...args).ended()).toBe('0');
  const again = orders(...args);
  expect(await again.ended()).toBe('0');
  expect(again.output).not.toContain('kill -9');
  await using provider = await PostgresProvider.connect(POSTGRES_URL, { schema, poolSize: 1 });
  expect((await new Client(provider).stats()).instances).toMatchObject({ Completed: 20, Running: 0 });
});

// The programs of the guide that start instances from a shell, on machines that have these programs.

import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { Client, PostgresProvider } from 'perdure';
import { Client as PgClient } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { readPages } from '../../support/docs.ts';
import { hasProgram } from '../../support/programs.ts';
import { POSTGRES_URL } from '../../support/providers.ts';

// The programs name the schema `perdure`, so it has a database of its own.
const url = new URL(POSTGRES_URL);
url.pathname = `/perdure_shell_${randomUUID().replaceAll('-', '')}`;
const database = url.pathname.slice(1);

let store: PostgresProvider;
let client: Client;
beforeAll(async () => {
  await onServer(`CREATE DATABASE ${database}`);
  store = await PostgresProvider.connect(url.href);
  client = new Client(store);
});
afterAll(async () => {
  await store?.close();
  await onServer(`DROP DATABASE ${database} WITH (FORCE)`);
});

async function onServer(sql: string): Promise<void> {
  const server = new PgClient({ connectionString: POSTGRES_URL });
  await server.connect();
  await server.query(sql).finally(() => server.end());
}

it.for([
  { program: 'psql', check: ['psql', ['--version']], first: 'psql <<', id: 'order-3' },
  { program: 'psycopg', check: ['python3', ['-c', 'import psycopg']], first: 'python3 -c', id: 'order-4' },
] as const)('$program starts an instance as the guide shows it', async ({ program, check, first, id }, context) => {
  const [file, args] = check;
  // These are no tools of the tests.
  if (!hasProgram(file, args)) return context.skip(`there is no ${program}`);
  await client.queues.set('shipping', { concurrency: 10 });
  await client.startOrchestration('order-1', 'ship', null, { onConflict: 'return' });
  const page = readPages().find(({ name }) => name === 'docs/your-database.md');
  const block = page?.blocks.find(({ kind, code }) => kind === 'sh' && code[0]?.startsWith(first));
  execFileSync('sh', ['-ec', block?.code.join('\n') ?? 'exit 1'], { env: environment(), stdio: 'pipe' });
  expect(await client.getStatus(id)).toMatchObject({ name: 'ship', status: 'Pending' });
});

/** The variables by which these programs find the database. */
function environment(): NodeJS.ProcessEnv {
  const own = { PGHOST: url.hostname, PGPORT: url.port || '5432', PGUSER: url.username, PGPASSWORD: url.password };
  return { ...process.env, ...own, PGDATABASE: database };
}

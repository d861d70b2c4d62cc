// The stores, and places in them. A place is where one process, or several one after the other, keep their instances: a
// file of SQLite or a schema of Postgres, empty at first. It is plain JSON, because it is part of the job of a process.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';

import { root } from './paths.mjs';

/**
 * @typedef {{ store: 'sqlite', file: string } | { store: 'postgres', url: string, schema: string }} Place
 */

export const STORES = ['sqlite', 'postgres'];
/** The store of a workload that keeps nothing. */
export const MEMORY = 'memory';

export const POSTGRES_URL =
  process.env.PERDURE_BENCH_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable';

/**
 * The prefix of the names of this run's schemas and databases. All with this prefix are dropped at the end of the run.
 */
export const SCHEMA_PREFIX = `perdure_bench_${randomBytes(4).toString('hex')}`;

/** The same server, another database. */
export function postgresUrl(database) {
  const url = new URL(POSTGRES_URL);
  url.pathname = `/${database}`;
  return url.href;
}

/** The options that tell the floor of a place. */
export function floorOptions(place) {
  if (place.store === 'sqlite') return { db: place.file, migrations: migrations('sqlite') };
  return { url: place.url, schema: place.schema, migrations: migrations('postgres') };
}

function migrations(store) {
  return join(root, 'crates', `provider-${store}`, 'src', 'migrations');
}

/** @param {Place} place */
export async function openProvider(place) {
  const { PostgresProvider, SqliteProvider } = await import('../../dist/index.js');
  if (place.store === 'sqlite') return SqliteProvider.open(place.file);
  return PostgresProvider.connect(place.url, { schema: place.schema });
}

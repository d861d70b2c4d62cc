// The kinds of store that the end-to-end tests run on. A new kind is added here and nowhere else.

import { randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PostgresProvider, type Provider, type ProviderOptions, SqliteProvider } from 'perdure';
import { escapeIdentifier, Client as PgClient } from 'pg';

/** One kind of store: the parameter of `describe.each`. */
export interface StoreKind {
  readonly name: string;
  /** True if several providers, also of different processes, can open one store. */
  readonly isShared: boolean;
  /** Makes an empty store. */
  create(): StoreSite;
}

/** One store, opened or not. */
export interface StoreSite {
  /** The address that a worker process is given, see crash/worker.mjs. */
  readonly address: StoreAddress;
  open(options?: ProviderOptions): Promise<Provider>;
  /** Removes the store. Everything that was opened on it must be closed. */
  remove(): Promise<void>;
}

/** The address of a store, for a process that is to open it. */
export type StoreAddress = SqliteAddress | PostgresAddress;

export interface SqliteAddress {
  readonly kind: 'sqlite';
  readonly path: string;
}

export interface PostgresAddress {
  readonly kind: 'postgres';
  readonly url: string;
  readonly schema: string;
  /** Connection options that differ from the defaults. */
  readonly poolSize?: number;
  readonly notify?: boolean;
}

const sqliteFile: StoreKind = {
  name: 'an SQLite file',
  isShared: true,
  create() {
    const folder = temporaryFolder();
    const path = join(folder, 'store.db');
    return {
      address: { kind: 'sqlite', path },
      open: (options) => SqliteProvider.open(path, options),
      remove: async () => rmSync(folder, { recursive: true }),
    };
  },
};

const sqliteInMemory: StoreKind = {
  name: 'SQLite in memory',
  isShared: false,
  create: () => ({
    address: { kind: 'sqlite', path: '' },
    open: (options) => SqliteProvider.inMemory(options),
    remove: async () => {},
  }),
};

/** The server that the tests use, see scripts/with-postgres.mjs. */
export const POSTGRES_URL = process.env.PERDURE_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';

/** Returns the kind of store that is a schema of a Postgres server. */
export function postgresAt(
  url: string,
  { schema: named, ...options }: { schema?: string; poolSize?: number; notify?: boolean } = {},
): StoreKind {
  return {
    name: 'Postgres',
    isShared: true,
    create() {
      const schema = named ?? `perdure test ${randomUUID()}`;
      return {
        address: { kind: 'postgres', url, schema, ...options },
        open: (more) => PostgresProvider.connect(url, { schema, poolSize: 4, ...options, ...more }),
        async remove() {
          const client = new PgClient({ connectionString: url });
          await client.connect();
          await client.query(`DROP SCHEMA IF EXISTS ${escapeIdentifier(schema)} CASCADE`);
          await client.end();
        },
      };
    },
  };
}

const postgres = postgresAt(POSTGRES_URL);

/** All kinds, or in a quick run (see vitest.config.ts) only the default one. */
export const STORES: readonly StoreKind[] =
  process.env.PERDURE_TEST_STORES === 'sqlite' ? [sqliteFile] : [sqliteFile, sqliteInMemory, postgres];

/** The kind of store of tests whose subject is the same on each store. */
export const ANY_STORE: StoreKind = sqliteFile;

/** Kinds of store that outlive a provider and can be opened by several processes. */
export const SHARED_STORES: readonly StoreKind[] = STORES.filter((kind) => kind.isShared);

/** Makes a folder of its own. The caller removes it. */
export function temporaryFolder(mode = 0o700): string {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-test-'));
  chmodSync(folder, mode);
  return folder;
}

// Connections of a user to the database that holds a store, beside Perdure's own.

import Database from 'better-sqlite3';
import { escapeIdentifier, Client as PgClient } from 'pg';

import type { StoreAddress } from './providers.ts';

/** A connection of a user. */
export interface UserDatabase {
  /** The argument of `client.within`. */
  readonly tx: object;
  /** Runs a statement without parameters. Tables and functions of the store are named without a schema. */
  run(sql: string): Promise<unknown>;
  /** Returns the first column of all rows of a statement. */
  values(sql: string): Promise<unknown[]>;
  close(): Promise<void>;
}

/** Connects to the database of a store. The tables of the user are made in the schema of the store. */
export async function userDatabase(address: StoreAddress): Promise<UserDatabase> {
  if (address.kind === 'sqlite') return sqlite(address.path);
  const client = new PgClient({ connectionString: address.url });
  await client.connect();
  await client.query(`SET search_path TO ${escapeIdentifier(address.schema)}`);
  return {
    tx: client,
    run: (sql) => client.query(sql),
    values: async (sql) => (await client.query({ text: sql, rowMode: 'array' })).rows.map(([first]) => first),
    close: () => client.end(),
  };
}

function sqlite(path: string): UserDatabase {
  const database = new Database(path);
  return {
    tx: database,
    run: async (sql) => database.exec(sql),
    values: async (sql) => database.prepare(sql).pluck().all(),
    close: async () => void database.close(),
  };
}

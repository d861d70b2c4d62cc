// The user's databases that transactional steps are tested on, with accounts in them.

import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import Database from 'better-sqlite3';
import type { ActivityContext, ActivityDefinition } from 'perdure';
import { betterSqlite3Datasource } from 'perdure/better-sqlite3';
import type { DatasourceActivityOptions } from 'perdure/datasource';
import { pgDatasource } from 'perdure/pg';
import { Pool, type PoolClient } from 'pg';

/** One statement, in the words of each library. */
export type Query = (text: string) => unknown;

/** The body of a step: statements, and what the step does between them. */
export type Body = (query: Query, input: any, ctx: ActivityContext) => unknown;

/** A database of the user's with a datasource, and a connection of the test's own. */
export interface UserDatabase {
  readonly install: () => Promise<void>;
  readonly sweep: (client: any) => Promise<number>;
  /** Makes a step. On a synchronous library, the body must not wait for its statements. */
  step(name: string, body: Body, options?: DatasourceActivityOptions): ActivityDefinition<any, any>;
  /** Runs a statement outside of any step. Returns its rows. */
  query(text: string): Promise<any[]>;
  /** Makes a datasource with another table. */
  other(table: string): Pick<UserDatabase, 'install' | 'step'>;
  close(): Promise<void>;
}

/** One kind of database: the parameter of `describe.each`. */
export interface DatabaseKind {
  readonly name: string;
  readonly isPostgres: boolean;
  create(): Promise<UserDatabase>;
}

const url = process.env.PERDURE_TEST_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';

const postgres: DatabaseKind = {
  name: 'pg',
  isPostgres: true,
  async create() {
    const schema = `bank_${randomUUID().slice(0, 8)}`;
    const pool = new Pool({ connectionString: url, max: 8, options: `-c search_path=${schema}` });
    await pool.query(`create schema ${schema}`);
    const on = (table?: string) => {
      const datasource = pgDatasource(pool, table === undefined ? {} : { table });
      return {
        install: () => datasource.install(),
        sweep: (client: any) => datasource.sweep(client),
        step: (name: string, body: Body, options?: DatasourceActivityOptions) =>
          datasource.activity(
            name,
            (tx: PoolClient, input: any, ctx) => body(async (text) => (await tx.query(text)).rows, input, ctx),
            options,
          ),
      };
    };
    return {
      ...on(),
      query: async (text) => (await pool.query(text)).rows ?? [],
      other: on,
      close: async () => {
        if (!pool.ending) {
          await pool.query(`drop schema ${schema} cascade`);
          await pool.end();
        }
      },
    };
  },
};

const betterSqlite3: DatabaseKind = {
  name: 'better-sqlite3',
  isPostgres: false,
  async create() {
    const folder = mkdtempSync(join(tmpdir(), 'perdure-bank-'));
    const database = new Database(join(folder, 'bank.db'));
    database.pragma('journal_mode = wal');
    const on = (table?: string) => {
      const datasource = betterSqlite3Datasource(database, table === undefined ? {} : { table });
      return {
        install: () => datasource.install(),
        sweep: (client: any) => datasource.sweep(client),
        step: (name: string, body: Body, options?: DatasourceActivityOptions) =>
          datasource.activity(name, (tx, input: any, ctx) => body(queryOf(tx), input, ctx), options),
      };
    };
    return {
      ...on(),
      query: async (text) => queryOf(database)(text) as any[],
      other: on,
      close: async () => {
        database.close();
        rmSync(folder, { recursive: true });
      },
    };
  },
};

function queryOf(database: Database.Database): Query {
  return (text) => {
    const statement = database.prepare(text);
    return statement.reader ? statement.all() : (statement.run(), []);
  };
}

export const DATABASES: readonly DatabaseKind[] = [postgres, betterSqlite3];

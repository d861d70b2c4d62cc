// The user's databases that transactional steps are tested on, with accounts in them.

import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import Database from 'better-sqlite3';
import type { ActivityContext, ActivityDefinition } from 'perdure';
import { betterSqlite3Datasource, type SqliteConnection, type SqliteDatasourceOptions } from 'perdure/better-sqlite3';
import type { Datasource, DatasourceActivityOptions } from 'perdure/datasource';
import { nodeSqliteDatasource } from 'perdure/node-sqlite';
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

/** The parts of a SQLite library that the tests use. */
interface SqliteLibrary<Connection extends SqliteConnection> {
  open(path: string): Connection & { close(): unknown };
  datasource(connection: Connection, options: SqliteDatasourceOptions): Datasource<Connection>;
}

function sqlite<Connection extends SqliteConnection>(name: string, library: SqliteLibrary<Connection>): DatabaseKind {
  return {
    name,
    isPostgres: false,
    async create() {
      const folder = mkdtempSync(join(tmpdir(), 'perdure-bank-'));
      const database = library.open(join(folder, 'bank.db'));
      database.prepare('pragma journal_mode = wal').all();
      const on = (table?: string) => {
        const datasource = library.datasource(database, table === undefined ? {} : { table });
        return {
          install: () => datasource.install(),
          sweep: (client: any) => datasource.sweep(client),
          step: (step: string, body: Body, options?: DatasourceActivityOptions) =>
            datasource.activity(step, (tx, input: any, ctx) => body(queryOf(tx), input, ctx), options),
        };
      };
      return {
        ...on(),
        query: async (text) => queryOf(database)(text),
        other: on,
        close: async () => {
          database.close();
          rmSync(folder, { recursive: true });
        },
      };
    },
  };
}

/** The module of Node 22.5 and later. */
const nodeSqlite = process.getBuiltinModule?.('node:sqlite' as 'fs') as any;

function queryOf(database: SqliteConnection): (text: string) => any[] {
  return (text) => {
    const statement = database.prepare(text);
    return statement.reader === false ? (statement.run(), []) : statement.all();
  };
}

export const DATABASES: readonly DatabaseKind[] = [
  postgres,
  sqlite('better-sqlite3', { open: (path) => new Database(path), datasource: betterSqlite3Datasource }),
  ...(nodeSqlite === undefined
    ? []
    : [sqlite('node:sqlite', { open: (path) => new nodeSqlite.DatabaseSync(path), datasource: nodeSqliteDatasource })]),
];

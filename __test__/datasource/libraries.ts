// The libraries that `defineDatasource` is tested with, each with the adapter of the guide.

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { PrismaPg } from '@prisma/adapter-pg';
import { drizzle } from 'drizzle-orm/node-postgres';
import { sql as drizzleSql } from 'drizzle-orm/sql';
import createKnex, { type Knex } from 'knex';
import { Kysely, sql as kyselySql, PostgresDialect, type Transaction } from 'kysely';
import { type Datasource, defineDatasource } from 'perdure/datasource';
import { Pool } from 'pg';
import postgres, { type TransactionSql } from 'postgres';

import { generatePrismaClient } from '../support/prisma.ts';
import { temporaryFolder } from '../support/providers.ts';

/** A datasource of a library, for tests that write their statements as text. */
export interface Library<Tx = any> {
  readonly datasource: Datasource<Tx>;
  /** Runs a statement in a step's transaction. Returns its rows. */
  query(tx: Tx, text: string): Promise<any[]>;
  close(): Promise<void>;
}

/** One library: the parameter of `describe.each`. */
export interface LibraryKind {
  readonly name: string;
  /** @param options - the startup options of each connection */
  open(url: string, options: string): Promise<Library>;
}

const withDrizzle: LibraryKind = {
  name: 'drizzle-orm',
  async open(connectionString, options) {
    const pool = new Pool({ connectionString, options });
    const db = drizzle({ client: pool });
    type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0];
    const datasource = defineDatasource<Tx>({
      dialect: 'postgres',
      transaction: (body, { isolation, readOnly }) =>
        db.transaction(body, {
          ...(isolation !== undefined && { isolationLevel: isolation }),
          accessMode: readOnly ? 'read only' : 'read write',
        }),
      query: async (tx, strings, ...values) => (await tx.execute(drizzleSql(strings, ...values))).rows,
    });
    const query = async (tx: Tx, text: string) => (await tx.execute(drizzleSql.raw(text))).rows;
    return { datasource, query, close: () => pool.end() };
  },
};

const withKysely: LibraryKind = {
  name: 'kysely',
  async open(connectionString, options) {
    const db = new Kysely<object>({
      dialect: new PostgresDialect({ pool: new Pool({ connectionString, options }) }),
    });
    const datasource = defineDatasource<Transaction<object>>({
      dialect: 'postgres',
      transaction: (body, { isolation, readOnly }) => {
        const begin = db.transaction().setAccessMode(readOnly ? 'read only' : 'read write');
        return (isolation === undefined ? begin : begin.setIsolationLevel(isolation)).execute(body);
      },
      query: async (tx, strings, ...values) => (await kyselySql<object>(strings, ...values).execute(tx)).rows,
    });
    const query = async (tx: Transaction<object>, text: string) => (await kyselySql.raw(text).execute(tx)).rows;
    return { datasource, query, close: () => db.destroy() };
  },
};

const withKnex: LibraryKind = {
  name: 'knex',
  async open(connectionString, options) {
    const db = createKnex({ client: 'pg', connection: { connectionString, options } as Knex.PgConnectionConfig });
    const datasource = defineDatasource<Knex.Transaction>({
      dialect: 'postgres',
      transaction: (body, { isolation, readOnly }) =>
        db.transaction(body, { ...(isolation !== undefined && { isolationLevel: isolation }), readOnly }),
      query: async (tx, strings, ...values) => (await tx.raw(strings.join('?'), values)).rows,
    });
    const query = async (tx: Knex.Transaction, text: string) => (await tx.raw(text)).rows;
    return { datasource, query, close: () => db.destroy() };
  },
};

const withPostgresJs: LibraryKind = {
  name: 'postgres',
  async open(url, options) {
    const db = postgres(url, { connection: { options } as never, onnotice: () => undefined });
    const datasource = defineDatasource<TransactionSql>({
      dialect: 'postgres',
      transaction: async <T>(body: (tx: TransactionSql) => Promise<T>, { isolation, readOnly }: any) => {
        const level = isolation === undefined ? '' : `isolation level ${isolation} `;
        return (await db.begin(`${level}${readOnly ? 'read only' : 'read write'}`, body)) as T;
      },
      query: (tx, strings, ...values) => tx(strings, ...values),
    });
    return { datasource, query: (tx: TransactionSql, text: string) => tx.unsafe(text), close: () => db.end() };
  },
};

/** The parts of a generated client that this file uses. */
interface PrismaTransaction {
  $queryRaw(strings: TemplateStringsArray, ...values: unknown[]): Promise<object[]>;
  $queryRawUnsafe(text: string): Promise<object[]>;
  $executeRaw(strings: TemplateStringsArray): Promise<number>;
}
interface PrismaClient extends PrismaTransaction {
  $transaction<T>(body: (tx: PrismaTransaction) => Promise<T>, options?: object): Promise<T>;
  $disconnect(): Promise<void>;
}

const LEVELS = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
} as const;

/** Makes the client in a folder of its own, which finds the packages of this project. */
async function loadPrisma(): Promise<new (options: object) => PrismaClient> {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(
    fileURLToPath(new URL('../../node_modules/@prisma', import.meta.url)),
    join(folder, 'node_modules/@prisma'),
    'junction',
  );
  writeFileSync(
    join(folder, 'schema.prisma'),
    `generator client {
       provider = "prisma-client"
       output   = "client"
     }
     datasource db {
       provider = "postgresql"
     }`,
  );
  generatePrismaClient(folder);
  return (await import(pathToFileURL(join(folder, 'client/client.ts')).href)).PrismaClient;
}

const withPrisma: LibraryKind = {
  name: 'prisma',
  async open(connectionString, options) {
    const PrismaClient = await loadPrisma();
    const db = new PrismaClient({ adapter: new PrismaPg({ connectionString, options }) });
    const datasource = defineDatasource<PrismaTransaction>({
      dialect: 'postgres',
      transaction: (body, { isolation, readOnly }) =>
        db.$transaction(
          async (tx) => {
            if (readOnly) await tx.$executeRaw`set transaction read only`;
            return body(tx);
          },
          { ...(isolation && { isolationLevel: LEVELS[isolation] }), maxWait: 60_000, timeout: 3_600_000 },
        ),
      query: (tx, strings, ...values) => tx.$queryRaw(strings, ...values),
    });
    return { datasource, query: (tx, text) => tx.$queryRawUnsafe(text), close: () => db.$disconnect() };
  },
};

export const LIBRARIES: readonly LibraryKind[] = [withDrizzle, withKysely, withKnex, withPostgresJs, withPrisma];

/** Transactional steps on a database of the package `better-sqlite3`. */

import { checkOptions, type OptionTable } from '../util/options.ts';
import { isRecord, property, show } from '../util/show.ts';
import { type Datasource, datasourceOf } from './datasource.ts';
import { type SqliteConnection, SqliteDatabase } from './sqlite-database.ts';
import { checkTable, DEFAULT_TABLE } from './steps-table.ts';

export type { Datasource, DatasourceActivityOptions, TransactionalFunction } from './datasource.ts';
export type { SqliteConnection } from './sqlite-database.ts';
export type { Isolation } from './step.ts';

/** Options of a datasource on a SQLite connection. */
export interface SqliteDatasourceOptions {
  /** Name of the table of steps. Default `'perdure_steps'`. */
  table?: string;
}

const OPTIONS: OptionTable = { table: checkTable };

/**
 * Returns a datasource for a database of `better-sqlite3`. The function of a step must not be `async`: the transaction
 * is one piece, so all attempts of a process share the connection. While another process writes, a step waits as long
 * as the `timeout` of the connection says, and then is tried again.
 *
 * @param database - an open database, also one in memory. The datasource does not close it
 * @throws TypeError when the database or an option is wrong
 *
 * @example
 * ```ts
 * const bank = betterSqlite3Datasource(new Database('bank.db'));
 * await bank.install();
 * const transfer = bank.activity('transfer', (tx, { from, to, cents }: Transfer) => {
 *   tx.prepare('update accounts set cents = cents - ? where name = ?').run(cents, from);
 *   tx.prepare('update accounts set cents = cents + ? where name = ?').run(cents, to);
 * });
 * ```
 */
export function betterSqlite3Datasource<Database extends SqliteConnection>(
  database: Database,
  options?: SqliteDatasourceOptions,
): Datasource<Database> {
  if (!isRecord(database) || typeof property(database, 'inTransaction') !== 'boolean')
    throw new TypeError(
      `betterSqlite3Datasource takes a Database of the package better-sqlite3, not ${show(database)}`,
    );
  const { table = DEFAULT_TABLE } = checkOptions(options, OPTIONS, 'betterSqlite3Datasource') ?? {};
  return datasourceOf(new SqliteDatabase(database, table, 'inTransaction'));
}

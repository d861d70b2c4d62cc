/** Transactional steps on a `DatabaseSync` of Node's own module `node:sqlite`. */

import { checkOptions, type OptionTable } from '../util/options.ts';
import { isRecord, property, show } from '../util/show.ts';
import type { SqliteDatasourceOptions } from './better-sqlite3.ts';
import { type Datasource, datasourceOf } from './datasource.ts';
import { type SqliteConnection, SqliteDatabase } from './sqlite-database.ts';
import { checkTable, DEFAULT_TABLE } from './steps-table.ts';

export type { SqliteDatasourceOptions } from './better-sqlite3.ts';
export type { Datasource, DatasourceActivityOptions, TransactionalFunction } from './datasource.ts';
export type { SqliteConnection } from './sqlite-database.ts';
export type { Isolation } from './step.ts';

const OPTIONS: OptionTable = { table: checkTable };

/**
 * Returns a datasource for a database of `node:sqlite`, which Node has from version 22 on. As with `better-sqlite3`,
 * the function of a step must not be `async`. Node tells from version 22.16 on if a function has ended its transaction.
 *
 * @param database - an open database. The datasource does not close it
 * @throws TypeError when the database or an option is wrong
 *
 * @example
 * ```ts
 * import { DatabaseSync } from 'node:sqlite';
 *
 * const bank = nodeSqliteDatasource(new DatabaseSync('bank.db'));
 * ```
 */
export function nodeSqliteDatasource<Database extends SqliteConnection>(
  database: Database,
  options?: SqliteDatasourceOptions,
): Datasource<Database> {
  if (!isRecord(database) || typeof property(database, 'prepare') !== 'function')
    throw new TypeError(`nodeSqliteDatasource takes a DatabaseSync of node:sqlite, not ${show(database)}`);
  const { table = DEFAULT_TABLE } = checkOptions(options, OPTIONS, 'nodeSqliteDatasource') ?? {};
  return datasourceOf(new SqliteDatabase(database, table, 'isTransaction'));
}

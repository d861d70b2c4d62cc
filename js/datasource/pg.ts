/** Transactional steps on a `Pool` of the package `pg`. */

import type { Pool, PoolClient } from 'pg';

import { type Duration, parseDuration } from '../util/duration.ts';
import { checkOptions, duration, type OptionTable } from '../util/options.ts';
import { isRecord, property, show } from '../util/show.ts';
import { sqlStateOf } from './database-errors.ts';
import { type Datasource, datasourceOf } from './datasource.ts';
import { explained } from './explained-error.ts';
import { ignoreError, StepClient } from './pg-client.ts';
import { canPipeline, type Execution, isIdle } from './pg-pipeline.ts';
import {
  ISOLATIONS,
  type Promised,
  type StepDatabase,
  StepTaken,
  type StepTransaction,
  settles,
  type TransactionFacts,
} from './step.ts';
import {
  checkTable,
  DEFAULT_TABLE,
  foundIn,
  PID,
  type Statement,
  type StepAttempt,
  type StepRow,
  StepsTable,
  sql,
  textOf,
} from './steps-table.ts';

export type { Datasource, DatasourceActivityOptions, TransactionalFunction } from './datasource.ts';
export type { Isolation } from './step.ts';

/** Options of {@link pgDatasource}. */
export interface PgDatasourceOptions {
  /** Name of the table of steps, with or without a schema. Default `'perdure_steps'`. */
  table?: string;
  /**
   * Longest time that the server lets a transaction of a step wait for its next statement, at least 1 ms. After it the
   * transaction is rolled back, so a process that stands still does not hold its locks. Default 1 minute.
   */
  idleTimeout?: Duration;
}

const OPTIONS: OptionTable = { table: checkTable, idleTimeout: duration(1) };

/**
 * Returns a datasource for a pool of `pg`, version 8. Each attempt of a step takes a client of the pool for as long as
 * its transaction lasts. The pool stays the user's: the datasource does not end it. It listens to the pool's errors, so
 * that a server which goes away does not end the process.
 *
 * @param pool - leads to the database of the steps, which need not be that of the store
 * @throws TypeError when the pool or an option is wrong
 *
 * @example
 * ```ts
 * const bank = pgDatasource(new Pool({ connectionString }));
 * await bank.install();
 * const transfer = bank.activity('transfer', async (tx, { from, to, cents }: Transfer) => {
 *   await tx.query('update accounts set cents = cents - $2 where name = $1', [from, cents]);
 *   await tx.query('update accounts set cents = cents + $2 where name = $1', [to, cents]);
 * });
 * ```
 */
export function pgDatasource(pool: Pool, options?: PgDatasourceOptions): Datasource<PoolClient> {
  if (!isRecord(pool) || typeof property(pool, 'connect') !== 'function')
    throw new TypeError(`pgDatasource takes a Pool of the package pg, not ${show(pool)}`);
  const { table = DEFAULT_TABLE, idleTimeout = '1m' } = checkOptions(options, OPTIONS, 'pgDatasource') ?? {};
  return datasourceOf(new PgDatabase(pool, table, parseDuration(idleTimeout, 'idleTimeout')));
}

class PgDatabase implements StepDatabase<PoolClient> {
  readonly table: StepsTable;
  private readonly pool: Pool;
  /** Columns that apply the settings of a transaction, and tell the number of the server's process. */
  private readonly settings: string;
  /** The texts of the statements that each connection prepares, by their names. */
  private readonly texts = new Map<string, string>();
  /** The names of these statements, by the parts of their texts. */
  private readonly names = new Map<TemplateStringsArray, string>();
  /** The connections that have prepared them. */
  private readonly ready = new WeakSet<PoolClient>();
  /** False once a connection was found without the statements that it had prepared. */
  private keepsStatements = true;

  constructor(pool: Pool, table: string, idleMs: number) {
    this.table = new StepsTable('postgres', table);
    this.pool = pool;
    this.settings = `${PID}, set_config('idle_in_transaction_session_timeout', '${idleMs}', true)`;
    const step: StepAttempt = { key: '', store: '', instanceId: '', executionId: 0, attempt: 0 };
    // The statements on the table come first: if it is missing, none is prepared.
    const own = [this.table.find(step, this.settings), this.table.insert(step, '', '0', 'fail'), this.told()];
    for (const statement of [...own, ...READ_WRITE.values(), ...READ_ONLY.values(), COMMIT]) {
      const text = textOf(statement, (n) => `$${n}`);
      const name = nameOf(text);
      this.texts.set(name, text);
      this.names.set(statement.strings, name);
    }
    if (!pool.listeners('error').includes(ignoreError)) pool.on('error', ignoreError);
  }

  transact(transaction: StepTransaction, body: (tx: PoolClient) => Promised<string | null>): Promise<StepRow> {
    const { step, isUntried } = transaction;
    return this.withClient(transaction.signal, async (client) => {
      let row: StepRow | undefined;
      if (isUntried && this.canBeginAhead(client)) this.beginAhead(client, transaction);
      else row = await this.begin(client, transaction);
      if (settles(row, step)) {
        await client.rollback();
        return row;
      }
      const output = await client.call(body);
      await client.aheadAnswered();
      await this.commit(client, step, row, output);
      return { attempt: step.attempt, output, error: null };
    });
  }

  read<T>(facts: TransactionFacts, body: (tx: PoolClient) => Promised<T>): Promise<T> {
    return this.withClient(facts.signal, async (client) => {
      if (!this.isReady(client)) await this.prepare(client);
      this.begun(client, await this.send(client, [beginning(facts), this.told()]));
      const output = await client.call(body);
      await this.send(client, [COMMIT]);
      return output;
    });
  }

  async run(statements: readonly Statement[], signal?: AbortSignal): Promise<readonly object[]> {
    const text = statements.map((statement) => literal(statement)).join(';\n');
    return this.withClient(signal, async (client) => {
      const results = await client.query(`BEGIN;\n${text};\nCOMMIT`);
      return results.at(-2)?.rows ?? [];
    });
  }

  /** Begins the transaction of a step. Returns the step's row. */
  private async begin(client: StepClient, transaction: StepTransaction): Promise<StepRow | undefined> {
    if (!this.isReady(client)) await this.prepare(client);
    const find = this.table.find(transaction.step, this.settings);
    const begin = beginning(transaction);
    // A serializable transaction that reads the row conflicts with all that insert into the same page of the index.
    const isSerializable = transaction.isolation === 'serializable';
    const statements = isSerializable ? [BEGIN, find, COMMIT, begin, this.told()] : [begin, find];
    const rows = await this.send(client, statements);
    this.begun(client, rows);
    return foundIn(rows).row;
  }

  /**
   * True if a transaction may begin with the first statement of the function. The connection has prepared the
   * statements before an earlier transaction, so it is known to keep them.
   */
  private canBeginAhead({ connection }: StepClient): boolean {
    return this.hasPrepared(connection) && isIdle(connection);
  }

  /** True if a connection has the prepared statements. */
  private hasPrepared(connection: PoolClient): boolean {
    return this.keepsStatements && this.ready.has(connection);
  }

  /** Begins the transaction of a step that has no row, with the first statement of the function. */
  private beginAhead(client: StepClient, transaction: StepTransaction): void {
    client.runAhead(this.executions([beginning(transaction), this.told()]), (rows) => this.begun(client, rows));
  }

  /** Reads the answers to the statements that began a transaction, and lets the client cancel its query from now on. */
  private begun(client: StepClient, rows: readonly object[]): void {
    const last = rows.at(-1);
    const begun = String(property(last, 'begun'));
    client.begun = begun;
    client.cancelling = () => literal(this.table.cancel(Number(property(last, 'pid')), begun));
  }

  /** Returns the statement that applies the settings of a transaction, and tells it. */
  private told(): Statement {
    return this.table.told(this.settings);
  }

  /** Writes the row of the step and commits, in one round trip if no attempt has failed before. */
  private commit(
    client: StepClient,
    step: StepAttempt,
    row: StepRow | undefined,
    output: string | null,
  ): Promise<unknown> {
    const { begun } = client;
    return row === undefined
      ? this.send(client, [this.table.insert(step, output, begun, 'fail'), COMMIT])
      : this.commitReplaced(client, this.table.replace(step, output, begun));
  }

  private async commitReplaced(client: StepClient, replace: Statement): Promise<void> {
    const replaced = await this.send(client, [replace]);
    if (replaced.length === 0) throw new StepTaken();
    await this.send(client, [COMMIT]);
  }

  /** Sends statements of the datasource itself in one round trip, prepared or as a text. Returns all their rows. */
  private send(client: StepClient, statements: readonly Statement[]): Promise<readonly object[]> {
    const { names } = this;
    if (this.hasPrepared(client.connection) && statements.every(({ strings }) => names.has(strings)))
      return client.run(this.executions(statements));
    const text = statements.map((statement) => literal(statement)).join('; ');
    return client.query(text).then((results) => results.flatMap(({ rows }) => rows));
  }

  /** Returns the executions of prepared statements. */
  private executions(statements: readonly Statement[]): Execution[] {
    return statements.map(({ strings, values }) => ({ name: this.names.get(strings) as string, values }));
  }

  /** False if a connection must prepare the statements first. */
  private isReady({ connection }: StepClient): boolean {
    return !this.keepsStatements || this.ready.has(connection) || !canPipeline(connection);
  }

  /**
   * Prepares the statements of each step, once for each connection. This comes before the transaction: nothing that the
   * function does may run again because of them.
   */
  private async prepare(client: StepClient): Promise<void> {
    const known = preparedBy(client.connection);
    const texts = new Map([...this.texts].filter(([name]) => !known.has(name)));
    try {
      await client.prepare(texts);
    } catch (error) {
      if (sqlStateOf(error) !== DUPLICATE_STATEMENT) throw error;
      // Behind a pooler: each transaction may have another connection.
      this.keepsStatements = false;
      return;
    }
    for (const name of texts.keys()) known.add(name);
    this.ready.add(client.connection);
  }

  private async withClient<T>(signal: AbortSignal | undefined, work: (client: StepClient) => Promise<T>): Promise<T> {
    const client = await StepClient.take(this.pool, signal, this.explain);
    try {
      return await work(client);
    } catch (error) {
      await client.rollback();
      throw client.lost ?? error;
    } finally {
      client.release();
    }
  }

  /** Returns the error to throw for one of the datasource's own statements. */
  private readonly explain = (error: unknown): unknown => {
    if (sqlStateOf(error) !== UNKNOWN_STATEMENT) return explained(error, this.table);
    // The transaction is rolled back, and runs again without prepared statements.
    this.keepsStatements = false;
    return new StepTaken();
  };
}

const BEGIN = sql`BEGIN`;
const COMMIT = sql`COMMIT`;

/** The statements that begin a transaction, by its isolation. */
const READ_WRITE = new Map<string | undefined, Statement>([[undefined, BEGIN]]);
const READ_ONLY = new Map<string | undefined, Statement>([[undefined, sql`BEGIN READ ONLY`]]);
for (const isolation of ISOLATIONS) {
  READ_WRITE.set(isolation, sql`BEGIN ISOLATION LEVEL ${{ raw: isolation.toUpperCase() }}`);
  READ_ONLY.set(isolation, sql`BEGIN ISOLATION LEVEL ${{ raw: isolation.toUpperCase() }} READ ONLY`);
}

function beginning({ isolation, isReadOnly }: TransactionFacts): Statement {
  return (isReadOnly ? READ_ONLY : READ_WRITE).get(isolation) as Statement;
}

/** The names of the statements that connections have prepared, for any datasource. */
const prepared = new WeakMap<PoolClient, Set<string>>();

function preparedBy(client: PoolClient): Set<string> {
  const names = prepared.get(client) ?? new Set();
  prepared.set(client, names);
  return names;
}

/** Returns the name of a prepared statement: its first word, and a part that no other text has. */
function nameOf(text: string): string {
  const { createHash } = process.getBuiltinModule('node:crypto');
  const hash = createHash('sha256').update(text).digest('hex');
  return `perdure_${/^\w+/.exec(text)?.[0].toLowerCase()}_${hash.slice(0, 32)}`;
}

/** Codes of Postgres. */
const UNKNOWN_STATEMENT = '26000';
const DUPLICATE_STATEMENT = '42P05';

/** Returns the text of a statement with its values. A text of several statements cannot have parameters. */
function literal(statement: Statement): string {
  return textOf(statement, (n) => valueText(statement.values[n - 1] ?? null));
}

function valueText(value: string | number | null): string {
  return typeof value === 'string' ? quoted(value) : String(value ?? 'NULL');
}

/** Returns a text as a literal, whatever `standard_conforming_strings` says. */
function quoted(text: string): string {
  const doubled = text.replaceAll("'", "''");
  return doubled.includes('\\') ? ` E'${doubled.replaceAll('\\', '\\\\')}'` : `'${doubled}'`;
}

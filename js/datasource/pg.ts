/** Transactional steps on a `Pool` of the package `pg`. */

import type { Pool, PoolClient, QueryResult } from 'pg';

import { type Abandonable, onAbort, untilAborted } from '../util/abort.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkOptions, duration, type OptionTable } from '../util/options.ts';
import { isRecord, property, show } from '../util/show.ts';
import { guarded } from './client-guard.ts';
import { sqlStateOf } from './database-errors.ts';
import { type Datasource, datasourceOf } from './datasource.ts';
import { explained } from './explained-error.ts';
import {
  type Promised,
  type StepDatabase,
  StepTaken,
  type StepTransaction,
  settles,
  type TransactionFacts,
} from './step.ts';
import {
  BEGUN,
  checkTable,
  DEFAULT_TABLE,
  type FoundStep,
  foundIn,
  PID,
  type Statement,
  type StepAttempt,
  type StepRow,
  StepsTable,
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
  /** The end of the names of prepared statements: the same name is the same statement. */
  private readonly suffix: string;
  /** False once a connection was found without the statements that it had prepared. */
  private keepsStatements = true;
  /** Columns that apply the settings of a transaction, and tell the number of the server's process. */
  private readonly settings: string;

  constructor(pool: Pool, table: string, idleMs: number) {
    this.table = new StepsTable('postgres', table);
    this.pool = pool;
    this.suffix = `${idleMs}_${table.replaceAll(/\W/g, '_')}`;
    this.settings = `${PID}, set_config('idle_in_transaction_session_timeout', '${idleMs}', true)`;
    if (!pool.listeners('error').includes(ignoreError)) pool.on('error', ignoreError);
  }

  transact(transaction: StepTransaction, body: (tx: PoolClient) => Promised<string | null>): Promise<StepRow> {
    const { step } = transaction;
    return this.withClient(transaction, async (client) => {
      const found = await this.begin(client, transaction);
      if (settles(found.row, step)) {
        await client.rollback();
        return found.row;
      }
      const output = await client.call(body);
      await this.commit(client, step, found, output);
      return { attempt: step.attempt, output, error: null };
    });
  }

  read<T>(facts: TransactionFacts, body: (tx: PoolClient) => Promised<T>): Promise<T> {
    return this.withClient(facts, async (client) => {
      const results = await client.query(`${begin(facts)} READ ONLY; SELECT ${this.settings}, ${BEGUN} AS begun`);
      client.cancelling = () => this.cancelling(results.at(-1)?.rows ?? []);
      const output = await client.call(body);
      await client.query('COMMIT');
      return output;
    });
  }

  async run(statements: readonly Statement[], signal = NEVER): Promise<readonly object[]> {
    const facts = { isolation: undefined, isReadOnly: false, signal };
    const text = statements.map((statement) => literal(statement)).join(';\n');
    return this.withClient(facts, async (client) => {
      const results = await this.own(client, `BEGIN;\n${text};\nCOMMIT`);
      return results.at(-2)?.rows ?? [];
    });
  }

  /** Begins the transaction of a step, and returns the step's row. */
  private async begin(client: StepClient, transaction: StepTransaction): Promise<FoundStep> {
    const { step, isolation } = transaction;
    await this.prepare(client);
    const find = this.statement(client, 'find', this.table.find(step, this.settings));
    // A serializable transaction that reads the row conflicts with all that insert into the same page of the index.
    const apart = `BEGIN; ${find}; COMMIT; ${begin(transaction)}; SELECT ${this.settings}, ${BEGUN} AS begun`;
    const isApart = isolation === 'serializable';
    const results = await this.own(client, isApart ? apart : `${begin(transaction)}; ${find}`).catch((error) => {
      if (sqlStateOf(error) !== UNKNOWN_STATEMENT) throw error;
      this.keepsStatements = false;
      throw new StepTaken();
    });
    const answers = results.flatMap(({ rows }) => rows);
    client.cancelling = () => this.cancelling(answers.slice(-1));
    return { row: foundIn(answers.slice(0, 1)).row, begun: foundIn(answers.slice(-1)).begun };
  }

  /** Returns the text that cancels the query of a transaction. The row tells the transaction. */
  private cancelling([row]: readonly object[]): string {
    return literal(this.table.cancel(Number(property(row, 'pid')), String(property(row, 'begun'))));
  }

  /** Writes the row of the step and commits, in one round trip if no attempt has failed before. */
  private async commit(client: StepClient, step: StepAttempt, found: FoundStep, output: string | null): Promise<void> {
    const { row, begun } = found;
    if (row === undefined) {
      const insert = this.statement(client, 'insert', this.table.insert(step, output, begun, 'fail'));
      await this.own(client, `${insert}; COMMIT`);
      return;
    }
    const [replaced] = await this.own(client, literal(this.table.replace(step, output, begun)));
    if (replaced?.rowCount === 0) throw new StepTaken();
    await this.own(client, 'COMMIT');
  }

  /** Sends statements of the datasource itself as one text. */
  private async own(client: StepClient, text: string): Promise<QueryResult[]> {
    try {
      return await client.query(text);
    } catch (error) {
      throw explained(error, this.table);
    }
  }

  /**
   * Prepares the statements of each step, once for each connection. This comes before the transaction: nothing that the
   * function does may run again because of them.
   */
  private async prepare(client: StepClient): Promise<void> {
    const names = preparedBy(client.connection);
    if (!this.keepsStatements || names.has(this.suffix)) return;
    const step: StepAttempt = { key: '', store: '', instanceId: '', executionId: 0, attempt: 0 };
    const texts = {
      find: this.table.find(step, this.settings),
      insert: this.table.insert(step, '', '0', 'fail'),
    };
    const all = Object.entries(texts).map(
      ([kind, statement]) => `PREPARE perdure_${kind}_${this.suffix} AS ${textOf(statement, (n) => `$${n}`)}`,
    );
    await client.query(all.join('; ')).catch((error) => {
      if (property(error, 'code') !== DUPLICATE_STATEMENT) throw explained(error, this.table);
      // Behind a pooler: each transaction may have another connection.
      this.keepsStatements = false;
    });
    names.add(this.suffix);
  }

  /** Returns the text that runs a statement, prepared or not. */
  private statement(client: StepClient, kind: 'find' | 'insert', statement: Statement): string {
    if (!this.keepsStatements || !preparedBy(client.connection).has(this.suffix)) return literal(statement);
    const values = statement.values.map((value) => valueText(value)).join(', ');
    return `EXECUTE perdure_${kind}_${this.suffix}(${values})`;
  }

  /** Takes a client of the pool, unless the signal is aborted before there is one. */
  private async connect(signal: AbortSignal): Promise<PoolClient> {
    const connecting = (): Abandonable<PoolClient> => {
      const reply = this.pool.connect();
      const giveBack = (client: PoolClient): void => client.release();
      return { reply, abandon: () => void reply.then(giveBack).catch(ignoreError) };
    };
    try {
      return await untilAborted(signal, connecting);
    } catch (error) {
      throw explained(error, this.table);
    }
  }

  private async withClient<T>(facts: TransactionFacts, work: (client: StepClient) => Promise<T>): Promise<T> {
    const taken = await this.connect(facts.signal);
    const client = new StepClient(this.pool, taken, facts.signal);
    try {
      return await work(client);
    } catch (error) {
      await client.rollback();
      throw client.lost === undefined ? error : explained(client.lost, this.table);
    } finally {
      client.release();
    }
  }
}

/** Keeps an error of an idle connection from ending the process. The next use of the pool tells it. */
function ignoreError(): void {}

/** A client of the pool during one transaction. */
class StepClient {
  /** Returns the statement that cancels the query of the transaction. */
  cancelling = (): string => '';
  /** The reason for which the server ended the connection while no statement ran. */
  lost: Error | undefined;
  private readonly pool: Pool;
  readonly connection: PoolClient;
  private readonly signal: AbortSignal;
  private isBroken = false;
  private isSilent = false;
  /** Ends the wait for the answer to a statement of the datasource; `undefined` while none is awaited. */
  private giveUp: ((error: Error) => void) | undefined;
  private silence: NodeJS.Timeout | undefined;
  private readonly stopListening: () => void;

  constructor(pool: Pool, client: PoolClient, signal: AbortSignal) {
    this.pool = pool;
    this.connection = client;
    this.signal = signal;
    client.on('error', this.onError);
    this.stopListening = onAbort(signal, this.limitSilence);
  }

  /**
   * Sends statements as one text, and returns the result of each. Waits for an answer of the server, after an abort no
   * longer than {@link SILENCE_MAX}.
   */
  query(text: string): Promise<QueryResult[]> {
    return new Promise((resolve, reject) => {
      this.giveUp = reject;
      if (this.signal.aborted) this.limitSilence();
      this.connection.query(text, (error, result: QueryResult | QueryResult[]) => {
        this.giveUp = undefined;
        clearTimeout(this.silence);
        if (error) reject(error);
        else resolve(Array.isArray(result) ? result : [result]);
      });
    });
  }

  /** Ends the wait for the answer to a statement, if none comes soon. */
  private readonly limitSilence = (): void => {
    const { giveUp } = this;
    if (giveUp === undefined) return;
    this.silence = setTimeout(() => {
      this.isSilent = true;
      this.isBroken = true;
      giveUp(new SilentServer());
    }, SILENCE_MAX);
  };

  /** Calls the user's function, until the signal is aborted. */
  async call<T>(body: (tx: PoolClient) => Promised<T>): Promise<T> {
    const guard = guarded(this.connection);
    try {
      return await untilAborted(this.signal, () => ({
        reply: new Promise<T>((resolve) => resolve(body(guard.client))),
        abandon: () => void this.cancel().catch(ignoreError),
      }));
    } finally {
      guard.end();
    }
  }

  async rollback(): Promise<void> {
    try {
      if (!this.isSilent) await this.query('ROLLBACK');
    } catch {
      this.isBroken = true;
    }
  }

  release(): void {
    this.stopListening();
    this.connection.off('error', this.onError);
    this.connection.release(this.isBroken);
  }

  private readonly onError = (error: Error): void => {
    this.lost ??= error;
    this.isBroken = true;
  };

  /** Cancels the statement that runs. It may arrive late, so the client is not used again. */
  private async cancel(): Promise<void> {
    this.isBroken = true;
    const { constructor: Client } = this.connection as unknown as { constructor: new (options: object) => PoolClient };
    const other = new Client(this.pool.options);
    other.on('error', ignoreError);
    try {
      await other.connect();
      await other.query(this.cancelling());
    } finally {
      await other.end();
    }
  }
}

/** Longest wait for an answer of the server after an abort, ms. */
const SILENCE_MAX = 5_000;

/** The server does not answer. The connection counts as lost. */
class SilentServer extends Error {
  readonly code = 'ETIMEDOUT';

  constructor() {
    super(`the server has not answered for ${SILENCE_MAX} ms after the step was aborted`);
  }
}

const NEVER = new AbortController().signal;

function begin({ isolation }: TransactionFacts): string {
  return isolation === undefined ? 'BEGIN' : `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`;
}

/** The suffixes of the statements that connections have prepared. */
const prepared = new WeakMap<PoolClient, Set<string>>();

function preparedBy(client: PoolClient): Set<string> {
  const names = prepared.get(client) ?? new Set();
  prepared.set(client, names);
  return names;
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

// Datasources on any library: the interface that it meets, and the steps on top of it.

import { setTimeout as delay } from 'node:timers/promises';

import { untilAborted } from '../util/abort.ts';
import { checkOptions, func, type OptionTable, oneOf } from '../util/options.ts';
import { property } from '../util/show.ts';
import { guardedTransaction } from './client-guard.ts';
import { type Datasource, datasourceOf } from './datasource.ts';
import { explained } from './explained-error.ts';
import {
  type Isolation,
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
  type Dialect,
  foundIn,
  PID,
  type Statement,
  type StepRow,
  StepsTable,
} from './steps-table.ts';

/** The properties that a transaction should have. */
export interface TransactionOptions {
  /** `undefined`: the default of the database. */
  readonly isolation: Isolation | undefined;
  /** True if the transaction only reads. */
  readonly readOnly: boolean;
  /**
   * Aborted when the transaction is to end early. On Postgres the datasource cancels the running query itself, through
   * another connection of the library.
   */
  readonly signal: AbortSignal;
}

/** A library that runs SQL in transactions, as a datasource uses it. */
export interface DatasourceAdapter<Tx> {
  /** Language of the database. */
  readonly dialect: Dialect;
  /**
   * Runs `body` in one transaction, which is committed when its promise resolves, and rolled back when it rejects.
   * Returns the result of `body` or throws its error, which may be the `cause` of another one.
   */
  transaction<T>(body: (tx: Tx) => Promise<T>, options: TransactionOptions): Promise<T>;
  /**
   * Runs one statement in a transaction and returns its rows as objects. It is called as the tag of a template: the
   * parts of the text, and the values between them, which must become parameters.
   */
  query(tx: Tx, strings: TemplateStringsArray, ...values: (string | number | null)[]): Promise<readonly object[]>;
}

/** Options of {@link defineDatasource}. */
export interface DatasourceOptions {
  /** Name of the table of steps, with or without a schema. Default `'perdure_steps'`. */
  table?: string;
}

const ADAPTER: OptionTable = { dialect: oneOf('postgres', 'sqlite'), transaction: func, query: func };
const OPTIONS: OptionTable = { table: checkTable };

/**
 * Returns a datasource for a library that runs SQL in transactions, such as Drizzle, Kysely, Prisma, Knex or
 * postgres.js. The guide has the adapter of each.
 *
 * @throws TypeError when the adapter or an option is wrong
 *
 * @example
 * ```ts
 * const bank = defineDatasource<Knex.Transaction>({
 *   dialect: 'postgres',
 *   transaction: (body, { isolation, readOnly }) =>
 *     knex.transaction(body, { ...(isolation && { isolationLevel: isolation }), readOnly }),
 *   query: async (tx, strings, ...values) => (await tx.raw(strings.join('?'), values)).rows,
 * });
 * ```
 */
export function defineDatasource<Tx>(adapter: DatasourceAdapter<Tx>, options?: DatasourceOptions): Datasource<Tx> {
  const checked = checkOptions(adapter, ADAPTER, 'defineDatasource');
  for (const name of Object.keys(ADAPTER))
    if (checked?.[name as keyof typeof checked] === undefined)
      throw new TypeError(`defineDatasource: the adapter has no \`${name}\``);
  const { table = DEFAULT_TABLE } = checkOptions(options, OPTIONS, 'defineDatasource') ?? {};
  return datasourceOf(new AdaptedDatabase(adapter, new StepsTable(adapter.dialect, table)));
}

/** Longest wait for another connection that cancels a query, ms. */
const CANCEL_MAX = 5_000;

class AdaptedDatabase<Tx> implements StepDatabase<Tx> {
  readonly table: StepsTable;
  private readonly adapter: DatasourceAdapter<Tx>;

  constructor(adapter: DatasourceAdapter<Tx>, table: StepsTable) {
    this.adapter = adapter;
    this.table = table;
  }

  async transact(transaction: StepTransaction, body: (tx: Tx) => Promised<string | null>): Promise<StepRow> {
    const { step, isolation, signal } = transaction;
    signal.throwIfAborted();
    // A serializable transaction that reads the row conflicts with all that insert into the same page of the index.
    const isLookApart = isolation === 'serializable' && this.isPostgres;
    const before = isLookApart ? foundIn(await this.run([this.table.find(step)])).row : undefined;
    if (settles(before, step)) return before;
    return this.adapter.transaction(async (tx) => {
      const pid = this.isPostgres ? PID : undefined;
      const rows = await this.own(tx, isLookApart ? this.table.begun(PID) : this.table.find(step, pid));
      const { row, begun } = foundIn(rows);
      const found = isLookApart ? before : row;
      if (settles(found, step)) return found;
      const output = await this.call(tx, rows, transaction, body);
      const write =
        found === undefined
          ? this.table.insert(step, output, begun, 'returnNone')
          : this.table.replace(step, output, begun);
      if ((await this.own(tx, write)).length === 0) throw new StepTaken();
      return { attempt: step.attempt, output, error: null };
    }, optionsOf(transaction));
  }

  async read<T>(facts: TransactionFacts, body: (tx: Tx) => Promised<T>): Promise<T> {
    facts.signal.throwIfAborted();
    return this.adapter.transaction(async (tx) => {
      const rows = this.isPostgres ? await this.own(tx, this.table.begun(PID)) : [];
      return this.call(tx, rows, facts, body);
    }, optionsOf(facts));
  }

  run(statements: readonly Statement[], signal = new AbortController().signal): Promise<readonly object[]> {
    const facts = { isolation: undefined, readOnly: false, signal };
    return this.adapter.transaction(async (tx) => {
      let rows: readonly object[] = [];
      for (const statement of statements) rows = await this.own(tx, statement);
      return rows;
    }, facts);
  }

  private get isPostgres(): boolean {
    return this.table.dialect === 'postgres';
  }

  /**
   * Calls the user's function, until the signal is aborted. The query that then runs is cancelled, because the library
   * can roll back only after it.
   *
   * @param rows - the answer to the first statement of the transaction, with the number of the server's process
   */
  private async call<T>(
    tx: Tx,
    rows: readonly object[],
    { signal }: TransactionFacts,
    body: (tx: Tx) => Promised<T>,
  ): Promise<T> {
    const guard = guardedTransaction(tx);
    let cancelled: Promise<unknown> | undefined;
    try {
      return await untilAborted(signal, () => ({
        reply: new Promise<T>((resolve) => resolve(body(guard.client))),
        abandon: () => {
          cancelled = this.cancel(rows);
        },
      }));
    } finally {
      guard.end();
      // The connection stays in the transaction meanwhile, so no other query can be hit.
      await cancelled;
    }
  }

  /** Cancels the query of a transaction, through another connection. Waits no longer than {@link CANCEL_MAX}. */
  private async cancel([first]: readonly object[]): Promise<void> {
    const [pid, begun] = [property(first, 'pid'), property(first, 'begun')];
    if (pid === undefined || begun === undefined) return;
    const timeUp = new AbortController();
    const cancelling = this.run([this.table.cancel(Number(pid), String(begun))]).catch(() => undefined);
    const late = delay(CANCEL_MAX, undefined, { signal: timeUp.signal, ref: false }).catch(() => undefined);
    await Promise.race([cancelling, late]);
    timeUp.abort();
  }

  /** Runs one of the datasource's own statements. */
  private async own(tx: Tx, { strings, values }: Statement): Promise<readonly object[]> {
    try {
      return await this.adapter.query(tx, strings, ...values);
    } catch (error) {
      throw explained(error, this.table);
    }
  }
}

function optionsOf({ isolation, isReadOnly, signal }: TransactionFacts): TransactionOptions {
  return { isolation, readOnly: isReadOnly, signal };
}

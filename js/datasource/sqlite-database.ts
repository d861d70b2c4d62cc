// Transactional steps on a connection to a SQLite file whose statements are synchronous.

import { DatasourceError } from '../errors/errors.ts';
import { property } from '../util/show.ts';
import { guarded } from './client-guard.ts';
import { endedByFunction, explained } from './explained-error.ts';
import {
  type Promised,
  type StepDatabase,
  StepTaken,
  type StepTransaction,
  settles,
  type TransactionFacts,
} from './step.ts';
import { foundIn, type Statement, type StepRow, StepsTable, sql, textOf } from './steps-table.ts';

/** The parts of a synchronous connection that the datasource uses. */
export interface SqliteConnection {
  exec(sql: string): unknown;
  prepare(sql: string): {
    all(...values: (string | number | null)[]): unknown[];
    run(...values: (string | number | null)[]): unknown;
    /** False, in `better-sqlite3`, for a statement that returns no rows. */
    readonly reader?: boolean;
  };
}

const BEGIN = sql`BEGIN`;
const BEGIN_IMMEDIATE = sql`BEGIN IMMEDIATE`;
const COMMIT = sql`COMMIT`;

type SqliteStatement = ReturnType<SqliteConnection['prepare']>;

/**
 * A connection with its table of steps. A transaction is one piece: no other code runs between its first statement and
 * its commit, so attempts can share the connection.
 */
export class SqliteDatabase<Connection extends SqliteConnection> implements StepDatabase<Connection> {
  readonly table: StepsTable;
  private readonly connection: Connection;
  /** The datasource's own statements, by the parts of their texts. Those of each step have the same parts each time. */
  private readonly ofStrings = new WeakMap<TemplateStringsArray, SqliteStatement>();
  /** Name of the property that tells if a transaction is open. */
  private readonly isOpen: string;

  constructor(connection: Connection, table: string, isOpen: 'inTransaction' | 'isTransaction') {
    this.table = new StepsTable('sqlite', table);
    this.connection = connection;
    this.isOpen = isOpen;
  }

  async transact({ step }: StepTransaction, body: (tx: Connection) => Promised<string | null>): Promise<StepRow> {
    return this.within(BEGIN_IMMEDIATE, () => {
      const { row: found } = foundIn(this.own(this.table.find(step)));
      if (settles(found, step)) return found;
      const output = this.call(body);
      const isWritten =
        found === undefined
          ? this.changes(this.table.insert(step, output, undefined, 'changeNone'))
          : this.own(this.table.replace(step, output, undefined)).length > 0;
      if (!isWritten) throw new StepTaken();
      return { attempt: step.attempt, output, error: null };
    });
  }

  async read<T>(_: TransactionFacts, body: (tx: Connection) => Promised<T>): Promise<T> {
    return this.within(BEGIN, () => {
      this.connection.exec('PRAGMA query_only = 1');
      try {
        return this.call(body);
      } finally {
        this.connection.exec('PRAGMA query_only = 0');
      }
    });
  }

  async run(statements: readonly Statement[]): Promise<readonly object[]> {
    return this.within(BEGIN_IMMEDIATE, () => {
      let rows: readonly object[] = [];
      for (const statement of statements) rows = this.own(statement);
      return rows;
    });
  }

  private within<T>(begin: Statement, work: () => T): T {
    if (this.hasTransaction === true)
      throw new DatasourceError(
        'the connection of this datasource is within a transaction of other code; give the datasource a connection ' +
          'of its own, or end the transaction before the code waits',
        { retryable: true, outcome: 'not committed' },
      );
    try {
      this.prepared(begin).run();
    } catch (error) {
      throw explained(error, this.table);
    }
    try {
      const result = work();
      this.prepared(COMMIT).run();
      return result;
    } catch (error) {
      if (this.hasTransaction !== false) this.connection.exec('ROLLBACK');
      throw error;
    }
  }

  /** Calls the user's function, which must not be asynchronous. */
  private call<T>(body: (tx: Connection) => Promised<T>): T {
    const guard = guarded(this.connection);
    let result: Promised<T>;
    try {
      result = body(guard.client);
    } finally {
      guard.end();
    }
    if (typeof property(result, 'then') === 'function') {
      (result as PromiseLike<T>).then(undefined, () => undefined);
      throw new DatasourceError(
        'the function of a step on a synchronous SQLite connection must not be async: other code would use the ' +
          'connection during its transaction. Return the value itself',
        { retryable: false, outcome: 'not committed' },
      );
    }
    if (this.hasTransaction === false) throw endedByFunction(this.table);
    return result as T;
  }

  /** Runs one of the datasource's own statements. */
  private own(statement: Statement): object[] {
    try {
      const prepared = this.prepared(statement);
      if (prepared.reader !== false) return prepared.all(...statement.values) as object[];
      prepared.run(...statement.values);
      return [];
    } catch (error) {
      throw explained(error, this.table);
    }
  }

  /** Runs one of the datasource's own statements. Returns true if it has changed a row. */
  private changes(statement: Statement): boolean {
    try {
      return Number(property(this.prepared(statement).run(...statement.values), 'changes')) > 0;
    } catch (error) {
      throw explained(error, this.table);
    }
  }

  private prepared(statement: Statement): SqliteStatement {
    const known = this.ofStrings.get(statement.strings);
    if (known !== undefined) return known;
    const made = this.connection.prepare(textOf(statement, () => '?'));
    this.ofStrings.set(statement.strings, made);
    return made;
  }

  /** `undefined`: this version of the library does not tell. */
  private get hasTransaction(): unknown {
    return property(this.connection, this.isOpen);
  }
}

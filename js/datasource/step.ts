// A database as transactional steps use it.

import type { Statement, StepAttempt, StepRow, StepsTable } from './steps-table.ts';

/** The isolation levels of a transaction. */
export const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'] as const;

/** The isolation level of a transaction. */
export type Isolation = (typeof ISOLATIONS)[number];

/** The properties of a transaction. */
export interface TransactionFacts {
  /** `undefined`: the default of the database. */
  readonly isolation: Isolation | undefined;
  readonly isReadOnly: boolean;
  /** Aborted when the transaction should end early: the running query is cancelled, where the library can. */
  readonly signal: AbortSignal;
}

/** The transaction of a step. */
export interface StepTransaction extends TransactionFacts {
  readonly step: StepAttempt;
  /**
   * True if no attempt of the step and no transaction of this attempt has begun, so there is no row of it. It holds
   * until `transact` returns.
   */
  readonly isUntried: boolean;
}

/** A database with its table of steps. */
export interface StepDatabase<Tx> {
  readonly table: StepsTable;
  /**
   * Runs `body` and writes the row of its output in one transaction. Returns the row that settles the step: the new
   * one, or one that was there, and then `body` was not called.
   *
   * @param body - returns the stored text of the output
   * @throws StepTaken when another attempt has written a row meanwhile
   * @throws the error of `body` or of the database; nothing was written, unless the connection was lost
   */
  transact(transaction: StepTransaction, body: (tx: Tx) => Promised<string | null>): Promise<StepRow>;
  /** Runs `body` in a read-only transaction without a row. */
  read<T>(facts: TransactionFacts, body: (tx: Tx) => Promised<T>): Promise<T>;
  /** Runs statements in one transaction. Returns the rows of the last one. `signal` ends the wait for the database. */
  run(statements: readonly Statement[], signal?: AbortSignal): Promise<readonly object[]>;
}

/** A value, or a promise of it. */
export type Promised<T> = T | PromiseLike<T>;

/** Another attempt has written the row of the step: nothing of this transaction is kept. */
export class StepTaken extends Error {}

/** True if the row settles the step for an attempt (G4). */
export function settles(row: StepRow | undefined, { attempt }: StepAttempt): row is StepRow {
  return row !== undefined && (row.error === null || row.attempt >= attempt);
}

// The errors of a datasource's own statements, in words that say what to do.

import { DatasourceError } from '../errors/errors.ts';
import { property } from '../util/show.ts';
import { messageOf, sqlStateOf } from './database-errors.ts';
import { StepTaken } from './step.ts';
import type { StepsTable } from './steps-table.ts';

const UNDEFINED_TABLE = '42P01';
const INSUFFICIENT_PRIVILEGE = '42501';
const NOT_NULL = '23502';
const UNIQUE = '23505';
const FAILED_TRANSACTION = '25P02';
const READ_ONLY = '25006';
const IDLE = '25P03';

/** Returns the error to throw for one of a statement on the table of steps. Conflicts and lost connections stay. */
export function explained(error: unknown, table: StepsTable): unknown {
  const message = messageOf(error);
  const wrong = (text: string, retryable = true): DatasourceError =>
    new DatasourceError(text, { retryable, outcome: 'not committed', cause: error });
  switch (sqlStateOf(error)) {
    case UNDEFINED_TABLE:
      return wrong(missing(table));
    case INSUFFICIENT_PRIVILEGE:
      return wrong(
        `the role of this datasource may not use its table "${table.name}" (${message}); the owner of the table ` +
          `grants that: GRANT SELECT, INSERT, UPDATE, DELETE ON ${table.name} TO …`,
      );
    case NOT_NULL:
      return endedByFunction(table, error);
    case UNIQUE:
      return isOf(error, table) ? new StepTaken() : error;
    case FAILED_TRANSACTION:
      return wrong(
        'a statement of the function failed, the function caught its error, and Postgres takes no further statement ' +
          'in that transaction. Let the error out, or run the statement between SAVEPOINT and ROLLBACK TO SAVEPOINT',
      );
    case READ_ONLY:
      return wrong('the database takes no writes: it is a standby, or its transactions are read-only by default');
    case IDLE:
      return wrong(
        'the server ended the transaction of this step, because the function sent no statement for longer than ' +
          'idleTimeout; do slow work before or after the step',
      );
  }
  if (message.startsWith(`no such table: ${table.name}`)) return wrong(missing(table));
  if (message.startsWith('Cannot use a pool after calling end'))
    return wrong('the pool of this datasource has ended; end it after the runtime has shut down');
  return error;
}

/** Returns the error for a function that ended the transaction which it was given. */
export function endedByFunction(table: StepsTable, cause?: unknown): DatasourceError {
  return new DatasourceError(
    'the function ended its transaction with COMMIT or ROLLBACK. Its writes until then stay or are gone, and the ' +
      `table "${table.name}" has no record of them, so the step is not repeated. The datasource commits when the ` +
      'function returns',
    { retryable: false, outcome: 'unknown', ...(cause === undefined ? {} : { cause }) },
  );
}

function missing({ name }: StepsTable): string {
  return (
    `the table "${name}" is missing in the database of this datasource; make it with \`await datasource.install()\` ` +
    'or `perdure datasource install`'
  );
}

/** True if an error of Postgres is about the table. */
function isOf(error: unknown, { name }: StepsTable): boolean {
  const found = property(error, 'table');
  return found === undefined || found === name.split('.').at(-1);
}

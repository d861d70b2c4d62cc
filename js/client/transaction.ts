// The transactions of users that requests are made in: recognised by their shape, because no driver is imported.

import { property, show } from '../util/show.ts';

/** A statement with its parameters. */
export interface Statement {
  readonly sql: string;
  readonly values: readonly (string | null)[];
}

/** A transaction of a user, or a connection that has one open. */
export type Transaction =
  /** Statements are sent, and their answers come later. */
  | { readonly database: Database; readonly isSync: false; send(statement: Statement): Promise<unknown> }
  /** Statements are carried out at once. */
  | { readonly database: 'sqlite'; readonly isSync: true; send(statement: Statement): unknown };

/** The kind of a database; `null` if the transaction does not tell. */
type Database = 'postgres' | 'sqlite' | null;

const WHERE = 'client.within';

const TAKES =
  'takes a transaction: a client of `pg`, a Drizzle or Kysely transaction, a better-sqlite3 or node:sqlite database, ' +
  'or an object with query(text, values)';

/**
 * Returns the transaction that a value is.
 *
 * @throws TypeError when it is none, or a pool, whose connections have no transaction in common
 */
export function transactionOf(given: unknown): Transaction {
  const has = (...methods: string[]): boolean => methods.every((name) => typeof property(given, name) === 'function');
  if (has('prepare', 'exec')) return ofSqlite(given);
  if (has('executeQuery')) return ofKysely(given);
  const inner = property(property(given, 'session'), 'client');
  if (inner !== undefined && inner !== null) return transactionOf(inner);
  if (isPool(given)) {
    throw new TypeError(
      `${WHERE} takes a transaction, and this is a pool or a database, each statement of which may run on another ` +
        'connection: pass the client that has begun the transaction',
    );
  }
  if (has('unsafe', 'savepoint')) return ofPostgres(given, 'unsafe');
  if (has('query')) return ofPostgres(given, 'query');
  throw new TypeError(`${WHERE} ${TAKES}; got ${show(given)}`);
}

/** True for a pool of `pg`, and for the client of postgres.js outside of a transaction. */
function isPool(given: unknown): boolean {
  const isPgPool = typeof property(given, 'idleCount') === 'number' && typeof property(given, 'connect') === 'function';
  return (
    isPgPool || (typeof property(given, 'unsafe') === 'function' && typeof property(given, 'begin') === 'function')
  );
}

function ofPostgres(given: unknown, method: 'query' | 'unsafe'): Transaction {
  const target = given as Record<typeof method, (sql: string, values: readonly unknown[]) => Promise<unknown>>;
  return { database: null, isSync: false, send: async ({ sql, values }) => target[method](sql, [...values]) };
}

function ofSqlite(given: unknown): Transaction {
  const target = given as { prepare(sql: string): { run(...values: unknown[]): unknown } };
  return { database: 'sqlite', isSync: true, send: ({ sql, values }) => target.prepare(sql).run(...values) };
}

/** Kysely takes a compiled query as a plain object. */
function ofKysely(given: unknown): Transaction {
  if (property(given, 'isTransaction') === false) {
    throw new TypeError(
      `${WHERE} takes a transaction, and this is a Kysely outside of one: pass what \`db.transaction()\` gives`,
    );
  }
  const target = given as { executeQuery(query: object): Promise<unknown> };
  const send = async ({ sql, values }: Statement): Promise<unknown> =>
    target.executeQuery({
      sql,
      parameters: values,
      query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
      queryId: { queryId: 'perdure' },
    });
  return { database: dialectOf(given), isSync: false, send };
}

function dialectOf(kysely: unknown): Database {
  const executor = property(kysely, 'getExecutor');
  const found = typeof executor === 'function' ? property(Reflect.apply(executor, kysely, []), 'adapter') : undefined;
  const name = String(property(property(found, 'constructor'), 'name')).toLowerCase();
  if (name.includes('sqlite')) return 'sqlite';
  return name.includes('postgres') ? 'postgres' : null;
}

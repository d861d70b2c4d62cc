// The table in the user's database that tells which steps have happened: its statements, for each dialect.

/** A database whose SQL this folder knows. */
export type Dialect = 'postgres' | 'sqlite';

/** One statement as the parts of a template, so that every library can pass its values as parameters. */
export interface Statement {
  readonly strings: TemplateStringsArray;
  readonly values: readonly (string | number | null)[];
}

/** The row of a step. */
export interface StepRow {
  /** Number of the attempt that wrote the row. */
  readonly attempt: number;
  /** Stored text of the output; `null` for `undefined`, and for a failure. */
  readonly output: string | null;
  /** Stored text of the error; `null`: the step has happened. */
  readonly error: string | null;
}

/** The answer of a database to the question for the row of a step. */
export interface FoundStep {
  readonly row: StepRow | undefined;
  /** The begin of the transaction by the database's clock, µs; `undefined` if the database does not tell. */
  readonly begun: string | undefined;
}

/** Reads the row that the statement of {@link StepsTable.find} returned. */
export function foundIn([first]: readonly object[]): FoundStep {
  const { attempt, output, error, begun } = (first ?? {}) as Partial<StepRow & { begun: string | number }>;
  const row =
    attempt === undefined || attempt === null
      ? undefined
      : { attempt: Number(attempt), output: output ?? null, error: error ?? null };
  return { row, begun: begun === undefined ? undefined : String(begun) };
}

/** The identity of a step, and the attempt that runs it. */
export interface StepAttempt {
  /** The idempotency key of the activity. */
  readonly key: string;
  /** Identity of the store of the instance. */
  readonly store: string;
  readonly instanceId: string;
  readonly executionId: number;
  readonly attempt: number;
}

/** A step of an earlier time, for sweeping. */
export interface OldStep {
  readonly key: string;
  readonly instance: string;
  readonly execution: number;
  /** Age of the row, s. */
  readonly age: number;
}

/** The name of the table if none is given. */
export const DEFAULT_TABLE = 'perdure_steps';

const NAME = /^[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?$/;

/**
 * Returns the check of the name of a table: one or two identifiers, such as `app.perdure_steps`.
 *
 * @throws TypeError when it is no such name
 */
export function checkTable(value: unknown, path: string): void {
  if (typeof value === 'string' && NAME.test(value)) return;
  throw new TypeError(`${path} must be the name of a table, such as 'perdure_steps' or 'app.perdure_steps'`);
}

/** The begin of a transaction by the server's clock, µs. Another transaction of the same connection has another one. */
export const BEGUN = '(extract(epoch FROM now()) * 1000000)::bigint';
/** The number of the server's process that runs the transaction, as a column. */
export const PID = 'pg_backend_pid() AS pid';

/** Ends of an insertion: it fails if there is a row, returns no key then, or changes no row then. */
const IF_TAKEN = {
  fail: '',
  returnNone: ' ON CONFLICT (key) DO NOTHING RETURNING key',
  changeNone: ' ON CONFLICT (key) DO NOTHING',
};
type IfTaken = keyof typeof IF_TAKEN;

/** Makes the statements on one table. */
export class StepsTable {
  readonly dialect: Dialect;
  /** The name as it was given. */
  readonly name: string;
  private readonly quoted: string;
  /** The texts of the statements of each step, which are made once. */
  private readonly texts = new Map<string, TemplateStringsArray>();

  constructor(dialect: Dialect, name: string) {
    this.dialect = dialect;
    this.name = name;
    this.quoted = name
      .split('.')
      .map((part) => `"${part}"`)
      .join('.');
  }

  /**
   * Returns the statements that make the table, or bring a table of an older version to the newest one. Each may run
   * again.
   */
  migrationTexts(): string[] {
    const isPostgres = this.dialect === 'postgres';
    const [number, time] = isPostgres ? ['bigint', 'timestamptz'] : ['integer', 'text'];
    const now = isPostgres ? 'now()' : `(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))`;
    // Without a rowid, a SQLite table has no second tree for its key, and a commit writes a page less.
    const end = isPostgres ? ')' : ') WITHOUT ROWID';
    const create = `CREATE TABLE IF NOT EXISTS ${this.quoted} (
  key text PRIMARY KEY,
  store text NOT NULL,
  instance text NOT NULL,
  execution ${number} NOT NULL,
  attempt ${number} NOT NULL,
  output text,
  error text,
  at ${time} NOT NULL DEFAULT ${now}
${end}`;
    // Two processes that make the table at once would both find it missing.
    const lock = `SELECT pg_advisory_xact_lock(hashtextextended('perdure ${this.name}', 0))::text`;
    return isPostgres ? [lock, create] : [create];
  }

  /** Returns the statements of {@link migrationTexts}. */
  migration(): Statement[] {
    return this.migrationTexts().map((text) => sql`${raw(text)}`);
  }

  /**
   * Returns the statement that finds the row of a step; see {@link foundIn}. On Postgres it always returns one row.
   *
   * @param more - further columns, on Postgres
   */
  find({ key }: StepAttempt, more?: string): Statement {
    const others = raw(more === undefined ? '' : `, ${more}`);
    return this.once(more ?? '', [key], () =>
      this.dialect === 'postgres'
        ? sql`SELECT s.attempt, s.output, s.error, ${raw(BEGUN)} AS begun${others}
      FROM (SELECT 1) AS one LEFT JOIN ${this.table} AS s ON s.key = ${key}`
        : sql`SELECT attempt, output, error FROM ${this.table} WHERE key = ${key}`,
    );
  }

  /** Returns the statement that tells when the transaction began. */
  begun(more: string): Statement {
    return sql`SELECT ${raw(BEGUN)} AS begun, ${raw(more)}`;
  }

  /** Returns a statement with the columns of {@link find}, that looks for no row. */
  told(more: string): Statement {
    return this.once(`told ${more}`, [], () => {
      const none = raw('NULL AS attempt, NULL AS output, NULL AS error');
      return sql`SELECT ${none}, ${raw(BEGUN)} AS begun, ${raw(more)}`;
    });
  }

  /** Returns the statement that cancels the query of a transaction, unless the transaction has ended. */
  cancel(pid: number, begun: string): Statement {
    return sql`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
      WHERE pid = ${pid} AND (extract(epoch FROM xact_start) * 1000000)::bigint = ${raw(begun)}`;
  }

  /**
   * Returns the statement that inserts the row of a success. A transaction that began at another time than `begun`
   * breaks the rule that `store` is not null.
   *
   * @param ifTaken - what the statement does if there is a row
   */
  insert(step: StepAttempt, output: string | null, begun: string | undefined, ifTaken: IfTaken): Statement {
    const { key, store, instanceId, executionId, attempt } = step;
    const told = begun === undefined ? [key, store] : [key, begun, store];
    const values = [...told, instanceId, executionId, attempt, output];
    return this.once(ifTaken, values, () => {
      const storeIfBegun = ifBegun(store, begun);
      return sql`INSERT INTO ${this.table} (key, store, instance, execution, attempt, output)
      VALUES (${key}, ${storeIfBegun}, ${instanceId}, ${executionId}, ${attempt}, ${output})${raw(IF_TAKEN[ifTaken])}`;
    });
  }

  /** Returns the statement that makes the failure of an earlier attempt a success. It returns no row if it must not. */
  replace({ key, store, attempt }: StepAttempt, output: string | null, begun: string | undefined): Statement {
    return sql`UPDATE ${this.table}
      SET attempt = ${attempt}, store = ${ifBegun(store, begun)}, output = ${output}, error = NULL
      WHERE key = ${key} AND error IS NOT NULL AND attempt < ${attempt} RETURNING key`;
  }

  /** Returns the statement that writes a failure. It changes neither a success nor the row of a later attempt. */
  fail({ key, store, instanceId, executionId, attempt }: StepAttempt, error: string): Statement {
    return sql`INSERT INTO ${this.table} AS s (key, store, instance, execution, attempt, error)
      VALUES (${key}, ${store}, ${instanceId}, ${executionId}, ${attempt}, ${error})
      ON CONFLICT (key) DO UPDATE SET attempt = excluded.attempt, error = excluded.error
      WHERE s.error IS NOT NULL AND s.attempt < excluded.attempt RETURNING key`;
  }

  /** Returns the statement that reads the next steps of a store, in the order of their keys, that are old enough. */
  old(store: string, after: string, age: number, count: number): Statement {
    const seconds = raw(
      this.dialect === 'postgres'
        ? 'extract(epoch FROM now() - at)::float8'
        : `(julianday('now') - julianday(at)) * 86400`,
    );
    return sql`SELECT key, instance, execution, ${seconds} AS age FROM ${this.table}
      WHERE key > ${after} AND store = ${store} AND ${seconds} > ${age} ORDER BY key LIMIT ${count}`;
  }

  /** Returns the statement that deletes the rows of some steps. */
  delete(keys: readonly string[]): Statement {
    const list = JSON.stringify(keys);
    return this.dialect === 'postgres'
      ? sql`DELETE FROM ${this.table} WHERE key IN (SELECT jsonb_array_elements_text(${list}::text::jsonb))`
      : sql`DELETE FROM ${this.table} WHERE key IN (SELECT value FROM json_each(${list}))`;
  }

  private get table(): Raw {
    return raw(this.quoted);
  }

  /** Returns a statement whose text `make` makes only once for each name. */
  private once(name: string, values: Statement['values'], make: () => Statement): Statement {
    let strings = this.texts.get(name);
    if (strings === undefined) {
      strings = make().strings;
      this.texts.set(name, strings);
    }
    return { strings, values };
  }
}

/** A part of a statement that stands in its text. */
interface Raw {
  readonly raw: string;
}

function raw(text: string): Raw {
  return { raw: text };
}

/** Returns the name of the store, or null if the transaction began at another time. */
function ifBegun(store: string, begun: string | undefined): Statement {
  return begun === undefined
    ? sql`${store}`
    : sql`CASE WHEN ${raw(BEGUN)} = ${begun}${raw('::bigint')} THEN ${store}${raw('::text')} END`;
}

type Part = string | number | null | Raw | Statement;

/** Makes a statement of a template. A statement within it becomes a part of it. */
export function sql(strings: TemplateStringsArray, ...parts: readonly Part[]): Statement {
  const texts = [strings[0] as string];
  const values: (string | number | null)[] = [];
  const add = (text: string): void => {
    texts.push((texts.pop() as string) + text);
  };
  for (const [n, part] of parts.entries()) {
    if (typeof part !== 'object' || part === null) {
      values.push(part);
      texts.push('');
    } else if ('raw' in part) {
      add(part.raw);
    } else {
      add(part.strings[0] as string);
      values.push(...part.values);
      texts.push(...part.strings.slice(1));
    }
    add(strings[n + 1] as string);
  }
  // Libraries tell a template from other arguments by its property `raw`.
  return { strings: Object.assign(texts, { raw: texts }) as unknown as TemplateStringsArray, values };
}

/** Returns the text of a statement with a placeholder for each value. `placeholder` gets their numbers, from 1. */
export function textOf({ strings }: Statement, placeholder: (n: number) => string): string {
  return strings.reduce((text, part, n) => text + placeholder(n) + part);
}

// Datasources: databases of the user's, and the activities that happen there exactly once.

import { type ActivityDefinition, defineActivity, settleLate } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import { ACTIVITY_OPTIONS, type ActivityKey, type ActivityOptions } from '../activity/activity-options.ts';
import type { Client } from '../client/client.ts';
import { bool, checkName, checkOptions, type OptionTable, oneOf } from '../util/options.ts';
import { property } from '../util/show.ts';
import { checkSchema, type SchemaInput, type SchemaOutput, type StandardSchema } from '../values/schema.ts';
import { runRead, runStep, withRetries } from './run.ts';
import { ISOLATIONS, type Isolation, type StepDatabase } from './step.ts';
import { Sweeper } from './sweeping.ts';

/** The function of a transactional step. `tx` is the transaction, and of no use after the function has returned. */
export type TransactionalFunction<Tx, I = any, O = any> = (
  tx: Tx,
  input: I,
  ctx: ActivityContext,
) => O | PromiseLike<O>;

/** Options of `datasource.activity`: those of an activity, and those of its transaction. */
export interface DatasourceActivityOptions<Key = ActivityKey> extends ActivityOptions<Key> {
  /** Isolation level of the transaction. Default: that of the database. SQLite is always serializable. */
  isolation?: Isolation;
  /**
   * True: the transaction reads only. It leaves no record, and a repeated attempt reads again. A write fails. Default
   * false.
   */
  readOnly?: boolean;
}

/** A database of the user's, with the table that tells which steps have happened. */
export interface Datasource<Tx> {
  readonly kind: 'datasource';
  /**
   * Defines an activity that happens exactly once: its writes in the transaction and the record of its outcome are
   * committed together. A repeated attempt, also one of another worker, gets the recorded outcome, and does not call
   * `fn`. The transaction runs again in the same attempt when the database rolls it back because of another one.
   *
   * The statements of `fn` must go through `tx`. Whatever else `fn` does happens at least once, as in any activity.
   * `fn` must not end the transaction. It may use savepoints.
   *
   * @param name - as in `defineActivity`
   * @param fn - its output is stored in the table, so it is checked before the commit
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const transfer = bank.activity('transfer', async (tx, { from, to, cents }: Transfer) => {
   *   await tx.query('update accounts set cents = cents - $2 where name = $1', [from, cents]);
   *   await tx.query('update accounts set cents = cents + $2 where name = $1', [to, cents]);
   * }, { isolation: 'serializable' });
   * ```
   */
  activity<S extends StandardSchema, O = unknown>(
    name: string,
    fn: TransactionalFunction<Tx, SchemaOutput<S>, O>,
    options: DatasourceActivityOptions<ActivityKey<SchemaInput<S>>> & { input: S },
  ): ActivityDefinition<SchemaInput<S>, O>;
  activity<I = undefined, O = unknown>(
    name: string,
    fn: TransactionalFunction<Tx, I, O>,
    options?: DatasourceActivityOptions<ActivityKey<NoInfer<I>>>,
  ): ActivityDefinition<I, O>;
  /**
   * Makes the table of steps, or brings one of an older version to the newest. It may be called at every start, by
   * several processes at once.
   */
  install(): Promise<void>;
  /** Returns the statements of {@link install}, for a migration tool. */
  installStatements(): string[];
  /**
   * Deletes the rows of instances of the client's store that are gone, if the rows are older than a day. Workers do so
   * by themselves while steps run.
   *
   * @returns the number of deleted rows
   */
  sweep(client: Client): Promise<number>;
}

const OPTIONS: OptionTable = {
  ...ACTIVITY_OPTIONS,
  input: checkSchema,
  isolation: oneOf(...ISOLATIONS),
  readOnly: bool,
};

type GivenOptions = DatasourceActivityOptions & { input?: StandardSchema | undefined };

/** True if `value` is a datasource, of this or another copy of this package. */
export function isDatasource(value: unknown): value is Datasource<unknown> {
  return property(value, 'kind') === 'datasource' && typeof property(value, 'installStatements') === 'function';
}

/** Returns the datasource of a database. */
export function datasourceOf<Tx>(database: StepDatabase<Tx>): Datasource<Tx> {
  const sweeper = new Sweeper(database);
  const activity = (name: string, fn: TransactionalFunction<Tx>, options?: GivenOptions): ActivityDefinition => {
    checkName(name, 'activity name');
    if (typeof fn !== 'function')
      throw new TypeError(`datasource.activity '${name}': the second argument must be a function`);
    const { isolation, readOnly = false, ...others } = checkOptions(options, OPTIONS, `activity '${name}'`) ?? {};
    const facts = { isolation, isReadOnly: readOnly };
    const attempt = async (ctx: ActivityContext, input: unknown): Promise<unknown> => {
      const call = (tx: Tx): unknown => fn(tx, input, ctx);
      if (readOnly) return runRead(database, facts, ctx, call);
      const output = await runStep(database, facts, ctx, call);
      sweeper.afterStep(ctx.client);
      return output;
    };
    // Without options, the history records none for each call.
    const own = options === undefined ? options : others;
    return defineActivity(name, settleLate(attempt), own as GivenOptions & { input: StandardSchema });
  };
  return Object.freeze({
    kind: 'datasource',
    activity,
    install: async () => {
      const { signal } = new AbortController();
      await withRetries({ signal, isOutOfTime: false }, () => database.run(database.table.migration()));
    },
    installStatements: () => database.table.migrationTexts(),
    sweep: (client: Client) => sweeper.sweep(client),
  }) as Datasource<Tx>;
}

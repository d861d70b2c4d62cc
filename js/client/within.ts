// Requests in a transaction of the user's database, which holds the store: see docs/internals/transactions.md.

import { ADMISSION_OPTIONS, admissionOf } from '../orchestration/admission.ts';
import type { InputArguments } from '../orchestration/call-options.ts';
import { isOrchestration, type OrchestrationDefinition } from '../orchestration/definition.ts';
import {
  type EventDefinition,
  type MessageArguments,
  mailboxOf,
  type QueueDefinition,
  type TypedMailbox,
} from '../orchestration/messages.ts';
import type { StoreDatabase, StorePort } from '../store/providers.ts';
import type { TraceContext } from '../tracing/telemetry-hooks.ts';
import { checkName, checkOptions, named, type OptionTable, oneOf, priority, textsByName } from '../util/options.ts';
import { property, show } from '../util/show.ts';
import { isThenable } from '../util/thenable.ts';
import { uuidv7 } from '../util/uuid.ts';
import { Place } from '../values/codec-context.ts';
import { toPayload } from '../values/payload.ts';
import { parse } from '../values/schema.ts';
import type { StartOptions } from './client-options.ts';
import type { Requests } from './requests.ts';
import { KEYED_START_OPTIONS, type KeyedStartOptions } from './start-key.ts';
import { type Statement, type Transaction, transactionOf } from './transaction.ts';
import { type RequestFacts, requestError } from './transaction-errors.ts';

/**
 * Options of {@link TransactionClient.startOrchestration}. A `delay` counts from the commit on in a Postgres database,
 * and from the call on in a SQLite file.
 */
export interface TransactionStartOptions extends Omit<StartOptions, 'onConflict' | keyof KeyedStartOptions> {
  /** `'return'`: a start whose id is in use changes nothing, and is no error. Default `'error'`. */
  onConflict?: 'error' | 'return';
}

/** Options of {@link TransactionClient.start}. */
export interface TypedTransactionStartOptions extends Omit<TransactionStartOptions, 'version'> {
  /** Id of the new instance. Default: a UUID of version 7. */
  id?: string;
}

const OPTIONS = {
  version: named,
  priority,
  tags: checkTags,
  ...ADMISSION_OPTIONS,
  onConflict: oneOf('error', 'return'),
} satisfies OptionTable;

const { version: _, ...TYPED } = OPTIONS;
const TYPED_OPTIONS = { ...TYPED, id: named };

/** A value that is there at once, or comes later. */
type Maybe<T> = T | Promise<T>;

/**
 * Makes requests in a transaction of the user's: they are there if and only if the transaction commits. Workers notice
 * the commit. {@link Client.within} returns it.
 *
 * In a transaction of better-sqlite3 or `node:sqlite`, whose statements are synchronous, a request is made before the
 * method returns, and an error is thrown at once. So requests work in the function of `db.transaction`.
 */
export class TransactionClient {
  readonly #port: StorePort;
  readonly #requests: Requests;
  readonly #transaction: Transaction;
  readonly #database: StoreDatabase;

  /** @internal */
  constructor(port: StorePort, requests: Requests, given: unknown) {
    const { database } = port;
    if (database === null) {
      throw new TypeError(
        'client.within: a store in memory is in no database of yours, so no transaction can hold its requests',
      );
    }
    if (database.kind === 'sqlite' && !SHARES_LOCKS.includes(process.platform)) {
      throw new TypeError(
        'client.within: on this system, two copies of SQLite in one process do not see the locks of each other. Make ' +
          'the request in another process, by an insertion into the view perdure_start',
      );
    }
    const transaction = transactionOf(given);
    if (transaction.database !== null && transaction.database !== database.kind) {
      const [its, ours] = [NAMES[transaction.database], NAMES[database.kind]];
      throw new TypeError(
        `client.within: the transaction is of ${its}, and the store of this client is on ${ours}: both must be in ` +
          'the same database',
      );
    }
    this.#port = port;
    this.#requests = requests;
    this.#transaction = transaction;
    this.#database = database;
  }

  /**
   * Starts an instance by its definition, in the version of the definition.
   *
   * @returns the id of the instance. Once the transaction is committed, `client.handle(definition, id)` is its handle
   * @throws InstanceExistsError when the id is in use, unless `onConflict` is `'return'`. If the id comes into use only
   *   after this call, the commit fails
   * @throws PayloadError when the input cannot be stored, or does not fit the schema of the definition
   * @throws QueueNotFoundError when there is no such queue. If the queue is deleted after this call, the commit fails
   * @throws TypeError when an argument is wrong, or the transaction's database does not hold the store
   *
   * @example
   * ```ts
   * await tx.query('insert into orders values ($1, $2)', ['7', 12]);
   * const id = await client.within(tx).start(order, { total: 12 }, { id: 'order-7', queue: 'orders' });
   * ```
   */
  start<I, O, S>(
    definition: OrchestrationDefinition<I, O, S>,
    ...args: InputArguments<NoInfer<I>, TypedTransactionStartOptions>
  ): Promise<string> {
    return this.#run(() => {
      if (!isOrchestration(definition))
        throw new TypeError(`client.within.start takes what defineOrchestration returned, not ${show(definition)}`);
      const [input, given] = args;
      const { id = uuidv7(), ...others } = checkStart(given, TYPED_OPTIONS, 'client.within.start');
      const { input: schema, name, version } = definition;
      const checked = schema === undefined ? undefined : parse(schema, input, 'input');
      return this.#after(checked, () => this.#start(id, name, input, { ...others, version }));
    });
  }

  /**
   * Starts an instance. Without a version, the version is settled when a worker comes by the instance.
   *
   * @throws InstanceExistsError, PayloadError, QueueNotFoundError, TypeError as {@link start}
   *
   * @example
   * ```ts
   * await client.within(tx).startOrchestration('order-7', 'order', { total: 12 });
   * ```
   */
  startOrchestration(id: string, name: string, input?: unknown, options?: TransactionStartOptions): Promise<void> {
    return this.#run(() => {
      checkName(id, 'instance id');
      checkName(name, 'orchestration name');
      const checked = checkStart(options, OPTIONS, 'client.within.startOrchestration');
      return this.#after(this.#start(id, name, input, checked), () => {});
    });
  }

  /**
   * Raises an event, as {@link Client.raiseEvent}. The instance may be one that this transaction starts. Messages of a
   * transaction arrive in the order in which they were sent.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`)
   * @throws PayloadError when the data cannot be stored, or does not fit the schema of the event
   * @throws RuntimeStateError when the instance has ended. An instance that ends after this call drops the event
   * @throws TypeError when an argument is wrong, or the transaction's database does not hold the store
   *
   * @example
   * ```ts
   * await client.within(tx).raiseEvent('order-7', 'paid', { cents: 1200 });
   * ```
   */
  raiseEvent<I>(
    id: string,
    event: string | EventDefinition<I, unknown>,
    ...data: MessageArguments<NoInfer<I>>
  ): Promise<void> {
    return this.#run(() => this.#message(id, () => mailboxOf('event', event), data[0]));
  }

  /**
   * Puts a message into a queue, as {@link Client.enqueueEvent}.
   *
   * @throws InstanceNotFoundError, LimitError, PayloadError, RuntimeStateError, TypeError as {@link raiseEvent}
   *
   * @example
   * ```ts
   * await client.within(tx).enqueueEvent('printer', 'tasks', { page: 1 });
   * ```
   */
  enqueueEvent<I>(
    id: string,
    queue: string | QueueDefinition<I, unknown>,
    ...data: MessageArguments<NoInfer<I>>
  ): Promise<void> {
    return this.#run(() => this.#message(id, () => mailboxOf('queue', queue), data[0]));
  }

  /**
   * Requests the cancellation of an instance, as {@link Client.cancelInstance}. Nothing happens when the instance has
   * ended.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws RuntimeStateError when the instance is Suspended, or waits for its start time or a slot of its queue: only
   *   {@link Client.cancelInstance} can end it
   * @throws TypeError when an argument is wrong, or the transaction's database does not hold the store
   *
   * @example
   * ```ts
   * await client.within(tx).cancelInstance('order-7', 'the customer has left');
   * ```
   */
  cancelInstance(id: string, reason?: string): Promise<void> {
    return this.#run(() => {
      checkName(id, 'instance id');
      if (reason !== undefined && typeof reason !== 'string')
        throw new TypeError('client.within.cancelInstance: the reason must be a string');
      const text = this.#text(reason, 'reason', Place.ofInstance(id, 'cancellation'));
      return this.#after(text, (stored) => this.#request('cancel', id, undefined, () => this.#cancel(id, stored)));
    });
  }

  #start(id: string, name: string, input: unknown, options: Requested<TransactionStartOptions>): Maybe<string> {
    const text = this.#text(input, 'input', Place.input(id, 1));
    const given = JSON.stringify(options);
    return this.#after(text, (stored) => {
      const statement = (trace: TraceContext | null): Statement => {
        const values = [id, name, stored, given, trace];
        return this.#database.kind === 'postgres'
          ? this.#call('start_encoded($1::text, $2::text, $3::text, $4::text::jsonb, $5::text)', values)
          : insertion('perdure_start_encoded (id, name, input, options, trace)', values);
      };
      return this.#after(this.#request('start', id, name, statement, options.queue), () => id);
    });
  }

  #message(id: string, mailbox: () => TypedMailbox, data: unknown): Maybe<void> {
    checkName(id, 'instance id');
    const { kind, name, schema } = mailbox();
    const checked = schema === undefined ? undefined : parse(schema, data, 'event');
    const text = this.#after(checked, () => this.#text(data, 'event', Place.mail(id, { kind, name })));
    return this.#after(text, (stored) => {
      const max = String(this.#requests.limits.mailboxMessages);
      const [operation, call, row] =
        kind === 'event'
          ? (['raise', 'raise_event_encoded', 'Event'] as const)
          : (['enqueue', 'enqueue_event_encoded', 'Queue'] as const);
      const values = [id, name, stored, max];
      const statement =
        this.#database.kind === 'postgres'
          ? this.#call(`${call}($1::text, $2::text, $3::text, $4::text::bigint)`, values)
          : message(row, values);
      return this.#request(operation, id, name, () => statement);
    });
  }

  #cancel(id: string, reason: string | null): Statement {
    return this.#database.kind === 'postgres'
      ? this.#call('cancel_encoded($1::text, $2::text)', [id, reason])
      : message('Cancel', [id, null, reason, null]);
  }

  /** Returns the statement that calls a function of the store's schema. */
  #call(call: string, values: Statement['values']): Statement {
    return { sql: `SELECT ${this.#schema}.${call} AS made`, values };
  }

  get #schema(): string {
    return this.#database.kind === 'postgres' ? `"${this.#database.schema.replaceAll('"', '""')}"` : '';
  }

  /** Returns a value as the store keeps it. */
  #text(value: unknown, path: string, place: Place): Maybe<string | null> {
    const { texts } = this.#port;
    const text = toPayload(value, path, this.#requests.limits, texts.types);
    return text === null || texts.kind !== 'async' ? texts.write(text, path, place) : texts.encoded(text, path, place);
  }

  /**
   * Makes a request, whose errors become those of the client. `target` is the name that the trace shows. `queue` is the
   * queue of a start.
   */
  #request(
    operation: string,
    instanceId: string,
    target: string | undefined,
    statement: (trace: TraceContext | null) => Statement,
    queue?: string,
  ): Maybe<void> {
    const facts = { instanceId, queue };
    return this.#requests.within(operation, instanceId, target, (trace) => this.#send(facts, statement(trace)));
  }

  #send(facts: Pick<RequestFacts, 'instanceId' | 'queue'>, statement: Statement): Maybe<void> {
    const unreadMax = this.#requests.limits.mailboxMessages;
    const place =
      this.#database.kind === 'postgres'
        ? `the functions of Perdure in the schema ${this.#schema}`
        : 'the views of Perdure, such as perdure_start';
    const explained = (error: unknown): never => {
      throw requestError(error, { ...facts, unreadMax, place });
    };
    if (!this.#transaction.isSync) return this.#transaction.send(statement).then(() => {}, explained);
    try {
      this.#transaction.send(statement);
    } catch (error) {
      explained(error);
    }
  }

  /** Runs a request: at once in a synchronous transaction, whose commit does not wait for a promise. */
  #run<T>(request: () => Maybe<T>): Promise<T> {
    if (!this.#transaction.isSync) return (async () => request())();
    const result = request();
    return Promise.resolve(result);
  }

  /** Goes on with a value, at once if the value is there. */
  #after<T, R>(value: Maybe<T>, next: (value: T) => Maybe<R>): Maybe<R> {
    if (!isThenable<Promise<T>>(value)) return next(value);
    if (!this.#transaction.isSync) return value.then(next);
    // The rejection must not go unhandled.
    value.catch(() => {});
    throw new TypeError(
      'client.within: a transaction of better-sqlite3 or node:sqlite cannot wait for a schema or a codec that ' +
        'answers later: use one that answers at once',
    );
  }
}

/** The systems on which other copies of SQLite in this process see the locks of the store: see provider-sqlite. */
const SHARES_LOCKS: readonly string[] = ['linux', 'win32'];

const NAMES = { postgres: 'a Postgres database', sqlite: 'a SQLite database' };

/** Returns the statement that inserts into a view of a SQLite store. */
function insertion(view: string, values: Statement['values']): Statement {
  return { sql: `INSERT INTO ${view} VALUES (${values.map(() => '?').join(', ')})`, values };
}

function message(kind: 'Event' | 'Queue' | 'Cancel', values: Statement['values']): Statement {
  return insertion('perdure_message_encoded (kind, id, name, data, unread_max)', [kind, ...values]);
}

type Span = 'delay' | 'startAt' | 'timeout' | 'gracePeriod';

/** Options of a start as the functions and the views of the store take them: with durations and times in ms. */
type Requested<Options> = Omit<Options, Span> & { readonly [Name in Span]: number | undefined };

/**
 * Checks the options of a start.
 *
 * @param where - the begin of the error
 * @throws TypeError when an option is wrong, or only starts of the client take it
 */
function checkStart<Options extends Omit<TransactionStartOptions, 'version'>>(
  given: Options | undefined,
  table: OptionTable,
  where: string,
): Requested<Options> {
  const keyed = Object.keys(KEYED_START_OPTIONS).find((name) => property(given, name) !== undefined);
  if (keyed !== undefined)
    throw new TypeError(
      `${where}: the option ${keyed} is not for a start in a transaction, because such a start needs the lock of its ` +
        'key; call client.start',
    );
  const options = checkOptions(given, table, where) ?? ({} as Options);
  const {
    delayMs: delay,
    startAtMs: startAt,
    timeoutMs: timeout,
    graceMs: gracePeriod,
  } = admissionOf(options, where) ?? {};
  return { ...options, delay, startAt, timeout, gracePeriod };
}

/** Checks tags, which cross to the database as JSON: Postgres takes neither NUL nor lone surrogates in it. */
function checkTags(value: unknown, path: string): void {
  textsByName(value, path);
  for (const text of Object.entries(value as object).flat() as string[])
    if (text.includes('\0') || !text.isWellFormed())
      throw new TypeError(`${path} must contain neither NUL nor lone surrogates`);
}

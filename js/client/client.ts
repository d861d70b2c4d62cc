// The client: starts instances, reads their state and sends to them, from any process that opens the store.

import type { AppendRequest } from '../binding/store.ts';
import { consoleLogger } from '../logging/logger.ts';
import type { InputArguments } from '../orchestration/call-options.ts';
import type { CallableEntity } from '../orchestration/called-entity.ts';
import { isOrchestration, type OrchestrationDefinition } from '../orchestration/definition.ts';
import { Provider, type StorePort } from '../store/providers.ts';
import { markCopy } from '../util/copy.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkName, checkOptions } from '../util/options.ts';
import { show } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import { inStoredForm } from '../values/payload.ts';
import { parse } from '../values/schema.ts';
import { addressed, checkRuns } from './addressed.ts';
import {
  CLIENT_OPTIONS,
  type ClientOptions,
  START_OPTIONS,
  type StartOptions,
  TYPED_START_OPTIONS,
  type TypedStartOptions,
} from './client-options.ts';
import { EndWaits } from './end-waits.ts';
import { type EntityHandle, entityOf } from './entities.ts';
import { type InstanceFacts, readFacts } from './facts.ts';
import { InstanceHandle } from './handle.ts';
import { STATUS_OPTIONS, type StatusOptions, withInput } from './inputs.ts';
import { describeInstance, type InstanceDescription } from './instance-description.ts';
import type { CustomStatus, InstanceStatus } from './instance-status.ts';
import { LOGS_OPTIONS, type LogsOptions, type LogsPage, readLogs } from './logs.ts';
import { MessageClient } from './message-client.ts';
import { Queues } from './queues.ts';
import { Requests } from './requests.ts';
import { Schedules } from './schedules.ts';
import { type InstanceStart, prepareStart, type StartOutcome, sendStart, startMany } from './starting.ts';
import { readStateVersion } from './state.ts';
import { readTakeovers, type Takeover } from './takeovers.ts';
import {
  DELETE_OPTIONS,
  type DeleteOptions,
  deleteTree,
  type InstanceTree,
  readTree,
  TREE_OPTIONS,
  type TreeOptions,
} from './tree.ts';
import {
  STATUS_CHANGES_OPTIONS,
  type StatusChange,
  type StatusChangeArguments,
  type StatusChangeOptions,
  type StatusChangesOptions,
  statusChanges,
  statusChangeWait,
  WAIT_OPTIONS,
  type WaitOptions,
  waitForStatusChange,
} from './watching.ts';
import { TransactionClient } from './within.ts';
import { WorkerWatch } from './worker-watch.ts';

/**
 * Starts instances, reads their state and sends to them. A client needs no runtime in its process. Every method checks
 * its arguments first, and resolves when its effect is durable.
 *
 * @example
 * ```ts
 * const client = new Client(provider);
 * await client.startOrchestration('order-1', 'order', { total: 12 });
 * const { status, output } = await client.waitForOrchestration('order-1', '30s');
 * ```
 */
export class Client extends MessageClient {
  readonly #port: StorePort;
  readonly #requests: Requests;
  readonly #waits: EndWaits;
  /** The schedules of the store: orchestrations that are started at times. */
  readonly schedules: Schedules;
  /** The queues of the store, which limit how many instances run. */
  readonly queues: Queues;

  /** @throws TypeError when `provider` is not a provider, or an option is wrong */
  constructor(provider: Provider, options?: ClientOptions) {
    const port = Provider.portOf(provider, 'new Client');
    const given = checkOptions(options, CLIENT_OPTIONS, 'new Client') ?? {};
    const { logger = consoleLogger, logLevel = 'info' } = given;
    const requests = new Requests(port, given);
    super(port, requests);
    this.#port = port;
    this.#requests = requests;
    this.schedules = new Schedules(this);
    this.queues = new Queues(port);
    this.#waits = new EndWaits(this.#port, this.#requests, WorkerWatch.of(this.#port, logger, logLevel));
  }

  /**
   * Starts an instance. Resolves when the start is durable. A runtime of this process first runs the orchestration up
   * to its first wait, and stores the start and that turn in one commit. When the start is refused, that code has had
   * no effect outside the store.
   *
   * @param id - of the new instance, 1 to 256 characters
   * @param name - that its orchestration is registered under
   * @returns the id. With `singleton`, `throttle` or `debounce`, it may be that of another instance, which stands for
   *   this start
   * @throws InstanceExistsError when the id is in use, unless `onConflict` says otherwise
   * @throws PayloadError when the input cannot be stored
   * @throws QueueNotFoundError when there is no such queue; nothing is started then
   * @throws TypeError when an argument is wrong
   */
  async startOrchestration(id: string, name: string, input?: unknown, options?: StartOptions): Promise<string> {
    checkName(id, 'instance id');
    checkName(name, 'orchestration name');
    return this.#start(id, { name }, input, checkOptions(options, START_OPTIONS, 'client.startOrchestration'));
  }

  /**
   * Starts an instance by its definition, in the version of the definition.
   *
   * @returns a handle of the instance, typed by the definition. With `singleton`, `throttle` or `debounce`, it may be
   *   the handle of another instance, which stands for this start
   * @throws InstanceExistsError, PayloadError, QueueNotFoundError, TypeError as {@link startOrchestration}
   *
   * @example
   * ```ts
   * const handle = await client.start(order, { total: 12 }, { id: 'order-1' });
   * const receiptId = await handle.result({ timeout: '30s' });
   * ```
   */
  async start<I, O, S>(
    definition: OrchestrationDefinition<I, O, S>,
    ...args: InputArguments<NoInfer<I>, TypedStartOptions>
  ): Promise<InstanceHandle<O, S, I>> {
    if (!isOrchestration(definition))
      throw new TypeError(`client.start takes what defineOrchestration returned, not ${show(definition)}`);
    const [input, given] = args;
    const options = checkOptions(given, TYPED_START_OPTIONS, 'client.start');
    // The schema is only checked here. The input is stored as it was given, and the orchestration applies the schema's
    // output.
    if (definition.input !== undefined) await parse(definition.input, input, 'input');
    const { id = uuidv7(), ...others } = options ?? {};
    const started = await this.#start(id, definition, input, { ...others, version: definition.version });
    return new InstanceHandle<O, S, I>(this, this.#waits, started, definition);
  }

  /**
   * Starts up to 10 000 instances. They reach the store 1 000 at a time, and each is a start of its own: one whose id
   * is in use leaves the others alone.
   *
   * @returns the outcomes, in the order of the starts
   * @throws TypeError, PayloadError when a start is wrong; nothing is started then
   * @throws LimitError (`startMany`) when there are more
   *
   * @example
   * ```ts
   * const mails = customers.map((customer) => ({ definition: sendMail, input: customer, id: `mail-${customer.id}` }));
   * const failed = (await client.startMany(mails)).filter(({ error }) => error !== undefined);
   * ```
   */
  startMany<I>(starts: readonly InstanceStart<I>[]): Promise<StartOutcome[]> {
    return startMany(this.#port, this.#requests, starts);
  }

  /**
   * Returns a handle of an instance, as {@link start} does. The instance need not exist.
   *
   * @param definition - types the handle. If the instance runs another orchestration, `result` and the other methods
   *   of the handle that read throw `WrongDefinitionError`
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const { paid } = await client.handle(order, 'order-1').result({ timeout: '30s' });
   * ```
   */
  handle<I, O, S>(definition: OrchestrationDefinition<I, O, S>, id: string): InstanceHandle<O, S, I>;
  handle<O = unknown, S = unknown>(id: string): InstanceHandle<O, S>;
  handle(...args: readonly unknown[]): InstanceHandle {
    const { id, definition } = addressed(args);
    return new InstanceHandle(this, this.#waits, id, definition);
  }

  /**
   * Returns the status of an instance, or `null` when there is no instance of that id. Its `reason` says why an
   * instance does not go on that has not ended and has not changed for 1 s. Finding the reason costs a second request.
   *
   * @param definition - types the input, the output and the custom status
   * @throws PayloadError when a value of the instance cannot be read
   * @throws TypeError when an argument is wrong
   * @throws WrongDefinitionError when the instance runs another orchestration than the definition
   *
   * @example
   * ```ts
   * const status = await client.getStatus(order, 'order-1', { input: true });
   * if (status?.status === 'Completed') console.log(status.input, status.output?.paid);
   * ```
   */
  getStatus<I, O, S>(
    definition: OrchestrationDefinition<I, O, S>,
    id: string,
    options?: StatusOptions,
  ): Promise<InstanceStatus<O, S, I> | null>;
  getStatus<O = unknown, S = unknown>(id: string, options?: StatusOptions): Promise<InstanceStatus<O, S> | null>;
  async getStatus(...args: readonly unknown[]): Promise<InstanceStatus | null> {
    const { id, definition, others } = addressed(args);
    const { input = false } =
      checkOptions(others[0] as StatusOptions | undefined, STATUS_OPTIONS, 'client.getStatus') ?? {};
    const reply = await this.#requests.query('status', id, () => this.#port.request({ kind: 'status', id }));
    const status = this.#requests.statusOf(reply);
    if (status === null) return null;
    checkRuns(definition, status);
    return this.#waits.explained(input ? await withInput(this.#port, status) : status);
  }

  /**
   * Returns what an instance waits for: open activities with their attempts, timers, children and messages, and the
   * fibers that wait for them. `null` when there is no instance of that id. The description is that of the last turn
   * that is stored, and names at most 64 operations and as many waits of fibers. No code of the instance is run.
   *
   * @throws PayloadError when a value cannot be read
   *
   * @example
   * ```ts
   * const description = await client.describe('order-1');
   * for (const { name, attempt, lastError } of description?.activities ?? []) console.log(name, attempt, lastError);
   * ```
   */
  async describe(id: string): Promise<InstanceDescription | null> {
    checkName(id, 'instance id');
    return this.#requests.query('describe', id, () => describeInstance(this.#port, id));
  }

  /**
   * Returns lines that an instance logged with `ctx.traceInfo` and its like, the oldest first, if its runtimes have the
   * option `keepLogs`. The lines of a turn are there once the turn is stored, and each line is there once. `null` when
   * there is no instance of that id.
   *
   * @throws TypeError naming the option that is unknown or wrong
   *
   * @example
   * ```ts
   * let page = await client.logs('order-1');
   * for (const { time, level, message } of page?.lines ?? []) console.log(time, level, message);
   * page = await client.logs('order-1', { cursor: page?.cursor ?? null });   // lines that came since
   * ```
   */
  async logs(id: string, options?: LogsOptions): Promise<LogsPage | null> {
    checkName(id, 'instance id');
    const checked = checkOptions(options, LOGS_OPTIONS, 'client.logs') ?? {};
    return this.#requests.query('logs', id, () => readLogs(this.#port, id, checked));
  }

  /**
   * Waits until an instance has ended (Completed, Failed, Cancelled or Terminated), over all its executions. The end of
   * the wait does not end the instance: {@link cancelInstance} does.
   *
   * @param options - the longest wait, or options: `timeout` and `signal`. Default: for ever
   * @returns the last status of the instance. The wait does not fail when the instance did: check `status`
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws TimeoutError when the instance has not ended in time; its `reason` says why, where that is known
   * @throws the signal's reason when `signal` is aborted
   *
   * @example
   * ```ts
   * const { status } = await client.waitForOrchestration('order-1', { timeout: '30s', signal: request.signal });
   * ```
   */
  async waitForOrchestration<T = unknown>(id: string, options?: Duration | WaitOptions): Promise<InstanceStatus<T>> {
    checkName(id, 'instance id');
    const where = 'client.waitForOrchestration';
    const given = typeof options === 'object' ? checkOptions(options, WAIT_OPTIONS, where) : { timeout: options };
    const { timeout, signal } = given as WaitOptions;
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, `${where}: timeout`);
    return this.#waits.end<T>(id, { timeoutMs, signal }, false);
  }

  /**
   * Waits for a change of an instance's custom status.
   *
   * @param lastVersion - the `customStatusVersion` that is known already; 0 for none
   * @param options - `pollInterval`, `timeout` and `signal`; or `pollInterval` and `timeout` as arguments. Default: the
   *   wait lasts for ever
   * @returns the status of a later version, at once if there is one; `null` when the time is over, or the instance ends
   *   without a change
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws the signal's reason when `signal` is aborted
   *
   * @example
   * ```ts
   * let seen = 0;
   * for (;;) {
   *   const change = await client.waitForStatusChange('order-1', seen, { timeout: '1m' });
   *   if (change === null) break;
   *   seen = change.customStatusVersion;
   * }
   * ```
   */
  waitForStatusChange<S = unknown>(
    id: string,
    lastVersion: number,
    options?: StatusChangeOptions,
  ): Promise<CustomStatus<S> | null>;
  waitForStatusChange<S = unknown>(
    id: string,
    lastVersion: number,
    pollInterval?: Duration,
    timeout?: Duration,
  ): Promise<CustomStatus<S> | null>;
  async waitForStatusChange<S>(id: string, ...args: StatusChangeArguments): Promise<CustomStatus<S> | null> {
    checkName(id, 'instance id');
    return waitForStatusChange<S>(this.#port, id, statusChangeWait(args, 'client.waitForStatusChange'));
  }

  /**
   * Iterates over the changes of an instance's custom status until the instance ends: the current one, if it was set,
   * and each later one. When changes follow each other faster than they are read, only the latest is returned. A change
   * in this process wakes the iteration at once.
   *
   * Leaving the loop stops the watch. So does `return()` of the iterator, also during a wait. The iteration throws
   * `InstanceNotFoundError` when there is no instance of that id.
   *
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * for await (const { customStatus } of client.statusChanges('order-1', { signal: request.signal })) {
   *   response.write(`data: ${JSON.stringify(customStatus)}\n\n`);
   * }
   * ```
   */
  statusChanges<S = unknown>(
    id: string,
    options?: StatusChangesOptions,
  ): AsyncIterableIterator<StatusChange<S>, void> & AsyncDisposable {
    checkName(id, 'instance id');
    return statusChanges<S>(
      this.#port,
      id,
      checkOptions(options, STATUS_CHANGES_OPTIONS, 'client.statusChanges') ?? {},
    );
  }

  /**
   * Requests the cancellation of an instance: its pending `yield` throws `CancelledError`, which the orchestration may
   * catch to clean up. Nothing happens when the instance has ended or its cancellation was requested before: cleanup is
   * not interrupted.
   *
   * A Suspended instance has no code that can run. It is Cancelled when this call resolves, without its cleanup, and so
   * are its Suspended children. Its other children are asked to cancel.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   */
  async cancelInstance(id: string, reason?: string): Promise<void> {
    const why = this.#requests.reasonText(id, reason, 'cancellation', 'client.cancelInstance');
    await this.#requests.command('cancel', { kind: 'cancel', id }, why);
  }

  /**
   * Returns an entity to call: an object with a method for each handler and each read of the definition. The entity is
   * there from its first call, and its handlers run one at a time. A call with the `updateId` of an earlier one runs
   * nothing, and resolves with the same answer.
   *
   * A call of a handler resolves with its answer, or rejects with the error that it threw and with those of
   * {@link Client.updateWithStart}. A call by `send` waits for no answer. A read runs in this process, on a copy of the
   * stored state, at least as new as the last answer.
   *
   * @param definition - a result of `defineEntity`
   * @param key - with the name of the entity and a `/` it makes the id of the instance, at most 256 characters
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const count = await client.entity(cart, 'user-7').add({ sku: 'tea' }, { timeout: '5s' });
   * await client.entity(cart, 'user-7').send.add({ sku: 'milk' });
   * const items = await client.entity(cart, 'user-7').items();
   * ```
   */
  entity<H, R>(definition: CallableEntity<H, R>, key: string): EntityHandle<H, R> {
    return entityOf(this, definition, key);
  }

  /**
   * Returns a client whose requests are part of a transaction of yours, in the database that holds the store. They are
   * there if and only if the transaction commits.
   *
   * @param tx - the transaction: a client of `pg`, a Drizzle or Kysely transaction, a better-sqlite3 or `node:sqlite`
   *   database, or an object with `query(text, values)`
   * @throws TypeError when `tx` is none, or is of another kind of database than the store; also for a store in memory
   *
   * @example
   * ```ts
   * await tx.query('insert into orders values ($1, $2)', ['7', 12]);
   * await client.within(tx).start(order, { total: 12 }, { id: 'order-7' });
   * ```
   */
  within(tx: object): TransactionClient {
    return new TransactionClient(this.#port, this.#requests, tx);
  }

  /**
   * Ends an instance at once, without running any more of its code. Nothing happens when the instance has ended.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   */
  async terminateInstance(id: string, reason?: string): Promise<void> {
    const why = this.#requests.reasonText(id, reason, 'termination', 'client.terminateInstance');
    await this.#requests.command('terminate', { kind: 'terminate', id }, why);
  }

  /**
   * Suspends an instance at once, also one that a worker is running. None of its code runs until {@link resume}. Its
   * stored state stays. Its running activities are aborted and run again after the resume, except those that other
   * runtimes took from a queue. Events and messages wait for the instance. Nothing happens when the instance is
   * Suspended already: one that resumes by itself once other code is registered still does.
   *
   * @param reason - shown by `getStatus(id).error`
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws RuntimeStateError when the instance has ended
   *
   * @example
   * ```ts
   * await client.suspend('order-1', 'the bank is down');
   * await client.resume('order-1');
   * ```
   */
  async suspend(id: string, reason?: string): Promise<void> {
    const why = this.#requests.reasonText(id, reason, 'suspension', 'client.suspend');
    await this.#requests.command('suspend', { kind: 'suspend', id }, why);
  }

  /**
   * Resumes a Suspended instance, once the code fits its history again. An instance that is suspended with a
   * `NondeterminismError` resumes by itself when other code of its orchestration is registered: see
   * `runtime.registerOrchestration`. An instance that was suspended before its start time still begins at that time.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   */
  async resume(id: string): Promise<void> {
    checkName(id, 'instance id');
    await this.#requests.command('resume', { kind: 'resume', id });
  }

  /**
   * Returns an instance with its descendants: its children, theirs, and so on, level by level. `hasMore` of an instance
   * says that the depth or the limit left children out.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const { instance, children, hasMore } = await client.tree('order-1', { depth: 2 });
   * console.log(instance.status, children.map((child) => child.instance.status), hasMore);
   * ```
   */
  async tree(id: string, options?: TreeOptions): Promise<InstanceTree> {
    checkName(id, 'instance id');
    const given = checkOptions(options, TREE_OPTIONS, 'client.tree') ?? {};
    return this.#requests.query('tree', id, () => readTree(this.#port, id, given));
  }

  /**
   * Returns the room that an instance takes in the store: its events, their bytes, and its unread messages. Each event
   * is counted, and no value is read: some 0.1 s for 100 000 events.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   *
   * @example
   * ```ts
   * const { events, historyBytes, unread } = await client.facts('order-1');
   * if (unread.messages > 1_000) console.warn(`order-1 lags behind: ${unread.mailboxes[0]?.name}`);
   * ```
   */
  async facts(id: string): Promise<InstanceFacts> {
    checkName(id, 'instance id');
    return this.#requests.query('facts', id, () => readFacts(this.#port, id));
  }

  /**
   * Returns the deaths of workers that an instance lived through, in the order of their times: the last 50.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   *
   * @example
   * ```ts
   * for (const { time, worker } of await client.takeovers('order-1'))
   *   console.log(`${time.toISOString()}: worker ${worker.name} died`);
   * ```
   */
  async takeovers(id: string): Promise<readonly Takeover[]> {
    checkName(id, 'instance id');
    return this.#requests.query('takeovers', id, () => readTakeovers(this.#port, id));
  }

  /**
   * Deletes an instance that has ended, with its histories. Its children stay, unless `descendants` is true. Then all
   * of its descendants must have ended, too. They are deleted in batches, the lowest first: a call that fails on the
   * way can be repeated.
   *
   * @returns the number of deleted instances, the instance among them
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws LimitError when the instance has more than 100 000 descendants; nothing is deleted then
   * @throws RuntimeStateError naming the instance that has not ended; nothing is deleted then. Cancel or terminate it
   *   first
   *
   * @example
   * ```ts
   * const { deleted } = await client.deleteInstance('order-1', { descendants: true });
   * ```
   */
  async deleteInstance(id: string, options?: DeleteOptions): Promise<{ deleted: number }> {
    checkName(id, 'instance id');
    const { descendants = false, signal } = checkOptions(options, DELETE_OPTIONS, 'client.deleteInstance') ?? {};
    return this.#requests.query('delete', id, async () => {
      if (descendants) return { deleted: await deleteTree(this.#port, id, signal) };
      await this.#port.request({ kind: 'delete', id }, null, signal);
      return { deleted: 1 };
    });
  }

  /** @internal */
  static inStoredForm(client: Client, value: unknown): unknown {
    return inStoredForm(value, client.#port.texts.types);
  }

  /** @internal */
  static append(client: Client, request: AppendRequest, entries: string): Promise<string | null> {
    return client.#port.request(request, entries);
  }

  /** @internal */
  static stateVersion(client: Client, id: string): Promise<number | null> {
    return readStateVersion(client.#port, id);
  }

  async #start(
    id: string,
    code: Pick<OrchestrationDefinition, 'name' | 'batch'>,
    input: unknown,
    options: StartOptions | undefined,
  ): Promise<string> {
    return sendStart(this.#port, prepareStart(this.#requests, id, code, input, options ?? {}));
  }
}

markCopy(Client);

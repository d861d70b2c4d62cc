// The client: starts instances, reads their state and sends to them, from any process that opens the store.

import { consoleLogger } from '../logging/logger.ts';
import type { InputArguments } from '../orchestration/call-options.ts';
import { isOrchestration, type OrchestrationDefinition } from '../orchestration/definition.ts';
import {
  type EventDefinition,
  type MessageArguments,
  mailboxOf,
  type QueueDefinition,
  type TypedMailbox,
} from '../orchestration/messages.ts';
import { Provider, type StorePort } from '../store/providers.ts';
import { markCopy } from '../util/copy.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkName, checkOptions, duration, whole } from '../util/options.ts';
import { show } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import { Place } from '../values/codec-context.ts';
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
import { EXECUTIONS_OPTIONS, ExecutionList, type ExecutionsOptions } from './executions.ts';
import { type InstanceFacts, readFacts } from './facts.ts';
import { InstanceHandle } from './handle.ts';
import {
  exportHistory,
  HISTORY_PAGE_OPTIONS,
  type HistoryEvent,
  type HistoryExport,
  type HistoryPage,
  type HistoryPageOptions,
  historyEvents,
  historyPage,
} from './history.ts';
import { STATUS_OPTIONS, type StatusOptions, withInput } from './inputs.ts';
import { describeInstance, type InstanceDescription } from './instance-description.ts';
import type { CustomStatus, InstanceStatus } from './instance-status.ts';
import { LOGS_OPTIONS, type LogsOptions, type LogsPage, readLogs } from './logs.ts';
import { Requests } from './requests.ts';
import { StoreClient } from './store-client.ts';
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
  changeOf,
  STATUS_CHANGES_OPTIONS,
  type StatusChange,
  StatusChanges,
  type StatusChangesOptions,
  within,
} from './watching.ts';
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
export class Client extends StoreClient {
  readonly #port: StorePort;
  readonly #requests: Requests;
  readonly #waits: EndWaits;

  /** @throws TypeError when `provider` is not a provider, or an option is wrong */
  constructor(provider: Provider, options?: ClientOptions) {
    const port = Provider.portOf(provider, 'new Client');
    super(port);
    this.#port = port;
    const given = checkOptions(options, CLIENT_OPTIONS, 'new Client') ?? {};
    const { logger = consoleLogger, logLevel = 'info' } = given;
    this.#requests = new Requests(this.#port, given);
    this.#waits = new EndWaits(this.#port, this.#requests, WorkerWatch.of(this.#port, logger, logLevel));
  }

  /**
   * Starts an instance. Resolves when the start is durable. A runtime of this process first runs the orchestration up
   * to its first wait, and stores the start and that turn in one commit. When the start is refused, that code has had
   * no effect outside the store.
   *
   * @param id - of the new instance, 1 to 256 characters
   * @param name - that its orchestration is registered under
   * @throws InstanceExistsError when the id is in use, unless `onConflict` says otherwise
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when an argument is wrong
   */
  async startOrchestration(id: string, name: string, input?: unknown, options?: StartOptions): Promise<void> {
    checkName(id, 'instance id');
    checkName(name, 'orchestration name');
    await this.#start(id, name, input, checkOptions(options, START_OPTIONS, 'client.startOrchestration'));
  }

  /**
   * Starts an instance by its definition, in the version of the definition.
   *
   * @returns a handle of the instance, typed by the definition
   * @throws InstanceExistsError, PayloadError, TypeError as {@link startOrchestration}
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
    await this.#start(id, definition.name, input, { ...others, version: definition.version });
    return new InstanceHandle<O, S, I>(this, this.#waits, id, definition);
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
   * Waits until an instance has ended (Completed, Failed, Cancelled or Terminated), over all its executions.
   *
   * @param timeout - longest wait. Default: for ever
   * @returns the last status of the instance. The wait does not fail when the instance did: check `status`
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws TimeoutError when the instance has not ended in time; its `reason` says why, where that is known
   */
  async waitForOrchestration<T = unknown>(id: string, timeout?: Duration): Promise<InstanceStatus<T>> {
    checkName(id, 'instance id');
    const timeoutMs =
      timeout === undefined ? undefined : parseDuration(timeout, 'client.waitForOrchestration: timeout');
    return this.#waits.end<T>(id, timeoutMs, false);
  }

  /**
   * Waits for a change of an instance's custom status.
   *
   * @param lastVersion - the `customStatusVersion` that is known already; 0 for none
   * @param pollInterval - interval of looking for a change in another process. The store may look more often
   * @param timeout - longest wait. Default: for ever
   * @returns the status of a later version, at once if there is one; `null` when the time is over, or the instance ends
   *   without a change
   * @throws InstanceNotFoundError when there is no instance of that id
   *
   * @example
   * ```ts
   * let seen = 0;
   * for (;;) {
   *   const change = await client.waitForStatusChange('order-1', seen, '1s', '1m');
   *   if (change === null) break;
   *   seen = change.customStatusVersion;
   * }
   * ```
   */
  async waitForStatusChange<S = unknown>(
    id: string,
    lastVersion: number,
    pollInterval?: Duration,
    timeout?: Duration,
  ): Promise<CustomStatus<S> | null> {
    checkName(id, 'instance id');
    whole(0)(lastVersion, 'client.waitForStatusChange: lastVersion');
    if (pollInterval !== undefined) duration(1)(pollInterval, 'client.waitForStatusChange: pollInterval');
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, 'client.waitForStatusChange: timeout');
    const pending = this.#port.open({ kind: 'waitForStatusChange', id, afterVersion: lastVersion });
    const change = changeOf<S>(await within(pending, timeoutMs, this.#port.timers, () => null), this.#port, id);
    return change && { customStatus: change.customStatus, customStatusVersion: change.customStatusVersion };
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
    return new StatusChanges<S>(
      this.#port,
      id,
      checkOptions(options, STATUS_CHANGES_OPTIONS, 'client.statusChanges') ?? {},
    );
  }

  /**
   * Raises an event for `ctx.waitForEvent(event)`. The event is kept until the instance waits for it.
   *
   * @param event - a name, or a result of `defineEvent`, which types and checks the data
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`); nothing is
   *   stored then
   * @throws PayloadError when the data cannot be stored, or does not fit the schema of the event
   */
  async raiseEvent<I>(
    id: string,
    event: string | EventDefinition<I, unknown>,
    ...data: MessageArguments<NoInfer<I>>
  ): Promise<void> {
    checkName(id, 'instance id');
    await this.#send('raise', id, mailboxOf('event', event), data[0]);
  }

  /**
   * Puts a message into a queue for `ctx.dequeueEvent(queue)`: first in, first out, each message to exactly one
   * dequeue.
   *
   * @param queue - a name, or a result of `defineQueue`, which types and checks the data
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`); nothing is
   *   stored then
   * @throws PayloadError when the data cannot be stored, or does not fit the schema of the queue
   */
  async enqueueEvent<I>(
    id: string,
    queue: string | QueueDefinition<I, unknown>,
    ...data: MessageArguments<NoInfer<I>>
  ): Promise<void> {
    checkName(id, 'instance id');
    await this.#send('enqueue', id, mailboxOf('queue', queue), data[0]);
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
   * `runtime.registerOrchestration`.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   */
  async resume(id: string): Promise<void> {
    checkName(id, 'instance id');
    await this.#requests.command('resume', { kind: 'resume', id });
  }

  /**
   * Returns the events of an execution, in order, all in memory. For a long history see {@link historyEvents}.
   *
   * @param executionId - from 1; without it the current or last one
   * @throws InstanceNotFoundError when there is no instance of that id, or it has no such execution
   * @throws TypeError when an argument is wrong
   */
  async getHistory(id: string, executionId?: number): Promise<HistoryEvent[]> {
    checkExecution(id, executionId, 'client.getHistory');
    const events: HistoryEvent[] = [];
    for await (const event of historyEvents(this.#port, id, executionId)) events.push(event);
    return events;
  }

  /**
   * Iterates over the events of an execution, in order. They are read page by page (2 000 events) during the iteration.
   *
   * @param executionId - as in {@link getHistory}; the iteration throws the same errors
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * for await (const { eventId, kind, name } of client.historyEvents('order-1')) console.log(eventId, kind, name);
   * ```
   */
  historyEvents(id: string, executionId?: number): AsyncIterableIterator<HistoryEvent> {
    checkExecution(id, executionId, 'client.historyEvents');
    return historyEvents(this.#port, id, executionId);
  }

  /**
   * Returns some events of an execution, from any event of its history on.
   *
   * @returns the events, and the event to go on from
   * @throws InstanceNotFoundError as {@link getHistory}
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const { events, next } = await client.historyPage('order-1', { from: 2_001, limit: 500 });
   * ```
   */
  async historyPage(id: string, options?: HistoryPageOptions): Promise<HistoryPage> {
    checkName(id, 'instance id');
    return historyPage(this.#port, id, checkOptions(options, HISTORY_PAGE_OPTIONS, 'client.historyPage') ?? {});
  }

  /**
   * Returns the history of an execution as plain JSON, for a test that replays it with later code: `replay` of
   * `perdure/testing`. Values are exported as they are stored; those of a store with a codec are decoded. An export
   * therefore shows the secrets of its history.
   *
   * @param executionId - from 1; without it the current or last one
   * @throws InstanceNotFoundError, TypeError as {@link getHistory}
   * @throws PayloadError when a value cannot be decoded
   *
   * @example
   * ```ts
   * await writeFile('order-1.json', JSON.stringify(await client.exportHistory('order-1'), null, 2));
   * ```
   */
  async exportHistory(id: string, executionId?: number): Promise<HistoryExport> {
    checkExecution(id, executionId, 'client.exportHistory');
    return exportHistory(this.#port, id, executionId);
  }

  /**
   * Returns the executions of an instance, newest first: to iterate over, or page by page. Each has its status, times,
   * number of events, input and output. No history is read as a whole. Executions whose histories were pruned are left
   * out.
   *
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * for await (const { executionId, status, events } of client.executions('monitor-1', { limit: 10 }))
   *   console.log(executionId, status, events);
   * ```
   */
  executions(id: string, options?: ExecutionsOptions): ExecutionList {
    checkName(id, 'instance id');
    return new ExecutionList(this.#port, id, checkOptions(options, EXECUTIONS_OPTIONS, 'client.executions') ?? {});
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
    const { descendants = false } = checkOptions(options, DELETE_OPTIONS, 'client.deleteInstance') ?? {};
    return this.#requests.query('delete', id, async () => {
      if (descendants) return { deleted: await deleteTree(this.#port, id) };
      await this.#port.request({ kind: 'delete', id });
      return { deleted: 1 };
    });
  }

  /** @internal */
  static inStoredForm(client: Client, value: unknown): unknown {
    return inStoredForm(value, client.#port.texts.types);
  }

  async #start(id: string, name: string, input: unknown, options: StartOptions | undefined): Promise<void> {
    const payload = this.#requests.valueText(input, 'input', Place.input(id, 1));
    const { version = null, tags, priority = 0, onConflict = 'error' } = options ?? {};
    const tagText = tags === undefined ? null : JSON.stringify(tags);
    const request = { kind: 'start', id, name, version, tags: tagText, priority, onConflict, trace: null } as const;
    await this.#requests.command('start', request, payload, name);
    for (const listener of this.#port.startListeners) listener(name, version);
  }

  /** Sends a message to a mailbox of an instance: an event of a name, or a queue. */
  async #send(operation: string, id: string, { kind, name, schema }: TypedMailbox, data: unknown): Promise<void> {
    if (schema !== undefined) await parse(schema, data, 'event');
    const payload = this.#requests.valueText(data, 'event', Place.mail(id, { kind, name }));
    const { mailboxMessages: unreadMax } = this.#requests.limits;
    await this.#requests.command(operation, { kind: 'send', id, mailbox: kind, name, unreadMax }, payload, name);
  }
}

markCopy(Client);

function checkExecution(id: unknown, executionId: unknown, where: string): void {
  checkName(id, 'instance id');
  if (executionId !== undefined) whole(1)(executionId, `${where}: the executionId`);
}

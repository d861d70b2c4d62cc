// The client: starts instances, reads their state and sends to them, from any process that opens the store.

import { consoleLogger } from '../logging/logger.ts';
import type { InputArguments } from '../orchestration/call-options.ts';
import { isOrchestration, type OrchestrationDefinition } from '../orchestration/definition.ts';
import { Provider, type StorePort } from '../store/providers.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkName, checkOptions, duration, whole } from '../util/options.ts';
import { show } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import { Place } from '../values/codec-context.ts';
import { parse } from '../values/schema.ts';
import {
  CLIENT_OPTIONS,
  type ClientOptions,
  START_OPTIONS,
  type StartOptions,
  TYPED_START_OPTIONS,
  type TypedStartOptions,
} from './client-options.ts';
import { descriptionOf, inspect, readWorkers, type StoreDescription, type WorkerInfo } from './description.ts';
import { EndWaits } from './end-waits.ts';
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
import type { CustomStatus, InstanceStatus } from './instance-status.ts';
import {
  InstanceList,
  LIST_OPTIONS,
  type ListOptions,
  PRUNE_EXECUTIONS_OPTIONS,
  PRUNE_OPTIONS,
  type PruneExecutionsOptions,
  type PruneOptions,
  storeFilter,
} from './listing.ts';
import { RECODE_OPTIONS, type Recoded, type RecodeOptions, recode } from './recode.ts';
import { Requests } from './requests.ts';
import { OVERDUE_MS, type OverdueInstances, overdueWork, type StoreStats } from './stats.ts';
import { CHECK_STORE_OPTIONS, type CheckStoreOptions, type StoreCheck, stepLimit } from './store-check.ts';
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
export class Client {
  readonly #port: StorePort;
  readonly #requests: Requests;
  readonly #waits: EndWaits;

  /** @throws TypeError when `provider` is not a provider, or an option is wrong */
  constructor(provider: Provider, options?: ClientOptions) {
    this.#port = Provider.portOf(provider, 'new Client');
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
  async start<I, O>(
    definition: OrchestrationDefinition<I, O>,
    ...args: InputArguments<I, TypedStartOptions>
  ): Promise<InstanceHandle<O>> {
    if (!isOrchestration(definition))
      throw new TypeError(`client.start takes what defineOrchestration returned, not ${show(definition)}`);
    const [input, given] = args;
    const options = checkOptions(given, TYPED_START_OPTIONS, 'client.start');
    // The schema is only checked here. The input is stored as it was given, and the orchestration applies the schema's
    // output.
    if (definition.input !== undefined) await parse(definition.input, input, 'input');
    const { id = uuidv7(), ...others } = options ?? {};
    await this.#start(id, definition.name, input, { ...others, version: definition.version });
    return new InstanceHandle<O>(this, this.#waits, id);
  }

  /** Returns a handle of an instance, as {@link start} does. The instance need not exist. */
  handle<T = any>(id: string): InstanceHandle<T> {
    checkName(id, 'instance id');
    return new InstanceHandle<T>(this, this.#waits, id);
  }

  /**
   * Returns the status of an instance, or `null` when there is no instance of that id. Its `reason` says why an
   * instance does not go on that has not ended and has not changed for 1 s. Finding the reason costs a second request.
   */
  async getStatus<T = any>(id: string): Promise<InstanceStatus<T> | null> {
    checkName(id, 'instance id');
    const reply = await this.#requests.query('status', id, () => this.#port.request({ kind: 'status', id }));
    const status = this.#requests.statusOf<T>(reply);
    return status === null ? null : this.#waits.explained(status);
  }

  /**
   * Waits until an instance has ended (Completed, Failed, Cancelled or Terminated), over all its executions.
   *
   * @param timeout - longest wait. Default: for ever
   * @returns the last status of the instance. The wait does not fail when the instance did: check `status`
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws TimeoutError when the instance has not ended in time; its `reason` says why, where that is known
   */
  async waitForOrchestration<T = any>(id: string, timeout?: Duration): Promise<InstanceStatus<T>> {
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
  async waitForStatusChange(
    id: string,
    lastVersion: number,
    pollInterval?: Duration,
    timeout?: Duration,
  ): Promise<CustomStatus | null> {
    checkName(id, 'instance id');
    whole(0)(lastVersion, 'client.waitForStatusChange: lastVersion');
    if (pollInterval !== undefined) duration(1)(pollInterval, 'client.waitForStatusChange: pollInterval');
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, 'client.waitForStatusChange: timeout');
    const pending = this.#port.open({ kind: 'waitForStatusChange', id, afterVersion: lastVersion });
    const change = changeOf(await within(pending, timeoutMs, this.#port.timers, () => null), this.#port, id);
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
  statusChanges(
    id: string,
    options?: StatusChangesOptions,
  ): AsyncIterableIterator<StatusChange, void> & AsyncDisposable {
    checkName(id, 'instance id');
    return new StatusChanges(
      this.#port,
      id,
      checkOptions(options, STATUS_CHANGES_OPTIONS, 'client.statusChanges') ?? {},
    );
  }

  /**
   * Raises an event for `ctx.waitForEvent(name)`. The event is kept until the instance waits for it.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`); nothing is
   *   stored then
   * @throws PayloadError when the data cannot be stored
   */
  async raiseEvent(id: string, name: string, data?: unknown): Promise<void> {
    checkName(id, 'instance id');
    checkName(name, 'event name');
    await this.#send('raise', id, 'event', name, data);
  }

  /**
   * Puts a message into a queue for `ctx.dequeueEvent(queue)`: first in, first out, each message to exactly one
   * dequeue.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`); nothing is
   *   stored then
   * @throws PayloadError when the data cannot be stored
   */
  async enqueueEvent(id: string, queue: string, data?: unknown): Promise<void> {
    checkName(id, 'instance id');
    checkName(queue, 'queue name');
    await this.#send('enqueue', id, 'queue', queue, data);
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
   * Lists the instances that match all given conditions, the newest first: to iterate over, or page by page. Instances
   * that have not ended, and Suspended ones, are found fast among any number of others. Any other condition is checked
   * for each instance on the way.
   *
   * @throws TypeError naming the option that is unknown or wrong
   *
   * @example
   * ```ts
   * for await (const { id } of client.listInstances({ status: ['Pending', 'Running'], tags: { team: 'billing' } }))
   *   console.log(id);
   *
   * let page = await client.listInstances({ limit: 20 }).page();
   * if (page.cursor !== null) page = await client.listInstances({ limit: 20, cursor: page.cursor }).page();
   * ```
   */
  listInstances(options?: ListOptions): InstanceList {
    return new InstanceList(this.#port, checkOptions(options, LIST_OPTIONS, 'client.listInstances') ?? {});
  }

  /**
   * Deletes an instance that has ended, with its histories. Its children stay.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws RuntimeStateError when the instance has not ended: cancel or terminate it first
   */
  async deleteInstance(id: string): Promise<void> {
    checkName(id, 'instance id');
    await this.#requests.query('delete', id, () => this.#port.request({ kind: 'delete', id }));
  }

  /**
   * Deletes ended instances that match all given conditions, as {@link deleteInstance} does, the longest ended first.
   * They are deleted in small batches, and workers commit turns in between. After a failure on the way, the deleted
   * instances stay deleted.
   *
   * @param options - conditions; `{}` matches every instance that has ended
   * @returns the number of deleted instances
   * @throws TypeError naming the option that is unknown or wrong
   *
   * @example
   * ```ts
   * const monthAgo = new Date(Date.now() - 30 * 86_400_000);
   * const { deleted } = await client.prune({ status: 'Completed', completedBefore: monthAgo });
   * ```
   */
  async prune(options: PruneOptions): Promise<{ deleted: number }> {
    if (options === undefined)
      throw new TypeError('client.prune: say what is to be deleted; {} is everything that has ended');
    const { limit = null, ...filter } = checkOptions(options, PRUNE_OPTIONS, 'client.prune');
    const reply = await this.#port.request({ kind: 'prune', filter: storeFilter(filter), limit });
    return { deleted: Number(reply) };
  }

  /**
   * Deletes the histories of former executions, as `continueAsNew` leaves them, of all matching instances, ended or
   * not. The instances stay as they are. The deletion goes in small steps, as {@link prune} does.
   *
   * @param options - conditions, and the number of executions that each instance keeps
   * @returns the number of executions whose history was deleted
   * @throws TypeError naming the option that is missing, unknown or wrong
   *
   * @example
   * ```ts
   * await client.pruneExecutions({ name: 'monitor', keep: 10 });
   * ```
   */
  async pruneExecutions(options: PruneExecutionsOptions): Promise<{ deleted: number }> {
    const { keep, ...filter } = checkOptions(options, PRUNE_EXECUTIONS_OPTIONS, 'client.pruneExecutions') ?? {};
    if (keep === undefined)
      throw new TypeError('client.pruneExecutions: keep says how many executions stay; there is none');
    const reply = await this.#port.request({ kind: 'pruneExecutions', filter: storeFilter(filter), keep });
    return { deleted: Number(reply) };
  }

  /**
   * Encodes all values of the store anew with the key that the codec of this client's provider names, while workers
   * run: each text of another key, and each plain text unless the codec says `required`. The work goes in small steps
   * and changes only texts that have not changed since they were read. A second run, after a first one that ended in
   * any way, goes on with the rest. Resolves when the only texts of another key are those that the codec cannot read;
   * they stay as they are.
   *
   * Every worker and client must read both keys, and write with the new one, before this begins. Workers may still
   * store values that they hold in memory with the old key: restart them, and run this once more before the old key is
   * removed.
   *
   * @throws TypeError when the provider has no codec, the codec names no key, or an option is wrong
   *
   * @example
   * ```ts
   * const { keyId, recoded, unreadable } = await client.recode({ onProgress: ({ rows }) => console.log(rows) });
   * ```
   */
  async recode(options?: RecodeOptions): Promise<Recoded> {
    return recode(this.#port, checkOptions(options, RECODE_OPTIONS, 'client.recode') ?? {});
  }

  /**
   * Counts the contents of the store. The counts come from indexes: some 0.1 s for a million instances that have ended
   * or sleep. Instances that are due, or that workers own, are counted one by one.
   *
   * @example
   * ```ts
   * const { instances, due } = await client.stats();
   * if (due.overdue > 0) console.warn(`${due.overdue} instances wait for a worker, of ${instances.Running} that run`);
   * ```
   */
  async stats(): Promise<StoreStats> {
    const reply = await this.#port.request({ kind: 'stats' });
    return JSON.parse(reply as string) as StoreStats;
  }

  /**
   * Returns the setup of the store: its kind, its location without secrets, the version of its tables, its size and its
   * settings.
   *
   * @example
   * ```ts
   * const { location, schemaVersion, settings } = await client.describeStore();
   * ```
   */
  async describeStore(): Promise<StoreDescription> {
    return descriptionOf(await inspect(this.#port));
  }

  /**
   * Checks the store for rows that break its rules: gaps in histories, owners that are not workers, rows that belong to
   * nothing, instances that nothing can ever wake. The first step also reads a whole SQLite file and checks it for
   * damage. Nothing is changed. Each step reads one snapshot, so a check may run while workers run, and their
   * unfinished work is not a finding.
   *
   * @param options - the cursor to go on from
   * @returns the findings of this step, and the cursor of the next one
   * @throws TypeError naming the option that is unknown or wrong
   *
   * @example
   * ```ts
   * let step = await client.checkStore();
   * for (;;) {
   *   for (const { rule, instanceId, detail } of step.findings) console.error(rule, instanceId, detail);
   *   if (step.cursor === null) break;
   *   step = await client.checkStore({ cursor: step.cursor });
   * }
   * ```
   */
  async checkStore(options?: CheckStoreOptions): Promise<StoreCheck> {
    const given = checkOptions(options, CHECK_STORE_OPTIONS, 'client.checkStore') ?? {};
    const request = { kind: 'check', cursor: given.cursor ?? null, limit: stepLimit(given) } as const;
    const reply = await this.#port.request(request);
    return JSON.parse(reply as string) as StoreCheck;
  }

  /**
   * Returns the started runtimes of all processes, in order of their ids, with the number of instances and tasks of
   * each and its own report (`about`). Owned instances and tasks are counted one by one: call this for people, not in a
   * tight loop.
   *
   * @example
   * ```ts
   * for (const { name, isAlive, instances } of await client.workers()) console.log(name, isAlive, instances);
   * ```
   */
  async workers(): Promise<WorkerInfo[]> {
    return readWorkers(this.#port);
  }

  /**
   * Returns the instances that could go on but that no worker has taken for 10 s or more, by orchestration and version.
   * The longest waiting come first, at most 20 entries. Either no started runtime has registered that orchestration in
   * that version, or those that have are too busy.
   *
   * @example
   * ```ts
   * for (const { name, version, instances } of await client.overdue())
   *   console.log(`${instances} of ${name} ${version}`);
   * ```
   */
  async overdue(): Promise<OverdueInstances[]> {
    const none = { forMs: OVERDUE_MS, servedOrchestrations: [], servedActivities: [] };
    return (await overdueWork(this.#port, none)).instances;
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
  async #send(operation: string, id: string, mailbox: 'event' | 'queue', name: string, data: unknown): Promise<void> {
    const payload = this.#requests.valueText(data, 'event', Place.mail(id, { kind: mailbox, name }));
    const { mailboxMessages: unreadMax } = this.#requests.limits;
    await this.#requests.command(operation, { kind: 'send', id, mailbox, name, unreadMax }, payload, name);
  }
}

function checkExecution(id: unknown, executionId: unknown, where: string): void {
  checkName(id, 'instance id');
  if (executionId !== undefined) whole(1)(executionId, `${where}: the executionId`);
}

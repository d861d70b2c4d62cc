// The client: starts instances, asks for them and sends to them, from any process that opens the store.

import type { NativeStore } from '../binding/binding.ts';
import { TimeoutError } from '../errors/errors.ts';
import {
  INSTANCE_OPTIONS,
  type InputArguments,
  type InstanceOptions,
  isOrchestration,
  type OrchestrationDefinition,
} from '../orchestration/orchestration.ts';
import { Provider, type StorePort } from '../store/providers.ts';
import { type ClientCall, checkTelemetry, type Telemetry, type TraceContext } from '../tracing/telemetry-hooks.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkName, checkOptions, duration, named, oneOf, whole } from '../util/options.ts';
import { show } from '../util/show.ts';
import { Place } from '../values/codec-context.ts';
import { type ClientLimits, checkClientLimits, limitsOver } from '../values/limits.ts';
import { toPayload } from '../values/payload.ts';
import { parse } from '../values/schema.ts';
import {
  descriptionOf,
  type InspectionData,
  type StoreDescription,
  type WorkerInfo,
  workersOf,
} from './description.ts';
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
import { type CustomStatus, type InstanceStatus, type StatusData, statusOf } from './instance-status.ts';
import {
  filterText,
  InstanceList,
  LIST_OPTIONS,
  type ListOptions,
  PRUNE_EXECUTIONS_OPTIONS,
  PRUNE_OPTIONS,
  type PruneExecutionsOptions,
  type PruneOptions,
} from './listing.ts';
import { RECODE_OPTIONS, type Recoded, type RecodeOptions, recode } from './recode.ts';
import type { OverdueInstances, StoreStats } from './stats.ts';
import { CHECK_STORE_OPTIONS, type CheckStoreOptions, type StoreCheck, stepLimit } from './store-check.ts';
import {
  changeOf,
  STATUS_CHANGES_OPTIONS,
  type StatusChange,
  StatusChanges,
  type StatusChangesOptions,
  within,
} from './watching.ts';

/** A request that may be part of a trace. */
type Issue = (store: NativeStore, request: number, trace: TraceContext | null) => void;

/** Options of a {@link Client}. */
export interface ClientOptions {
  /** How large things may grow. Default: the limits of the runtime that was made last with the same provider object and had some. */
  limits?: ClientLimits;
  /** Who traces what it does: what `openTelemetry` of `perdure/telemetry` returned. Default: nobody. */
  telemetry?: Telemetry;
}

/** Options of {@link Client.startOrchestration}. */
export interface StartOptions extends InstanceOptions {
  /**
   * What to do when the id is in use. `'error'` (default) throws `InstanceExistsError`, `'return'` leaves the instance as it is,
   * `'restartIfTerminal'` starts it anew if it has ended.
   */
  onConflict?: 'error' | 'return' | 'restartIfTerminal';
}

/** Options of {@link Client.start}. */
export interface TypedStartOptions extends Omit<StartOptions, 'version'> {
  /** Default: a UUID of version 7. */
  id?: string;
}

const START_OPTIONS = {
  ...INSTANCE_OPTIONS,
  onConflict: oneOf('error', 'return', 'restartIfTerminal'),
};

const { version: _, ...TYPED_OPTIONS } = START_OPTIONS;
const TYPED_START_OPTIONS = { ...TYPED_OPTIONS, id: named };

/**
 * Starts instances, asks for them and sends to them. It needs no runtime in its process. Every method checks its
 * arguments first, and resolves when what it did is durable.
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
  readonly #limits: ClientLimits | undefined;
  readonly #telemetry: Telemetry | undefined;

  /** @throws TypeError when `provider` is none, or an option is wrong */
  constructor(provider: Provider, options?: ClientOptions) {
    this.#port = Provider.portOf(provider, 'new Client');
    const { limits, telemetry } =
      checkOptions(options, { limits: checkClientLimits, telemetry: checkTelemetry }, 'new Client') ?? {};
    this.#limits = limits;
    this.#telemetry = telemetry;
  }

  /**
   * Start an instance. Resolves when that is durable. A runtime of this process runs the orchestration up to its first wait
   * before that, and stores both at once; when the start is refused, nothing of that code has had an effect outside it.
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
   * Start an instance by its definition, in that version.
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
    // What the schema makes of it is for the orchestration: it is stored as it was handed over.
    if (definition.input !== undefined) await parse(definition.input, input, 'input');
    const { id = uuidv7(), ...others } = options ?? {};
    await this.#start(id, definition.name, input, { ...others, version: definition.version });
    return new InstanceHandle<O>(this, id);
  }

  /** A handle of an instance that may or may not exist, to be used as {@link start} returns it. */
  handle<T = any>(id: string): InstanceHandle<T> {
    checkName(id, 'instance id');
    return new InstanceHandle<T>(this, id);
  }

  /** What is known of an instance, or `null` when there is none of that id. */
  async getStatus<T = any>(id: string): Promise<InstanceStatus<T> | null> {
    checkName(id, 'instance id');
    const reply = await this.#asking('status', id, () =>
      this.#port.request((store, request) => store.status(request, id)),
    );
    return this.#statusOf<T>(reply);
  }

  /**
   * Wait until an instance has ended (Completed, Failed, Cancelled or Terminated), over all its executions.
   *
   * @param timeout - how long. Default: for ever
   * @returns its last status; look at `status` there, since the wait itself does not fail when the instance did
   * @throws InstanceNotFoundError when there is none of that id
   * @throws TimeoutError when it has not ended in time
   */
  async waitForOrchestration<T = any>(id: string, timeout?: Duration): Promise<InstanceStatus<T>> {
    checkName(id, 'instance id');
    const timeoutMs =
      timeout === undefined ? undefined : parseDuration(timeout, 'client.waitForOrchestration: timeout');
    const reply = await this.#asking('wait', id, () => {
      const pending = this.#port.open((store, request) => store.waitForEnd(request, id));
      return within(pending, timeoutMs, this.#port.timers, () => {
        throw new TimeoutError(
          `instance '${id}' has not ended within ${timeoutMs} ms`,
          timeoutMs === undefined ? {} : { timeoutMs },
        );
      });
    });
    return this.#statusOf<T>(reply) as InstanceStatus<T>;
  }

  /**
   * Wait for a change of an instance's custom status.
   *
   * @param lastVersion - the `customStatusVersion` that is known already; 0 for none
   * @param pollInterval - how often to look where the change happens in another process. The store may look more often
   * @param timeout - how long. Default: for ever
   * @returns the status of a later version, at once if there is one; `null` when the time is over, or the instance ends without a change
   * @throws InstanceNotFoundError when there is none of that id
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
    const pending = this.#port.open((store, request) => store.waitForStatusChange(request, id, lastVersion));
    const change = changeOf(await within(pending, timeoutMs, this.#port.timers, () => null), this.#port, id);
    return change && { customStatus: change.customStatus, customStatusVersion: change.customStatusVersion };
  }

  /**
   * The changes of an instance's custom status, until the instance ends: what it is now, if it was set, and each later one. Of changes
   * that follow each other faster than they are read, the latest is given. A change in this process wakes it at once.
   *
   * Leaving the loop stops the watch, and so does `return()` of the iterator, also while it waits. It throws `InstanceNotFoundError`
   * when there is no instance of that id.
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
   * Raise an event for `ctx.waitForEvent(name)`. It is kept until the instance waits for it.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws LimitError when too many wait for it unread (`limits.mailboxMessages`); nothing is stored then
   * @throws PayloadError when the data cannot be stored
   */
  async raiseEvent(id: string, name: string, data?: unknown): Promise<void> {
    checkName(id, 'instance id');
    checkName(name, 'event name');
    const payload = this.#toStored(data, 'event', Place.mail(id, `e${name}`));
    const { mailboxMessages } = this.#holding();
    await this.#telling(
      'raise',
      id,
      (store, request) => store.send(request, id, 'event', name, payload, mailboxMessages),
      name,
    );
  }

  /**
   * Put a message into a queue for `ctx.dequeueEvent(queue)`: first in, first out, each to exactly one dequeue.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws LimitError when too many wait for it unread (`limits.mailboxMessages`); nothing is stored then
   * @throws PayloadError when the data cannot be stored
   */
  async enqueueEvent(id: string, queue: string, data?: unknown): Promise<void> {
    checkName(id, 'instance id');
    checkName(queue, 'queue name');
    const payload = this.#toStored(data, 'event', Place.mail(id, `q${queue}`));
    const { mailboxMessages } = this.#holding();
    await this.#telling(
      'enqueue',
      id,
      (store, request) => store.send(request, id, 'queue', queue, payload, mailboxMessages),
      queue,
    );
  }

  /**
   * Ask an instance to cancel: its pending `yield` throws `CancelledError`, which it may catch to clean up. Nothing
   * happens when it has ended, or was asked before: cleanup is not interrupted.
   *
   * An instance that is Suspended has no code that can run. It is Cancelled when this resolves, without its cleanup, and so are its children
   * that are Suspended; the others are asked to cancel.
   *
   * @throws InstanceNotFoundError when there is none of that id
   */
  async cancelInstance(id: string, reason?: string): Promise<void> {
    const why = this.#reason(id, reason, 'cancellation', 'client.cancelInstance');
    await this.#telling('cancel', id, (store, request) => store.cancel(request, id, why));
  }

  /**
   * End an instance at once, without running any more of its code. Nothing happens when it has ended.
   *
   * @throws InstanceNotFoundError when there is none of that id
   */
  async terminateInstance(id: string, reason?: string): Promise<void> {
    const why = this.#reason(id, reason, 'termination', 'client.terminateInstance');
    await this.#telling('terminate', id, (store, request) => store.terminate(request, id, why));
  }

  /**
   * Hold an instance: it becomes Suspended, at once and whoever runs it, and none of its code runs until {@link resume}. What it had
   * stored stays; activities of it that run are aborted and run again then, those that other runtimes took from a queue are not.
   * Events and messages wait for it. Nothing happens when it is Suspended already: one that other code would let go on still does.
   *
   * @param reason - shown by `getStatus(id).error`
   * @throws InstanceNotFoundError when there is none of that id
   * @throws RuntimeStateError when it has ended
   *
   * @example
   * ```ts
   * await client.suspend('order-1', 'the bank is down');
   * await client.resume('order-1');
   * ```
   */
  async suspend(id: string, reason?: string): Promise<void> {
    const why = this.#reason(id, reason, 'suspension', 'client.suspend');
    await this.#telling('suspend', id, (store, request) => store.suspend(request, id, why));
  }

  /**
   * Let a Suspended instance go on, once the code fits its history again. One that is suspended with a `NondeterminismError` goes on by
   * itself when other code of its orchestration is registered: see `runtime.registerOrchestration`.
   *
   * @throws InstanceNotFoundError when there is none of that id
   */
  async resume(id: string): Promise<void> {
    checkName(id, 'instance id');
    await this.#telling('resume', id, (store, request) => store.resume(request, id));
  }

  /**
   * What is recorded of an execution of an instance, in order, all in memory: for a long one see {@link historyEvents}.
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
   * What is recorded of an execution of an instance, in order, read page by page (2 000 events) while it is iterated over.
   *
   * @param executionId - as in {@link getHistory}, which also says what the iteration throws
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
   * Some events of an execution of an instance, from anywhere in its history on.
   *
   * @returns the events, and from where to go on
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
   * The history of an execution as plain JSON, for a test that replays it with the code of tomorrow: `replay` of `perdure/testing`. Values
   * are in it as they are stored, those of a store with a codec decoded: what is secret in a history is so in its export.
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
   * Instances that match all conditions given, the newest first: to iterate over, or page by page. What has not ended, or is
   * Suspended, is found fast among any number of others; another condition is asked of each instance that the list comes by.
   *
   * @throws TypeError naming the option that is unknown or wrong
   *
   * @example
   * ```ts
   * for await (const { id } of client.listInstances({ status: ['Pending', 'Running'], tags: { team: 'billing' } })) console.log(id);
   *
   * let page = await client.listInstances({ limit: 20 }).page();
   * if (page.cursor !== null) page = await client.listInstances({ limit: 20, cursor: page.cursor }).page();
   * ```
   */
  listInstances(options?: ListOptions): InstanceList {
    return new InstanceList(this.#port, checkOptions(options, LIST_OPTIONS, 'client.listInstances') ?? {});
  }

  /**
   * Delete an instance that has ended, with its histories. Its children stay.
   *
   * @throws InstanceNotFoundError when there is none of that id
   * @throws RuntimeStateError when it has not ended: cancel or terminate it first
   */
  async deleteInstance(id: string): Promise<void> {
    checkName(id, 'instance id');
    await this.#asking('delete', id, () => this.#port.request((store, request) => store.delete(request, id)));
  }

  /**
   * Delete ended instances that match all conditions given, as {@link deleteInstance} does, the longest ended first. They go in small
   * batches, between which turns are committed; when it fails on the way, what is deleted stays so.
   *
   * @param options - which; `{}` is everything that has ended
   * @returns how many were deleted
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
    const text = filterText(filter);
    const reply = await this.#port.request((store, request) => store.prune(request, text, limit));
    return { deleted: Number(reply) };
  }

  /**
   * Delete the histories of former executions, as `continueAsNew` leaves them, of all instances that match, ended or not. The instances
   * stay as they are. It goes in small steps, as {@link prune} does.
   *
   * @param options - which, and how many executions each keeps
   * @returns of how many executions the history was deleted
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
    const reply = await this.#port.request((store, request) =>
      store.pruneExecutions(request, filterText(filter), keep),
    );
    return { deleted: Number(reply) };
  }

  /**
   * Encode all values of the store anew with the key that the codec of this client's provider names, while workers run: each text of another key, and plain text
   * unless the codec says `required`. It goes in small steps and changes only what is still as it was read; run again after it has ended in any way, it goes on with
   * what is left. Resolves when no text of another key is left but those that the codec cannot read, which stay as they are.
   *
   * Every worker and client must read both keys, and write with the new one, before this begins. What workers hold in memory they may still store with the old
   * key: restart them and run it once more before the old key goes.
   *
   * @throws TypeError when the provider has no codec, or that names no key, or an option is wrong
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
   * How much the store holds. It is counted from indexes: some 0.1 s for a million instances that have ended or sleep. Instances that
   * are due, or that workers hold, are looked at one by one.
   *
   * @example
   * ```ts
   * const { instances, due } = await client.stats();
   * if (due.overdue > 0) console.warn(`${due.overdue} instances wait for a worker, of ${instances.Running} that run`);
   * ```
   */
  async stats(): Promise<StoreStats> {
    const reply = await this.#port.request((store, request) => store.stats(request));
    return JSON.parse(reply as string) as StoreStats;
  }

  /**
   * How the store is set up: its kind and place, without secrets, the version of its tables, its size and settings.
   *
   * @example
   * ```ts
   * const { location, schemaVersion, settings } = await client.describeStore();
   * ```
   */
  async describeStore(): Promise<StoreDescription> {
    return descriptionOf(await this.#inspect());
  }

  /**
   * Look for rows of the store that are not as they must be: gaps in histories, owners that are no workers, rows that belong to nothing, instances that
   * nothing can ever wake; and damage of a SQLite file, which is read as a whole by the first step. Nothing is changed. Each step is of one moment, so it may
   * run while workers run, and what they are in the middle of is no finding.
   *
   * @param options - where to go on
   * @returns what was found in this step, and the cursor of the next one
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
    const reply = await this.#port.request((store, request) =>
      store.check(request, given.cursor ?? null, stepLimit(given)),
    );
    return JSON.parse(reply as string) as StoreCheck;
  }

  /**
   * The started runtimes of all processes, in order of their ids, what each of them has, and what it tells of itself (`about`). It counts what is owned one by one: for
   * people rather than for programs that ask all the time.
   *
   * @example
   * ```ts
   * for (const { name, isAlive, instances } of await client.workers()) console.log(name, isAlive, instances);
   * ```
   */
  async workers(): Promise<WorkerInfo[]> {
    return workersOf(await this.#inspect());
  }

  /**
   * What could go on and nobody takes, for 10 s and more, by orchestration and version; the longest waiting first, at most 20 of them. Either no started runtime has
   * registered that orchestration in that version, or those that have are too busy.
   *
   * @example
   * ```ts
   * for (const { name, version, instances } of await client.overdue()) console.log(`${instances} of ${name} ${version}`);
   * ```
   */
  async overdue(): Promise<OverdueInstances[]> {
    const reply = await this.#port.request((store, request) => store.overdue(request));
    return JSON.parse(reply as string) as OverdueInstances[];
  }

  async #inspect(): Promise<InspectionData> {
    return JSON.parse(
      (await this.#port.request((store, request) => store.inspect(request))) as string,
    ) as InspectionData;
  }

  async #start(id: string, name: string, input: unknown, options: StartOptions | undefined): Promise<void> {
    const payload = this.#toStored(input, 'input', Place.input(id, 1));
    const { version = null, tags, priority = 0, onConflict = 'error' } = options ?? {};
    const tagText = tags === undefined ? null : JSON.stringify(tags);
    const start: Issue = (store, request, trace) =>
      store.start(request, id, name, version, payload, tagText, priority, onConflict, trace);
    await this.#telling('start', id, start, name);
  }

  /** What instances go on because of. */
  #telling(operation: string, instanceId: string, issue: Issue, target?: string): Promise<string | null> {
    const call = { operation, instanceId, isProducer: true, ...(target === undefined ? {} : { target }) };
    return this.#traced(call, (trace) => this.#port.request((store, request) => issue(store, request, trace)));
  }

  /** What the client learns, or does to what has ended. */
  #asking<T>(operation: string, instanceId: string, ask: () => Promise<T>): Promise<T> {
    return this.#traced({ operation, instanceId, isProducer: false }, ask);
  }

  #traced<T>(call: ClientCall, run: (trace: TraceContext | null) => Promise<T>): Promise<T> {
    return this.#telemetry === undefined ? run(null) : this.#telemetry.call(call, run);
  }

  #statusOf<T>(reply: string | null): InstanceStatus<T> | null {
    const data = JSON.parse(reply ?? 'null') as StatusData | null;
    return data === null ? null : statusOf<T>(data, this.#port.texts);
  }

  /** The reason as it is stored. */
  #reason(
    id: string,
    reason: unknown,
    what: 'cancellation' | 'termination' | 'suspension',
    where: string,
  ): string | null {
    checkName(id, 'instance id');
    if (reason === undefined) return null;
    if (typeof reason !== 'string') throw new TypeError(`${where}: the reason must be a string`);
    return this.#toStored(reason, 'reason', what === 'termination' ? Place.end(id, what) : Place.ofInstance(id, what));
  }

  /** The limits that hold now. */
  #holding(): Required<ClientLimits> {
    return this.#limits === undefined ? this.#port.limits : limitsOver(this.#limits, this.#port.limits);
  }

  #toStored(value: unknown, path: string, place: Place): string | null {
    return this.#port.texts.write(toPayload(value, path, this.#holding()), path, place);
  }
}

function checkExecution(id: unknown, executionId: unknown, where: string): void {
  checkName(id, 'instance id');
  if (executionId !== undefined) whole(1)(executionId, `${where}: the executionId`);
}

/** A UUID whose beginning is the time, so that ids made later sort later (RFC 9562, version 7). */
function uuidv7(): string {
  const bytes = process.getBuiltinModule('node:crypto').randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

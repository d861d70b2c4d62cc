// The client: starts instances, asks for them and sends to them, from any process that opens the store.

import { randomBytes } from 'node:crypto';

import { type Duration, parseDuration, TIMER_MAX_MS } from './duration.ts';
import { CancelledError, fromNative, type NativeErrorData, type PerdureError, TimeoutError } from './errors.ts';
import { checkClientLimits, type ClientLimits, limitsOver } from './limits.ts';
import { checkName, checkOptions, duration, named, oneOf, whole } from './options.ts';
import { INSTANCE_OPTIONS, type InputArguments, type InstanceOptions, type OrchestrationDefinition } from './orchestration.ts';
import { fromErrorPayload, fromPayload, terminationError, toPayload } from './payload.ts';
import { Provider, shownToCaller, type StorePort } from './providers.ts';
import { parse } from './schema.ts';

/** Where an instance stands. The last four are terminal but for Suspended, from which it can be resumed. */
export type InstanceState = 'Pending' | 'Running' | 'Completed' | 'Failed' | 'Cancelled' | 'Terminated' | 'Suspended';

/** What is known of an instance. */
export interface InstanceStatus<T = any> {
  readonly id: string;
  /** Name of its orchestration. */
  readonly name: string;
  /** Version of its orchestration. */
  readonly version: string;
  readonly status: InstanceState;
  /** Number of its current or last execution, from 1. */
  readonly executionId: number;
  /** What it returned, when Completed. */
  readonly output?: T;
  /** What it threw, when Failed or Cancelled; why it was stopped, when Terminated; what does not fit, when Suspended. */
  readonly error?: Error;
  readonly customStatus: any;
  /** Number of times that the custom status has changed. */
  readonly customStatusVersion: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** When it ended. */
  readonly completedAt?: Date;
  /** The instance that waits for it, if it is a child. */
  readonly parentId?: string;
  readonly tags: Readonly<Record<string, string>>;
}

/** A custom status and the number of changes that led to it. */
export interface CustomStatus {
  readonly customStatus: any;
  readonly customStatusVersion: number;
}

/** One recorded event of an instance. */
export interface HistoryEvent {
  /** Its number within the execution, from 1 without gap. */
  readonly eventId: number;
  readonly time: Date;
  /** Such as `ActivityScheduled`. */
  readonly kind: string;
  /** The event that this one answers, such as the schedule of a completion. */
  readonly refId?: number;
  /** Of an activity, event or queue. */
  readonly name?: string;
  /** The value that goes with it; an error as plain data. */
  readonly payload?: any;
  readonly meta?: any;
}

/** Options of a {@link Client}. */
export interface ClientOptions {
  /** How large things may grow. Default: the limits of the runtime that was made last with the same provider object and had some. */
  limits?: ClientLimits;
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

/** What the store says of an instance. */
interface StatusData {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly status: InstanceState;
  readonly executionId: number;
  readonly result: string | null;
  readonly customStatus: string | null;
  readonly customStatusVersion: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly completedAt: number | null;
  readonly parentId: string | null;
  readonly tags: string | null;
}

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

  /** @throws TypeError when `provider` is none, or an option is wrong */
  constructor(provider: Provider, options?: ClientOptions) {
    this.#port = Provider.portOf(provider, 'new Client');
    checkOptions(options, { limits: checkClientLimits }, 'new Client');
    this.#limits = options?.limits;
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
    checkOptions(options, START_OPTIONS, 'client.startOrchestration');
    await this.#start(id, name, input, options);
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
    if (definition?.kind !== 'orchestration') throw new TypeError('client.start takes what defineOrchestration returned');
    const [input, options] = args;
    checkOptions(options, TYPED_START_OPTIONS, 'client.start');
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
    const reply = await this.#port.request((store, request) => store.status(request, id));
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
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, 'client.waitForOrchestration: timeout');
    const pending = this.#port.open((store, request) => store.waitForEnd(request, id));
    const reply = await within(pending, timeoutMs, () => {
      throw new TimeoutError(`instance '${id}' has not ended within ${timeoutMs} ms`, timeoutMs === undefined ? {} : { timeoutMs });
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
    const reply = await within(pending, timeoutMs, () => null);
    if (reply === null) return null;
    const change = JSON.parse(reply) as { customStatus: string | null; customStatusVersion: number } | null;
    if (change === null) return null;
    return { customStatus: this.#fromStored(change.customStatus, 'status'), customStatusVersion: change.customStatusVersion };
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
    const payload = this.#toStored(data, 'event');
    const { mailboxMessages } = this.#holding();
    await this.#port.request((store, request) => store.send(request, id, 'event', name, payload, mailboxMessages));
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
    const payload = this.#toStored(data, 'event');
    const { mailboxMessages } = this.#holding();
    await this.#port.request((store, request) => store.send(request, id, 'queue', queue, payload, mailboxMessages));
  }

  /**
   * Ask an instance to cancel: its pending `yield` throws `CancelledError`, which it may catch to clean up. Nothing
   * happens when it has ended, or was asked before: cleanup is not interrupted.
   *
   * @throws InstanceNotFoundError when there is none of that id
   */
  async cancelInstance(id: string, reason?: string): Promise<void> {
    const why = this.#reason(id, reason, 'client.cancelInstance');
    await this.#port.request((store, request) => store.cancel(request, id, why));
  }

  /**
   * End an instance at once, without running any more of its code. Nothing happens when it has ended.
   *
   * @throws InstanceNotFoundError when there is none of that id
   */
  async terminateInstance(id: string, reason?: string): Promise<void> {
    const why = this.#reason(id, reason, 'client.terminateInstance');
    await this.#port.request((store, request) => store.terminate(request, id, why));
  }

  /**
   * Let a Suspended instance go on, once the code fits its history again. One that is suspended with a `NondeterminismError` goes on by
   * itself when other code of its orchestration is registered: see `runtime.registerOrchestration`.
   *
   * @throws InstanceNotFoundError when there is none of that id
   */
  async resume(id: string): Promise<void> {
    checkName(id, 'instance id');
    await this.#port.request((store, request) => store.resume(request, id));
  }

  /**
   * What is recorded of an execution of an instance, in order.
   *
   * @param executionId - from 1; without it the current or last one
   * @throws InstanceNotFoundError when there is no instance of that id, or it has no such execution
   * @throws TypeError when an argument is wrong
   */
  async getHistory(id: string, executionId?: number): Promise<HistoryEvent[]> {
    checkName(id, 'instance id');
    if (executionId !== undefined) whole(1)(executionId, 'client.getHistory: the executionId');
    const reply = await this.#port.request((store, request) => store.history(request, id, executionId ?? 0));
    return (JSON.parse(reply ?? '[]') as HistoryEventData[]).map((event) => this.#historyEventOf(event));
  }

  async #start(id: string, name: string, input: unknown, options: StartOptions | undefined): Promise<void> {
    const payload = this.#toStored(input, 'input');
    const { version = null, tags, priority = 0, onConflict = 'error' } = options ?? {};
    const tagText = tags === undefined ? null : JSON.stringify(tags);
    await this.#port.request((store, request) =>
      store.start(request, id, name, version, payload, tagText, priority, onConflict),
    );
  }

  #historyEventOf(data: HistoryEventData): HistoryEvent {
    const { eventId, timeMs, kind, refId, name, payload, meta } = data;
    return {
      eventId,
      time: new Date(timeMs),
      kind,
      ...(refId === null || refId === undefined ? {} : { refId }),
      ...(name === null || name === undefined ? {} : { name }),
      ...(payload === null || payload === undefined ? {} : { payload: this.#fromStored(payload, `payload of event ${eventId}`) }),
      ...(meta === null || meta === undefined ? {} : { meta: JSON.parse(meta as string) as HistoryEvent['meta'] }),
    };
  }

  #statusOf<T>(reply: string | null): InstanceStatus<T> | null {
    const data = JSON.parse(reply ?? 'null') as StatusData | null;
    if (data === null) return null;
    const { id, name, version, status, executionId, customStatusVersion, completedAt, parentId } = data;
    return {
      id,
      name,
      version,
      status,
      executionId,
      ...this.#resultOf<T>(data),
      customStatus: this.#fromStored(data.customStatus, 'status'),
      customStatusVersion,
      createdAt: new Date(data.createdAt),
      updatedAt: new Date(data.updatedAt),
      ...(completedAt === null ? {} : { completedAt: new Date(completedAt) }),
      ...(parentId === null ? {} : { parentId }),
      tags: JSON.parse(data.tags ?? '{}') as Record<string, string>,
    };
  }

  #resultOf<T>({ id, status, result }: StatusData): { output?: T; error?: Error } {
    switch (status) {
      case 'Completed':
        return { output: this.#fromStored(result, 'output') as T };
      case 'Failed':
      case 'Cancelled':
        return { error: fromErrorPayload(this.#port.texts.read(result, 'error')) };
      case 'Terminated':
        return { error: terminationError(this.#port.texts.read(result, 'reason'), id) };
      case 'Suspended':
        return { error: suspension(id, result) };
      case 'Pending':
      case 'Running':
        return {};
      default:
        return status satisfies never;
    }
  }

  /** The reason as it is stored. */
  #reason(id: unknown, reason: unknown, where: string): string | null {
    checkName(id, 'instance id');
    if (reason === undefined) return null;
    if (typeof reason !== 'string') throw new TypeError(`${where}: the reason must be a string`);
    return this.#toStored(reason, 'reason');
  }

  /** The limits that hold now. */
  #holding(): Required<ClientLimits> {
    return this.#limits === undefined ? this.#port.limits : limitsOver(this.#limits, this.#port.limits);
  }

  #toStored(value: unknown, path: string): string | null {
    return this.#port.texts.write(toPayload(value, path, this.#holding()), path);
  }

  #fromStored(text: string | null, path: string): unknown {
    return fromPayload(this.#port.texts.read(text, path), path);
  }
}

/**
 * One instance, with the type of its output.
 *
 * @example
 * ```ts
 * const handle = await client.start(order, { total: 12 });
 * await handle.raiseEvent('approve', { by: 'ada' });
 * const receiptId = await handle.result({ timeout: '30s' });
 * ```
 */
export class InstanceHandle<T = any> {
  readonly #client: Client;
  /** Id of the instance. */
  readonly id: string;

  /** @internal */
  constructor(client: Client, id: string) {
    this.#client = client;
    this.id = id;
  }

  /**
   * Wait until the instance has ended, and give what it returned.
   *
   * @param options - `timeout`: how long to wait. Default: for ever
   * @throws what the orchestration threw, when it Failed; `CancelledError` when it was cancelled or terminated
   * @throws TimeoutError when it has not ended in time
   * @throws InstanceNotFoundError when there is none of that id
   */
  async result(options?: { timeout?: Duration }): Promise<T> {
    checkOptions(options, { timeout: duration() }, 'handle.result');
    const { status, output, error } = await this.#client.waitForOrchestration<T>(this.id, options?.timeout);
    if (status === 'Completed') return output as T;
    throw error ?? new CancelledError(`instance '${this.id}' is ${status}`);
  }

  /** See {@link Client.getStatus}. */
  status(): Promise<InstanceStatus<T> | null> {
    return this.#client.getStatus<T>(this.id);
  }

  /** See {@link Client.waitForStatusChange}. */
  waitForStatusChange(lastVersion: number, pollInterval?: Duration, timeout?: Duration): Promise<CustomStatus | null> {
    return this.#client.waitForStatusChange(this.id, lastVersion, pollInterval, timeout);
  }

  /** See {@link Client.raiseEvent}. */
  raiseEvent(name: string, data?: unknown): Promise<void> {
    return this.#client.raiseEvent(this.id, name, data);
  }

  /** See {@link Client.enqueueEvent}. */
  enqueueEvent(queue: string, data?: unknown): Promise<void> {
    return this.#client.enqueueEvent(this.id, queue, data);
  }

  /** See {@link Client.cancelInstance}. */
  cancel(reason?: string): Promise<void> {
    return this.#client.cancelInstance(this.id, reason);
  }

  /** See {@link Client.terminateInstance}. */
  terminate(reason?: string): Promise<void> {
    return this.#client.terminateInstance(this.id, reason);
  }
}

interface HistoryEventData {
  readonly eventId: number;
  readonly timeMs: number;
  readonly kind: string;
  readonly refId?: number | null;
  readonly name?: string | null;
  readonly payload?: string | null;
  readonly meta?: unknown;
}

/** Why an instance is suspended: the runtime's report is the data of an error, the store's own a text. */
function suspension(id: string, report: string | null): PerdureError {
  const message = report ?? `instance '${id}' is suspended`;
  try {
    return fromNative(JSON.parse(message) as NativeErrorData);
  } catch {
    return fromNative({ code: 'SUSPENDED', message });
  }
}

/** The reply, or what `late` gives or throws when it does not come in time. */
function within<T>(
  pending: { reply: Promise<string | null>; abandon(): void },
  timeoutMs: number | undefined,
  late: () => T,
): Promise<string | null | T> {
  if (timeoutMs === undefined) return shownToCaller(pending.reply);
  return shownToCaller(new Promise((resolve, reject) => {
    const deadline = performance.now() + timeoutMs;
    const expire = (): void => {
      const left = deadline - performance.now();
      if (left > 0) {
        timer = setTimeout(expire, Math.min(left, TIMER_MAX_MS));
        return;
      }
      pending.abandon();
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    };
    let timer = setTimeout(expire, Math.min(timeoutMs, TIMER_MAX_MS));
    pending.reply.then(
      (reply) => {
        clearTimeout(timer);
        resolve(reply);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  }));
}

/** A UUID whose beginning is the time, so that ids made later sort later (RFC 9562, version 7). */
function uuidv7(): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

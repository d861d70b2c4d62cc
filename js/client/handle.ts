// A client's handle of one instance.

import { CancelledError, SuspendedError } from '../errors/errors.ts';
import type { InputArguments } from '../orchestration/call-options.ts';
import type { OrchestrationDefinition } from '../orchestration/definition.ts';
import type { EventDefinition, QueueDefinition } from '../orchestration/messages.ts';
import type { QueryDefinition } from '../orchestration/queries.ts';
import type { SendArguments } from '../orchestration/send-options.ts';
import type { UpdateDefinition } from '../orchestration/updates.ts';
import { untilAborted } from '../util/abort.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkOptions, type OptionTable, oneOf } from '../util/options.ts';
import { checkRuns } from './addressed.ts';
import type { Client } from './client.ts';
import type { EndWaits } from './end-waits.ts';
import type { StatusOptions } from './inputs.ts';
import type { CustomStatus, InstanceStatus } from './instance-status.ts';
import type { QueryOptions } from './querying.ts';
import type { ReadStreamOptions, StreamReader } from './streams.ts';
import type { UpdateOptions } from './updating.ts';
import { suspensionReason } from './wait-reason.ts';
import {
  STATUS_CHANGES_OPTIONS,
  type StatusChange,
  type StatusChangeArguments,
  type StatusChangeOptions,
  type StatusChangesOptions,
  statusChanges,
  statusChangeWait,
  WAIT_OPTIONS,
  waitForStatusChange,
} from './watching.ts';

/** Options of {@link InstanceHandle.result}. */
export interface ResultOptions {
  /** Longest wait. Default: for ever. */
  timeout?: Duration;
  /**
   * Behaviour when the instance is Suspended, or becomes so during the wait. `'throw'` (default) throws a
   * {@link SuspendedError} at once. `'wait'` waits until the instance is resumed and has ended.
   */
  onSuspended?: 'throw' | 'wait';
  /**
   * When aborted, ends the wait at once: `result` rejects with the signal's reason. The instance goes on: to cancel it,
   * call {@link InstanceHandle.cancel}. Default: none.
   *
   * @example
   * ```ts
   * const receipt = await handle.result({ signal: request.signal });
   * const other = await handle.result({ signal: request.signal, timeout: '20s' });
   * ```
   */
  signal?: AbortSignal;
}

/** The checks of {@link ResultOptions}. */
const RESULT_OPTIONS = { ...WAIT_OPTIONS, onSuspended: oneOf('throw', 'wait') } satisfies OptionTable;

/**
 * A handle of one instance, with the types of its output, its custom status and its input. The methods that read throw
 * `WrongDefinitionError` when the instance runs another orchestration than the definition that typed the handle.
 *
 * @example
 * ```ts
 * const handle = await client.start(order, { total: 12 });
 * await handle.raiseEvent('approve', { by: 'ada' });
 * const receiptId = await handle.result({ timeout: '30s' });
 * ```
 */
export class InstanceHandle<O = unknown, S = unknown, I = unknown> {
  readonly #client: Client;
  readonly #waits: EndWaits;
  readonly #definition: OrchestrationDefinition | undefined;
  /** True once the instance is known to run the definition. */
  #isChecked: boolean;
  /** Id of the instance. */
  readonly id: string;

  /** @internal */
  constructor(client: Client, waits: EndWaits, id: string, definition?: OrchestrationDefinition) {
    this.#client = client;
    this.#waits = waits;
    this.#definition = definition;
    this.#isChecked = definition === undefined;
    this.id = id;
  }

  /** @internal */
  static clientOf(handle: InstanceHandle): Client {
    return handle.#client;
  }

  /**
   * Waits until the instance has ended, and returns its output. The end of the wait does not end the instance.
   *
   * @throws the error that the orchestration threw, when it Failed; `CancelledError` when it was cancelled or
   *   terminated
   * @throws SuspendedError as soon as the instance is Suspended, unless `onSuspended` is `'wait'`
   * @throws TimeoutError when the instance has not ended in time; its `reason` says why, where that is known
   * @throws the signal's reason when `signal` is aborted
   * @throws InstanceNotFoundError when there is no instance of that id
   */
  async result(options?: ResultOptions): Promise<O> {
    const { timeout, onSuspended = 'throw', signal } = checkOptions(options, RESULT_OPTIONS, 'handle.result') ?? {};
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, 'handle.result: timeout');
    const found = await this.#waits.end<O>(this.id, { timeoutMs, signal }, onSuspended === 'throw');
    checkRuns(this.#definition, found);
    const { status, output, error } = found;
    if (status === 'Completed') return output as O;
    if (status === 'Suspended') {
      const message = `instance '${this.id}' is Suspended: ${suspensionReason(error)}`;
      throw new SuspendedError(message, { instanceId: this.id, ...(error === undefined ? {} : { cause: error }) });
    }
    throw error ?? new CancelledError(`instance '${this.id}' is ${status}`);
  }

  /** See {@link Client.getStatus}. */
  status(options?: StatusOptions): Promise<InstanceStatus<O, S, I> | null> {
    const address = this.#definition === undefined ? [this.id] : [this.#definition, this.id];
    return this.#client.getStatus(
      ...([...address, options] as [OrchestrationDefinition<I, O, S>, string, StatusOptions]),
    );
  }

  /** See {@link Client.waitForStatusChange}. */
  waitForStatusChange(lastVersion: number, options?: StatusChangeOptions): Promise<CustomStatus<S> | null>;
  waitForStatusChange(
    lastVersion: number,
    pollInterval?: Duration,
    timeout?: Duration,
  ): Promise<CustomStatus<S> | null>;
  async waitForStatusChange(...args: StatusChangeArguments): Promise<CustomStatus<S> | null> {
    const wait = statusChangeWait(args, 'handle.waitForStatusChange');
    await untilAborted(wait.signal, () => ({ reply: this.#check(), abandon() {} }));
    return waitForStatusChange<S>(this.#waits.port, this.id, wait);
  }

  /** See {@link Client.statusChanges}. */
  statusChanges(options?: StatusChangesOptions): AsyncIterableIterator<StatusChange<S>, void> & AsyncDisposable {
    const checked = checkOptions(options, STATUS_CHANGES_OPTIONS, 'handle.statusChanges') ?? {};
    return statusChanges<S>(this.#waits.port, this.id, checked, () => this.#check());
  }

  /** See {@link Client.raiseEvent}. */
  raiseEvent<I, R = undefined>(
    event: string | EventDefinition<I, unknown>,
    ...data: SendArguments<NoInfer<I>, R>
  ): Promise<void> {
    return this.#client.raiseEvent<I, R>(this.id, event, ...data);
  }

  /** See {@link Client.enqueueEvent}. */
  enqueueEvent<I, R = undefined>(
    queue: string | QueueDefinition<I, unknown>,
    ...data: SendArguments<NoInfer<I>, R>
  ): Promise<void> {
    return this.#client.enqueueEvent<I, R>(this.id, queue, ...data);
  }

  /** See {@link Client.update}. */
  update<I, O>(
    update: string | UpdateDefinition<I, O, any>,
    ...args: InputArguments<NoInfer<I>, UpdateOptions>
  ): Promise<O> {
    return this.#client.update<I, O>(this.id, update, ...args);
  }

  /** See {@link Client.query}. */
  query<I, O>(
    query: string | QueryDefinition<I, O, any>,
    ...args: InputArguments<NoInfer<I>, QueryOptions>
  ): Promise<O> {
    return this.#client.query<I, O>(this.id, query, ...args);
  }

  /** See {@link Client.readStream}. */
  readStream<T = unknown>(name: string, options?: ReadStreamOptions): StreamReader<T> {
    return this.#client.readStream<T>(this.id, name, options);
  }

  /** See {@link Client.cancelInstance}. */
  cancel(reason?: string): Promise<void> {
    return this.#client.cancelInstance(this.id, reason);
  }

  /** See {@link Client.terminateInstance}. */
  terminate(reason?: string): Promise<void> {
    return this.#client.terminateInstance(this.id, reason);
  }

  /** See {@link Client.suspend}. */
  suspend(reason?: string): Promise<void> {
    return this.#client.suspend(this.id, reason);
  }

  /** See {@link Client.resume}. */
  resume(): Promise<void> {
    return this.#client.resume(this.id);
  }

  /** Checks the orchestration of the instance, once. An instance that does not exist is found missing later. */
  async #check(): Promise<void> {
    if (!this.#isChecked) this.#isChecked = (await this.status()) !== null;
  }
}

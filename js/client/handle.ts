// A client's handle of one instance.

import { CancelledError, SuspendedError } from '../errors/errors.ts';
import type { EventDefinition, MessageArguments, QueueDefinition } from '../orchestration/messages.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkOptions, duration, type OptionTable, oneOf } from '../util/options.ts';
import type { Client } from './client.ts';
import type { EndWaits } from './end-waits.ts';
import type { CustomStatus, InstanceStatus } from './instance-status.ts';
import { suspensionReason } from './wait-reason.ts';
import type { StatusChange, StatusChangesOptions } from './watching.ts';

/** Options of {@link InstanceHandle.result}. */
export interface ResultOptions {
  /** Longest wait. Default: for ever. */
  timeout?: Duration;
  /**
   * Behaviour when the instance is Suspended, or becomes so during the wait. `'throw'` (default) throws a
   * {@link SuspendedError} at once. `'wait'` waits until the instance is resumed and has ended.
   */
  onSuspended?: 'throw' | 'wait';
}

/** The checks of {@link ResultOptions}. */
const RESULT_OPTIONS = { timeout: duration(), onSuspended: oneOf('throw', 'wait') } satisfies OptionTable;

/**
 * A handle of one instance, with the type of its output.
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
  readonly #waits: EndWaits;
  /** Id of the instance. */
  readonly id: string;

  /** @internal */
  constructor(client: Client, waits: EndWaits, id: string) {
    this.#client = client;
    this.#waits = waits;
    this.id = id;
  }

  /** @internal */
  static clientOf(handle: InstanceHandle): Client {
    return handle.#client;
  }

  /**
   * Waits until the instance has ended, and returns its output.
   *
   * @throws the error that the orchestration threw, when it Failed; `CancelledError` when it was cancelled or
   *   terminated
   * @throws SuspendedError as soon as the instance is Suspended, unless `onSuspended` is `'wait'`
   * @throws TimeoutError when the instance has not ended in time; its `reason` says why, where that is known
   * @throws InstanceNotFoundError when there is no instance of that id
   */
  async result(options?: ResultOptions): Promise<T> {
    const { timeout, onSuspended = 'throw' } = checkOptions(options, RESULT_OPTIONS, 'handle.result') ?? {};
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, 'handle.result: timeout');
    const { status, output, error } = await this.#waits.end<T>(this.id, timeoutMs, onSuspended === 'throw');
    if (status === 'Completed') return output as T;
    if (status === 'Suspended') {
      const message = `instance '${this.id}' is Suspended: ${suspensionReason(error)}`;
      throw new SuspendedError(message, { instanceId: this.id, cause: error });
    }
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

  /** See {@link Client.statusChanges}. */
  statusChanges(options?: StatusChangesOptions): AsyncIterableIterator<StatusChange, void> & AsyncDisposable {
    return this.#client.statusChanges(this.id, options);
  }

  /** See {@link Client.raiseEvent}. */
  raiseEvent<I>(event: string | EventDefinition<I, unknown>, ...data: MessageArguments<NoInfer<I>>): Promise<void> {
    return this.#client.raiseEvent(this.id, event, ...data);
  }

  /** See {@link Client.enqueueEvent}. */
  enqueueEvent<I>(queue: string | QueueDefinition<I, unknown>, ...data: MessageArguments<NoInfer<I>>): Promise<void> {
    return this.#client.enqueueEvent(this.id, queue, ...data);
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
}

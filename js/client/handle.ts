// A client's handle of one instance.

import { CancelledError } from '../errors/errors.ts';
import type { Duration } from '../util/duration.ts';
import { checkOptions, duration } from '../util/options.ts';
import type { Client } from './client.ts';
import type { CustomStatus, InstanceStatus } from './instance-status.ts';
import type { StatusChange, StatusChangesOptions } from './watching.ts';

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
  /** Id of the instance. */
  readonly id: string;

  /** @internal */
  constructor(client: Client, id: string) {
    this.#client = client;
    this.id = id;
  }

  /** @internal */
  static clientOf(handle: InstanceHandle): Client {
    return handle.#client;
  }

  /**
   * Waits until the instance has ended, and returns its output.
   *
   * @param options - `timeout`: longest wait. Default: for ever
   * @throws the error that the orchestration threw, when it Failed; `CancelledError` when it was cancelled or
   *   terminated
   * @throws TimeoutError when the instance has not ended in time
   * @throws InstanceNotFoundError when there is no instance of that id
   */
  async result(options?: { timeout?: Duration }): Promise<T> {
    const timeout = checkOptions(options, { timeout: duration() }, 'handle.result')?.timeout;
    const { status, output, error } = await this.#client.waitForOrchestration<T>(this.id, timeout);
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

  /** See {@link Client.statusChanges}. */
  statusChanges(options?: StatusChangesOptions): AsyncIterableIterator<StatusChange, void> & AsyncDisposable {
    return this.#client.statusChanges(this.id, options);
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

  /** See {@link Client.suspend}. */
  suspend(reason?: string): Promise<void> {
    return this.#client.suspend(this.id, reason);
  }

  /** See {@link Client.resume}. */
  resume(): Promise<void> {
    return this.#client.resume(this.id);
  }
}

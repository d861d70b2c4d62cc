// The part of a client that reads histories and executions.

import type { StorePort } from '../store/providers.ts';
import { checkName, checkOptions, whole } from '../util/options.ts';
import { EXECUTIONS_OPTIONS, ExecutionList, type ExecutionsOptions } from './executions.ts';
import {
  exportHistory,
  HISTORY_OPTIONS,
  HISTORY_PAGE_OPTIONS,
  type HistoryEvent,
  type HistoryExport,
  type HistoryOptions,
  type HistoryPage,
  type HistoryPageOptions,
  historyEvents,
  historyPage,
} from './history.ts';
import { StoreClient } from './store-client.ts';

/** The methods of a {@link Client} that read histories. It has no constructor of its own: make a `Client`. */
export abstract class HistoryClient extends StoreClient {
  readonly #port: StorePort;

  /** @internal */
  protected constructor(port: StorePort) {
    super(port);
    this.#port = port;
  }

  /**
   * Returns the events of an execution, in order, all in memory. For a long history see {@link historyEvents}.
   *
   * @param executionId - from 1; without it the current or last one
   * @throws InstanceNotFoundError when there is no instance of that id, or it has no such execution
   * @throws TypeError when an argument is wrong
   */
  async getHistory(id: string, executionId?: number, options?: HistoryOptions): Promise<HistoryEvent[]> {
    const signal = checked(id, executionId, options, 'client.getHistory');
    const events: HistoryEvent[] = [];
    for await (const event of historyEvents(this.#port, id, executionId, signal)) events.push(event);
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
  historyEvents(id: string, executionId?: number, options?: HistoryOptions): AsyncIterableIterator<HistoryEvent> {
    const signal = checked(id, executionId, options, 'client.historyEvents');
    return historyEvents(this.#port, id, executionId, signal);
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
  async exportHistory(id: string, executionId?: number, options?: HistoryOptions): Promise<HistoryExport> {
    const signal = checked(id, executionId, options, 'client.exportHistory');
    return exportHistory(this.#port, id, executionId, signal);
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
}

/** Checks the arguments of a method, and returns the signal that they hold. */
function checked(
  id: unknown,
  executionId: unknown,
  options: HistoryOptions | undefined,
  where: string,
): AbortSignal | undefined {
  checkName(id, 'instance id');
  if (executionId !== undefined) whole(1)(executionId, `${where}: the executionId`);
  return checkOptions(options, HISTORY_OPTIONS, where)?.signal;
}

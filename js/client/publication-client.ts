// The part of a client that reads what instances publish: values and streams.

import type { StorePort } from '../store/providers.ts';
import { checkName, checkOptions } from '../util/options.ts';
import { HistoryClient } from './history-client.ts';
import type { Requests } from './requests.ts';
import {
  readState,
  readStateValue,
  type StateChange,
  type StateValue,
  WATCH_STATE_OPTIONS,
  type WatchStateOptions,
  watchState,
} from './state.ts';
import { listStreams, type ReadStreamOptions, type StreamInfo, StreamReader } from './streams.ts';

/** The methods of a {@link Client} that read values and streams. It has no constructor of its own: make a `Client`. */
export abstract class PublicationClient extends HistoryClient {
  readonly #port: StorePort;
  readonly #requests: Requests;

  /** @internal */
  protected constructor(port: StorePort, requests: Requests) {
    super(port);
    this.#port = port;
    this.#requests = requests;
  }

  /**
   * Returns the values that an instance publishes with `ctx.state`: all of them by name, or the one of a name. The
   * values are those of the last turn that is stored. No code of the instance is run.
   *
   * @returns `null` when there is no instance of that id, or it has no value of that name
   * @throws PayloadError when a value cannot be read
   *
   * @example
   * ```ts
   * const progress = await client.getState<Progress>('order-1', 'progress');
   * if (progress !== null) console.log(progress.value, progress.version);
   * for (const [name, { value }] of (await client.getState('order-1')) ?? []) console.log(name, value);
   * ```
   */
  async getState(id: string): Promise<ReadonlyMap<string, StateValue> | null>;
  async getState<T = unknown>(id: string, name: string): Promise<StateValue<T> | null>;
  async getState(id: string, name?: string): Promise<ReadonlyMap<string, StateValue> | StateValue | null> {
    checkName(id, 'instance id');
    if (name !== undefined) checkName(name, 'name of the value');
    return this.#requests.query<ReadonlyMap<string, StateValue> | StateValue | null>('getState', id, () =>
      name === undefined ? readState(this.#port, id) : readStateValue(this.#port, id, name),
    );
  }

  /**
   * Iterates over the changes of a value that an instance publishes with `ctx.state`, until the instance ends: the
   * current value, if there is one, and each later one. When changes follow each other faster than they are read, only
   * the latest is returned. A change in this process wakes the iteration at once.
   *
   * Leaving the loop stops the watch. So does `return()` of the iterator, also during a wait. The iteration throws
   * `InstanceNotFoundError` when there is no instance of that id.
   *
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * for await (const { value } of client.watchState<Progress>('order-1', 'progress', { signal: request.signal })) {
   *   response.write(`data: ${JSON.stringify(value)}\n\n`);
   * }
   * ```
   */
  watchState<T = unknown>(
    id: string,
    name: string,
    options?: WatchStateOptions,
  ): AsyncIterableIterator<StateChange<T>, void> & AsyncDisposable {
    checkName(id, 'instance id');
    checkName(name, 'name of the value');
    return watchState<T>(this.#port, id, name, checkOptions(options, WATCH_STATE_OPTIONS, 'client.watchState') ?? {});
  }

  /**
   * Reads a stream of an instance: first the entries that are there, from an index on, then each later one as it is
   * written. The iteration ends after the last entry of a stream that is closed, or whose instance has ended. It holds
   * one page of entries in memory. A commit in this process wakes it at once.
   *
   * Entries that a failed attempt of an activity has left stay in the stream. A {@link StreamReset} before the entries
   * of the next attempt tells readers to drop them.
   *
   * Leaving the loop stops the reading. So does `return()` of the iterator, also during a wait. The iteration throws
   * `InstanceNotFoundError` when there is no instance of that id, or it was deleted or replaced, and `PayloadError` at
   * an entry that cannot be read.
   *
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * for await (const { index, value, reset, from } of client.readStream<string>('answer-1', 'tokens')) {
   *   if (reset) text = text.slice(0, from);
   *   else text[index] = value;
   * }
   * ```
   */
  readStream<T = unknown>(id: string, name: string, options?: ReadStreamOptions): StreamReader<T> {
    checkName(id, 'instance id');
    checkName(name, 'name of the stream');
    return new StreamReader<T>(this.#port, id, name, options);
  }

  /**
   * Returns the streams of an instance, by name.
   *
   * @returns `null` when there is no instance of that id
   *
   * @example
   * ```ts
   * for (const { name, next, isClosed } of (await client.listStreams('answer-1')) ?? []) console.log(name, next);
   * ```
   */
  async listStreams(id: string): Promise<readonly StreamInfo[] | null> {
    checkName(id, 'instance id');
    return this.#requests.query('listStreams', id, () => listStreams(this.#port, id));
  }
}

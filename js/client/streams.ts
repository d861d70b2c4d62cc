// Streams as clients read them: from any index on, page by page, and then live.

import type { StoreRequest } from '../binding/store.ts';
import type { StorePort } from '../store/providers.ts';
import { abortSignal } from '../util/abort.ts';
import { bool, checkOptions, type OptionTable, whole } from '../util/options.ts';
import { Place, streamPath } from '../values/codec-context.ts';
import { fromPayload } from '../values/payload.ts';
import { splitEntries } from '../values/stream-entries.ts';
import { hasEnded, type InstanceState } from './instance-status.ts';
import { type Ask, Changes } from './watching.ts';

/** An entry of a stream. */
export interface StreamEntry<T = unknown> {
  /** Its number in the stream, from 0. Numbers have gaps only where entries were deleted. */
  readonly index: number;
  readonly value: T;
  /** Time at which it was stored, by the clock of the worker. */
  readonly time: Date;
  /** The activity that wrote it, by a name that is unique in the instance. Absent: the orchestration did. */
  readonly activity?: string;
  /** The attempt of the activity that wrote it, from 1. */
  readonly attempt?: number;
  /** Absent: see {@link StreamReset}. */
  readonly reset?: undefined;
  readonly from?: undefined;
}

/**
 * A marker in a stream: an activity begins to write anew, because an earlier attempt or worker did not finish. Readers
 * are to drop the entries from index `from` on that the same `activity` wrote.
 */
export interface StreamReset {
  /** Index of the entry that comes next, the first one of the new attempt that is left. */
  readonly index: number;
  readonly value: undefined;
  readonly time: Date;
  /** The activity, as in {@link StreamEntry}. */
  readonly activity: string;
  /** The new attempt, from 1. */
  readonly attempt: number;
  readonly reset: true;
  /** Index of the first entry that the activity wrote, also if it has been deleted. */
  readonly from: number;
}

/** Options of {@link Client.readStream}. */
export interface ReadStreamOptions {
  /** Index of the first entry. If it was deleted, the first one that is left comes first. Default 0. */
  from?: number;
  /** `false`: ends after the entries that are there. Default `true`: waits for later ones. */
  live?: boolean;
  /** When aborted, ends the reading at once: the iteration throws the signal's reason. Default: none. */
  signal?: AbortSignal;
}

export const READ_STREAM_OPTIONS: OptionTable = { from: whole(0), live: bool, signal: abortSignal };

/** A stream of an instance, as {@link Client.listStreams} returns it. */
export interface StreamInfo {
  readonly name: string;
  /** Index of the first entry that is left, or of the next one if there is none. */
  readonly first: number;
  /** Index that the next entry will have. */
  readonly next: number;
  /** True if the stream takes no more entries. */
  readonly isClosed: boolean;
}

/** Most chunks of a page. The store also limits the bytes of a page. */
const PAGE_CHUNKS = 100;

/** An entry whose value was not decoded yet, or a marker. */
type StoredItem = (Omit<StreamEntry, 'value'> & { readonly text: string | null }) | StreamReset;

interface Writer {
  readonly executionId: number;
  readonly operation: number;
  readonly attempt: number;
}

interface Chunk {
  readonly first: number;
  readonly count: number;
  readonly writer: Writer | null;
  /** The entries of former runs of the activity, and the first entry of the run that replaces them. */
  readonly reset: { readonly from: number; readonly at: number } | null;
  readonly timeMs: number;
  readonly entries: string;
}

interface Page {
  readonly key: number;
  readonly status: InstanceState;
  readonly next: number;
  readonly isClosed: boolean;
  readonly chunks: readonly Chunk[];
}

/** Returns the streams of an instance; `null`: there is no instance of that id. */
export async function listStreams(port: StorePort, id: string): Promise<StreamInfo[] | null> {
  const streams = JSON.parse((await port.request({ kind: 'streams', id })) ?? 'null') as StreamInfo[] | null;
  return streams?.map(({ name, first, next, isClosed }) => ({ name, first, next, isClosed })) ?? null;
}

/**
 * The entries of a stream, one after the other: see {@link Client.readStream}. It holds one page in memory, and makes
 * no request before the first call of `next`.
 */
export class StreamReader<T = unknown>
  implements AsyncIterableIterator<StreamEntry<T> | StreamReset, void>, AsyncDisposable
{
  readonly #port: StorePort;
  readonly #id: string;
  readonly #name: string;
  readonly #isLive: boolean;
  readonly #changes: Changes<StreamEntry<T> | StreamReset>;
  /** Index of the first entry that was wanted. */
  #beganAt: number;
  /** Index of the next entry to return. */
  #from: number;
  /** The execution of the last marker. */
  #execution = 0;
  /** The activities of that execution with a marker, and where the run began whose marker was the last one. */
  readonly #marked = new Map<number, number>();
  #key: number | null = null;
  /** Entries of the last page that were not returned yet, the last one first. */
  #page: StoredItem[] = [];

  /** @internal */
  constructor(port: StorePort, id: string, name: string, options: ReadStreamOptions | undefined) {
    const { from = 0, live = true, signal } = checkOptions(options, READ_STREAM_OPTIONS, 'client.readStream') ?? {};
    this.#port = port;
    this.#id = id;
    this.#name = name;
    this.#isLive = live;
    this.#beganAt = from;
    this.#from = from;
    this.#changes = new Changes(port, signal, (ask) => this.#read(ask));
  }

  /**
   * Has the reader begin at another index. Works only before the first call of `next`.
   *
   * @internal
   */
  startAt(index: number): this {
    this.#beganAt = index;
    this.#from = index;
    return this;
  }

  next(): Promise<IteratorResult<StreamEntry<T> | StreamReset, void>> {
    return this.#changes.next();
  }

  return(): Promise<IteratorResult<StreamEntry<T> | StreamReset, void>> {
    this.#page = [];
    return this.#changes.return();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #read(ask: Ask): Promise<StreamEntry<T> | StreamReset | null> {
    while (this.#page.length === 0) {
      const reply = await ask(this.#request('readStream'));
      if (reply === null) return null;
      const page = JSON.parse(reply) as Page;
      this.#key = page.key;
      this.#page = page.chunks.flatMap((chunk) => this.#items(chunk)).reverse();
      if (this.#page.length > 0) break;
      if (page.isClosed || hasEnded(page.status) || !this.#isLive) return null;
      // All entries before the next one may have been deleted.
      this.#from = Math.max(this.#from, page.next);
      await ask(this.#request('waitForEntry'));
    }
    const item = this.#page.pop() as StoredItem;
    if (!('text' in item)) return item;
    const { text, ...facts } = item;
    // An entry that cannot be read is not passed over: the iteration ends with the error.
    const value = this.#value(text);
    this.#from = item.index + 1;
    return { ...facts, value };
  }

  #value(text: string | null): T {
    const { texts } = this.#port;
    const path = streamPath(this.#name);
    return fromPayload(texts.read(text, path, Place.ofStream(this.#id, this.#name)), path, texts.types) as T;
  }

  #request(kind: 'readStream' | 'waitForEntry'): StoreRequest {
    return { kind, id: this.#id, stream: this.#name, key: this.#key, from: this.#from, limit: PAGE_CHUNKS };
  }

  /** Returns the entries of a chunk from the wanted index on, after the marker that stands before them. */
  #items({ first, writer, reset, timeMs, entries }: Chunk): StoredItem[] {
    const time = new Date(timeMs);
    const by =
      writer === null ? undefined : { activity: `${writer.executionId}/${writer.operation}`, attempt: writer.attempt };
    const items: StoredItem[] = splitEntries(entries)
      .map((text, n) => ({ index: first + n, text, time, ...by }))
      .filter(({ index }) => index >= this.#from);
    if (writer !== null && by !== undefined && reset !== null && this.#isUnmarked(writer, reset.at))
      items.unshift({ index: first, value: undefined, time, ...by, reset: true, from: reset.from });
    return items;
  }

  /** True once for each run of an activity that has begun where this reader did, or after. */
  #isUnmarked({ executionId, operation }: Writer, beganAt: number): boolean {
    // No activity of a former execution writes any more.
    if (executionId !== this.#execution) this.#marked.clear();
    this.#execution = executionId;
    if (beganAt < this.#beganAt || this.#marked.get(operation) === beganAt) return false;
    this.#marked.set(operation, beganAt);
    return true;
  }
}

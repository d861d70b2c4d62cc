// The streams that an attempt of an activity writes. Entries are gathered for a moment, and go to the store batch after
// batch, so that writing never waits.

import { LimitError, RuntimeStateError, StreamClosedError } from '../errors/errors.ts';
import { checkName } from '../util/options.ts';
import { streamPath } from '../values/codec-context.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import { toPayload } from '../values/payload.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { checkStreamBytes, entryBytes, joinEntries, storedEntry } from '../values/stream-entries.ts';
import { keepOf, type StreamKeep, type StreamOptions } from '../values/stream-options.ts';

/** Time from one append to the next, ms. Entries are gathered meanwhile. */
const GATHER_MS = 20;
/** Bytes and number of gathered entries that go to the store at once. */
const GATHER_BYTES = 64 * 1024;
const GATHER_ENTRIES = 1_000;
/** Most bytes and most entries of one batch. The first entry always passes. */
const BATCH_BYTES = 1024 * 1024;
const BATCH_ENTRIES = 10_000;
/** Most streams that an attempt writes. */
const STREAMS_MAX = 1_000;

/** A stream of the instance, as an activity writes it: {@link ActivityContext.stream}. */
export interface ActivityStream {
  /** Name of the stream. */
  readonly name: string;

  /**
   * Adds an entry. Synchronous: entries are gathered for at most 20 ms, and stored in order. They are stored before the
   * end of the attempt is. After the attempt was aborted, nothing is written.
   *
   * @throws PayloadError when the value cannot be stored
   * @throws StreamClosedError when the stream was found closed. An attempt that does not learn of that fails with this
   *   error, and is not retried
   * @throws LimitError (`streamBytes`) when the entries that are not stored yet take more than 16 MiB: await
   *   {@link flush} from time to time
   */
  write(value: unknown): void;

  /**
   * Resolves when all entries so far are durable.
   *
   * @throws StreamClosedError when the stream is closed
   * @throws RuntimeStateError when the attempt is over, or another worker has taken it over
   * @throws ProviderError when the store refused the entries
   */
  flush(): Promise<void>;
}

/** Entries to append. */
export interface StreamAppend {
  readonly stream: string;
  /** Texts of the entries, as `joinEntries` makes them. */
  readonly entries: string;
  readonly count: number;
  /** True for the first append of the attempt to the stream. */
  readonly begins: boolean;
  readonly keep: StreamKeep;
}

/** The end of an append: `refused` if the attempt is over or belongs to another worker. */
export type Appended = 'written' | 'closed' | 'refused';

/** The services that the streams of an attempt need. */
export interface StreamHost {
  readonly instanceId: string;
  readonly texts: StoredTexts;
  readonly limits: Required<RuntimeLimits>;
  append(append: StreamAppend): Promise<Appended>;
  /** Called when the attempt turns out to be another worker's. */
  lost(): void;
}

// Captured at import: a test's fake timers must not reach them.
const { setTimeout, clearTimeout } = globalThis;
const now = performance.now.bind(performance);

/** All streams of one attempt. */
export class AttemptStreams {
  readonly #host: StreamHost;
  readonly #streams = new Map<string, BufferedStream>();

  constructor(host: StreamHost) {
    this.#host = host;
  }

  /** Returns the stream of a name. */
  get(name: string, options: StreamOptions | undefined): ActivityStream {
    checkName(name, 'name of the stream');
    const keep = keepOf(options, 'stream');
    const known = this.#streams.get(name);
    if (known === undefined && this.#streams.size >= STREAMS_MAX) {
      throw new LimitError(`an attempt writes at most ${STREAMS_MAX} streams: '${name}' would be one more`, {
        limit: 'streamNames',
        max: STREAMS_MAX,
      });
    }
    const stream = known ?? new BufferedStream(this.#host, name);
    this.#streams.set(name, stream);
    return {
      name,
      write: (value) => stream.write(value, keep),
      flush: () => stream.flush(),
    };
  }

  /** Stores all entries. Resolves with the first error that the code of the activity was not told. */
  async finish(): Promise<Error | undefined> {
    const errors = await Promise.all(Array.from(this.#streams.values(), (stream) => stream.finish()));
    return errors.find((error) => error !== undefined);
  }

  /** Drops what is not on its way to the store. Resolves when nothing is. */
  async stop(): Promise<void> {
    await Promise.all(Array.from(this.#streams.values(), (stream) => stream.stop()));
  }
}

class BufferedStream {
  readonly #host: StreamHost;
  readonly #name: string;
  #texts: (string | null)[] = [];
  #bytes = 0;
  #keep: StreamKeep = { entriesMax: null, retainMs: null };
  #timer: NodeJS.Timeout | undefined;
  /** The append that is under way. */
  #sending: Promise<void> | undefined;
  /** Number of the entries that were written, and of those that went to the store. */
  #written = 0;
  #sent = 0;
  #pauseUntil = 0;
  #isStopped = false;
  #error: Error | undefined;
  /** True once the code of the activity has met the error. */
  #isTold = false;

  constructor(host: StreamHost, name: string) {
    this.#host = host;
    this.#name = name;
  }

  write(value: unknown, keep: StreamKeep): void {
    const { texts, limits, instanceId } = this.#host;
    const payload = toPayload(value, streamPath(this.#name), limits, texts.types);
    this.#throwError();
    if (this.#isStopped) return;
    const text = texts.hasCodec ? storedEntry(texts, instanceId, this.#name, payload) : payload;
    const bytes = this.#bytes + entryBytes(text);
    checkStreamBytes(bytes, `the entries of stream '${this.#name}'`);
    this.#texts.push(text);
    this.#bytes = bytes;
    this.#written += 1;
    this.#keep = keep;
    this.#schedule();
  }

  async flush(): Promise<void> {
    await this.#sendAll();
    this.#throwError();
    if (this.#isStopped) throw endedAttempt(this.#name);
  }

  async finish(): Promise<Error | undefined> {
    await this.#sendAll();
    await this.stop();
    return this.#isTold ? undefined : this.#error;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#texts = [];
    this.#bytes = 0;
    await this.#sending;
  }

  #throwError(): void {
    if (this.#error === undefined) return;
    this.#isTold = true;
    throw this.#error;
  }

  /** Has the next append begin: at once if much is gathered, or else when the pause after the last one is over. */
  #schedule(): void {
    if (this.#sending !== undefined || this.#texts.length === 0) return;
    if (this.#bytes >= GATHER_BYTES || this.#texts.length >= GATHER_ENTRIES) void this.#send();
    else this.#timer ??= setTimeout(() => void this.#send(), Math.max(0, this.#pauseUntil - now()));
  }

  /** Appends all that was written before the call. */
  async #sendAll(): Promise<void> {
    const last = this.#written;
    while (this.#sent < last && this.#error === undefined && !this.#isStopped) await this.#send();
    await this.#sending;
  }

  /** Appends what is gathered, or waits for the append that is under way. */
  #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending ??= this.#append().finally(() => {
      this.#sending = undefined;
      this.#schedule();
    });
    return this.#sending;
  }

  async #append(): Promise<void> {
    this.#pauseUntil = now() + GATHER_MS;
    const batch = this.#takeBatch();
    const begins = this.#sent === 0;
    this.#sent += batch.count;
    try {
      const end = await this.#host.append({ stream: this.#name, ...batch, begins, keep: this.#keep });
      if (end === 'closed') this.#fail(closedStream(this.#name));
      if (end === 'refused') {
        this.#fail(endedAttempt(this.#name));
        this.#host.lost();
      }
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #takeBatch(): { readonly entries: string; readonly count: number } {
    let count = 0;
    let bytes = 0;
    while (count < this.#texts.length && count < BATCH_ENTRIES) {
      const next = bytes + entryBytes(this.#texts[count] ?? null);
      if (count > 0 && next > BATCH_BYTES) break;
      bytes = next;
      count += 1;
    }
    const taken = this.#texts.splice(0, count);
    this.#bytes -= bytes;
    return { entries: joinEntries(taken), count };
  }

  #fail(error: Error): void {
    this.#error = error;
    this.#texts = [];
    this.#bytes = 0;
  }
}

function closedStream(stream: string): StreamClosedError {
  return new StreamClosedError(`stream '${stream}' is closed`, { stream });
}

function endedAttempt(stream: string): RuntimeStateError {
  return new RuntimeStateError(`stream '${stream}' takes no entries from this attempt, which is over`);
}

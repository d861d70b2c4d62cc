// Providers: opened stores, and the one reply port of each.

import {
  attachReplies,
  laneOf,
  type NativeLane,
  type NativeReply,
  type NativeStore,
  nativeError,
  openSqlite,
  openSqliteInMemory,
  replyError,
} from '../binding/binding.ts';
import { RuntimeStateError } from '../errors/errors.ts';
import { TIMER_MAX_MS } from '../util/duration.ts';
import { bool, checkOptions, type OptionTable, oneOf } from '../util/options.ts';
import { isInstance } from '../util/show.ts';
import { NODE_TIMERS, type Timers } from '../util/timers.ts';
import { type AsyncCodec, LaterTexts } from '../values/async-codec.ts';
import { type ClientLimits, DEFAULT_LIMITS } from '../values/limits.ts';
import { type Codec, checkCodec, StoredTexts } from '../values/stored-text.ts';
import type { Stage } from './stage.ts';

/** Who waits for a reply. */
interface Waiting {
  resolve(text: string | null): void;
  reject(error: unknown): void;
}

/** A request that can be given up. */
export interface PendingReply {
  readonly reply: Promise<string | null>;
  /** Forget it: the promise stays pending for ever. */
  abandon(): void;
}

/**
 * Requests to a store and their replies. All replies of a store come through here, in batches, so that a thousand
 * waiting clients cost one wakeup.
 */
export class StorePort {
  readonly store: NativeStore;
  readonly texts: StoredTexts;
  /** Of clients that were given none. */
  limits: Required<ClientLimits> = DEFAULT_LIMITS;
  /** What a test has in place of what this process has. */
  readonly stage: Stage | null;
  private readonly nextReply: () => NativeReply | null;
  private readonly waiting = new Map<number, Waiting>();
  private lastRequest = 0;
  private holds = 0;
  /** A timer that does nothing but keep the process alive while it is ref'd: the addon's callbacks do not. */
  private readonly keepAlive = setInterval(() => {}, TIMER_MAX_MS).unref();
  private runtimes = 0;
  private state: 'open' | 'closing' | 'closed' = 'open';
  private closing: Promise<void> | undefined;

  constructor(store: NativeStore, texts: StoredTexts, stage: Stage | null = null) {
    this.store = stage === null ? store : stage.store(store);
    this.stage = stage;
    this.texts = texts;
    this.nextReply = attachReplies(store, this.takeReplies);
  }

  /** Make a request and wait for its reply. */
  request(issue: (store: NativeStore, request: number) => void): Promise<string | null> {
    return shownToCaller(this.open(issue).reply);
  }

  /** Make a request that may be given up. */
  open(issue: (store: NativeStore, request: number) => void): PendingReply {
    this.assertOpen();
    this.lastRequest += 1;
    const request = this.lastRequest;
    const { promise: reply, resolve, reject } = newDeferred<string | null>();
    this.waiting.set(request, { resolve, reject });
    this.hold();
    try {
      issue(this.store, request);
    } catch (error) {
      this.forget(request);
      reject(nativeError(error));
    }
    this.stage?.requested();
    return { reply, abandon: () => this.abandon(request) };
  }

  get timers(): Timers {
    return this.stage?.timers ?? NODE_TIMERS;
  }

  /** The lane of this thread, of a runtime on the store. */
  laneOf(runtime: number): NativeLane {
    const lane = laneOf(runtime, 0);
    return this.stage?.lane(lane) ?? lane;
  }

  /** Whether a request is still to be answered. */
  isOpen(request: number): boolean {
    return this.waiting.has(request);
  }

  /** Answer a request in the store's stead. */
  refuse(request: number, error: Error): void {
    const waiting = this.waiting.get(request);
    this.abandon(request);
    waiting?.reject(error);
  }

  /** Keep the process alive until `letGo` was called as often. */
  hold(): void {
    this.holds += 1;
    if (this.holds === 1) this.keepAlive.ref();
  }

  letGo(): void {
    this.holds -= 1;
    if (this.holds === 0) this.keepAlive.unref();
  }

  runtimeStarted(): void {
    this.assertOpen();
    this.runtimes += 1;
    this.hold();
  }

  runtimeStopped(): void {
    this.runtimes -= 1;
    this.letGo();
  }

  assertOpen(): void {
    if (this.state !== 'open')
      throw new RuntimeStateError(`the provider is ${this.state === 'closed' ? 'closed' : 'being closed'}`);
  }

  async close(): Promise<void> {
    if (this.runtimes > 0) {
      const runtimes = this.runtimes === 1 ? 'a runtime is' : `${this.runtimes} runtimes are`;
      throw new RuntimeStateError(`the provider cannot be closed while ${runtimes} started: shut down first`);
    }
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  private async closeOnce(): Promise<void> {
    const { reply } = this.open((store, request) => store.close(request));
    this.state = 'closing';
    try {
      await reply;
    } finally {
      this.state = 'closed';
      for (const [request, { reject }] of this.waiting) {
        this.forget(request);
        reject(new RuntimeStateError('the provider was closed'));
      }
      clearInterval(this.keepAlive);
      this.store.detach();
    }
  }

  private readonly takeReplies = (): void => {
    for (let reply = this.nextReply(); reply !== null; reply = this.nextReply()) {
      const waiting = this.forget(reply.request);
      if (waiting === undefined) continue;
      if (reply.ok) waiting.resolve(reply.text);
      else waiting.reject(replyError(reply.text));
    }
  };

  private abandon(request: number): void {
    if (this.forget(request) !== undefined && this.state === 'open') this.store.abandon(request);
  }

  private forget(request: number): Waiting | undefined {
    const waiting = this.waiting.get(request);
    if (waiting !== undefined) {
      this.waiting.delete(request);
      this.letGo();
    }
    return waiting;
  }
}

/**
 * The same promise, whose error has the stack of whoever waits for it: the addon's replies arrive on a stack of their own,
 * which tells a reader nothing.
 */
export async function shownToCaller<T>(reply: Promise<T>): Promise<T> {
  try {
    return await reply;
  } catch (error) {
    if (error instanceof Error) Error.captureStackTrace(error, shownToCaller);
    throw error;
  }
}

function newDeferred<T>(): { promise: Promise<T>; resolve(value: T): void; reject(error: unknown): void } {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
}

/** An opened store: what runtimes and clients are made with. */
export abstract class Provider {
  readonly #port: StorePort;

  /** @internal */
  protected constructor(port: StorePort) {
    if (!isInstance(port, StorePort))
      throw new TypeError(
        'a provider is made with SqliteProvider.open, SqliteProvider.inMemory or PostgresProvider.connect',
      );
    this.#port = port;
  }

  /**
   * Close the store. What clients still wait for is rejected. Closing it again does nothing.
   *
   * @throws RuntimeStateError while a runtime is started on it
   */
  close(): Promise<void> {
    return this.#port.close();
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  static portOf(provider: unknown, where: string): StorePort {
    if (typeof provider === 'object' && provider !== null && #port in provider) return provider.#port;
    throw new TypeError(`${where} takes a provider, such as what SqliteProvider.open returned`);
  }
}

/** Options that all providers have. */
export interface ProviderOptions {
  /**
   * What values and errors go through on their way to the store and back, in all runtimes and clients of this provider: inputs,
   * outputs, events, custom statuses, reasons and errors with their stacks. Ids, names and tags do not. A store that had no codec
   * may get one: what it holds stays readable. An instance whose values cannot be decoded is suspended with a
   * `PayloadError`, and goes on with `client.resume(id)` where they can be. Default: none.
   *
   * @example
   * ```ts
   * const provider = await SqliteProvider.open('orders.db', { codec: { encode: encrypt, decode: decrypt } });
   * ```
   */
  codec?: Codec | AsyncCodec;
}

/** The texts of a store with a codec. */
export function textsOf(codec: Codec | AsyncCodec | undefined): StoredTexts {
  return isAsync(codec) ? new LaterTexts(codec) : new StoredTexts(codec);
}

function isAsync(codec: Codec | AsyncCodec | undefined): codec is AsyncCodec {
  return codec !== undefined && 'async' in codec && codec.async;
}

/** @internal */
export const PROVIDER_OPTIONS = { codec: checkCodec } satisfies OptionTable;

/** Longest path of a file that any system has, in characters. */
const PATH_MAX = 32_767;

/** Options of {@link SqliteProvider.open}. */
export interface SqliteOptions extends ProviderOptions {
  /**
   * `'full'` (default): a commit survives power loss. `'normal'`: it survives the end of the process, but the last
   * commits before a power loss may be lost.
   */
  durability?: 'full' | 'normal';
  /**
   * `false`: a file that is not there is not made, and a schema of an older Perdure is refused with a `SchemaVersionError` rather than
   * brought to this version: for tools that look at a store which others run. Default: `true`.
   */
  migrate?: boolean;
}

/** Options of {@link SqliteProvider.backup}. */
export interface SqliteBackupOptions {
  /** `true`: the copy takes the place of a file that is there. Default: `false`. */
  replace?: boolean;
}

function checkPath(path: unknown, where: string): asserts path is string {
  if (typeof path !== 'string' || path.length === 0 || path.includes('\0') || !path.isWellFormed()) {
    throw new TypeError(`${where}: the path must be a string that is not empty, without NUL and lone surrogates`);
  }
  if (path.length > PATH_MAX)
    throw new TypeError(`${where}: the path must have at most ${PATH_MAX} characters, got ${path.length}`);
}

/**
 * A store in an SQLite file. Several processes of one machine may open the same file.
 *
 * @example
 * ```ts
 * await using provider = await SqliteProvider.open('orders.db');
 * ```
 */
export class SqliteProvider extends Provider {
  private constructor(port: StorePort) {
    super(port);
  }

  /**
   * Open a file, which is made when it does not exist yet; its directory must exist. Migrations are applied. A file that is made is its owner's alone (mode
   * 0600, as are its write-ahead log and index); one that is there keeps its mode.
   *
   * @throws ProviderError when the file cannot be opened, is corrupt or is no database, or is not there and not to be made
   * @throws SchemaVersionError when a newer Perdure wrote it, or an older one and `migrate` is `false`; nothing is touched then
   * @throws TypeError when an argument is wrong
   */
  static async open(path: string, options?: SqliteOptions): Promise<SqliteProvider> {
    checkPath(path, 'SqliteProvider.open');
    if (path === ':memory:')
      throw new TypeError("SqliteProvider.open: use SqliteProvider.inMemory() instead of ':memory:'");
    const table = { ...PROVIDER_OPTIONS, durability: oneOf('full', 'normal'), migrate: bool };
    const { durability = 'full', migrate = true, codec } = checkOptions(options, table, 'SqliteProvider.open') ?? {};
    const texts = textsOf(codec);
    return new SqliteProvider(new StorePort(await openSqlite(path, durability, migrate, texts.bridge), texts));
  }

  /**
   * Copy the store into another file while runtimes work on it. The copy is of one moment: it holds all that was acknowledged before this was called. It is
   * durable, and under its name, when the promise resolves; until then there is nothing under that name. Its mode is 0600. To restore it, put it in the place of the store while
   * nothing has that open, without the files `-wal` and `-shm` of the former one.
   *
   * @param path - of the copy; its directory must exist
   * @returns the size of the copy
   * @throws ProviderError when there is a file already, unless `replace` is `true`; when the path cannot be written, or this store is in memory
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * await provider.backup(`backups/orders-${Date.now()}.db`);
   * ```
   */
  async backup(path: string, options?: SqliteBackupOptions): Promise<{ bytes: number }> {
    checkPath(path, 'provider.backup');
    const { replace = false } = checkOptions(options, { replace: bool }, 'provider.backup') ?? {};
    const port = Provider.portOf(this, 'provider.backup');
    return { bytes: Number(await port.request((store, request) => store.backUp(request, path, replace))) };
  }

  /**
   * A store in memory, for tests: it is gone when it is closed.
   *
   * @throws TypeError when an option is wrong
   */
  static async inMemory(options?: ProviderOptions): Promise<SqliteProvider> {
    const { codec } = checkOptions(options, PROVIDER_OPTIONS, 'SqliteProvider.inMemory') ?? {};
    const texts = textsOf(codec);
    return new SqliteProvider(new StorePort(await openSqliteInMemory(texts.bridge), texts));
  }
}

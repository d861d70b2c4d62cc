// Providers: opened stores, and the one reply port of each.

import { laneOf, type NativeLane } from '../binding/lane.ts';
import type { NativeStore } from '../binding/native-classes.ts';
import { nativeError, replyError } from '../binding/native-error.ts';
import {
  attachReplies,
  type NativeReply,
  openSqlite,
  openSqliteInMemory,
  type StoreRequest,
} from '../binding/store.ts';
import { RuntimeStateError } from '../errors/errors.ts';
import { type Abandonable, untilAborted } from '../util/abort.ts';
import { markCopy, otherCopyNote } from '../util/copy.ts';
import { TIMER_MAX_MS } from '../util/duration.ts';
import { bool, checkOptions, type OptionTable, oneOf } from '../util/options.ts';
import { isInstance } from '../util/show.ts';
import { NODE_TIMERS, type Timers } from '../util/timers.ts';
import { type AsyncCodec, AsyncCodecTexts } from '../values/async-codec.ts';
import { type ClientLimits, DEFAULT_LIMITS } from '../values/limits.ts';
import { type Codec, checkCodec, StoredTexts } from '../values/stored-text.ts';
import { checkTypes, TypeRegistry, type ValueTypes } from '../values/value-types.ts';
import type { QueryHost } from './query-host.ts';
import type { TestDoubles } from './test-doubles.ts';

/** The waiting caller of a request. */
interface PendingRequest {
  resolve(text: string | null): void;
  reject(error: unknown): void;
}

/** The database that holds a store, for requests in a transaction of that database. */
export type StoreDatabase = { readonly kind: 'postgres'; readonly schema: string } | { readonly kind: 'sqlite' };

/** A request that the caller can abandon. Its promise then stays pending for ever. */
export type PendingReply = Abandonable<string | null>;

/**
 * Requests to a store and their replies. All replies of a store arrive here, in batches, so that a thousand waiting
 * clients cost one wakeup.
 */
export class StorePort {
  readonly store: NativeStore;
  readonly texts: StoredTexts;
  /** `null` if no program but this one can use the database. */
  readonly database: StoreDatabase | null;
  /** Limits of clients that were given none. */
  limits: Required<ClientLimits> = DEFAULT_LIMITS;
  /** Replaces parts of this process in a test; `null` outside of tests. */
  readonly testDoubles: TestDoubles | null;
  private readonly nextReply: () => NativeReply | null;
  private readonly waiting = new Map<number, PendingRequest>();
  private lastRequest = 0;
  private holds = 0;
  /** A timer that does nothing but keep the process alive while it is ref'd: the addon's callbacks do not. */
  private readonly keepAlive = setInterval(() => {}, TIMER_MAX_MS).unref();
  private runtimes = 0;
  /** Called with the name and version (`null`: the newest) of each orchestration that a client has started. */
  readonly startListeners = new Set<(name: string, version: string | null) => void>();
  /** The runtimes of this process, the newest first. */
  readonly queryHosts: QueryHost[] = [];
  private state: 'open' | 'closing' | 'closed' = 'open';
  private closing: Promise<void> | undefined;

  constructor(
    store: NativeStore,
    texts: StoredTexts,
    database: StoreDatabase | null,
    testDoubles: TestDoubles | null = null,
  ) {
    this.database = database;
    this.store = testDoubles === null ? store : testDoubles.store(store);
    this.testDoubles = testDoubles;
    this.texts = texts;
    this.nextReply = attachReplies(store, this.takeReplies);
  }

  /**
   * Makes a request and waits for its reply. `value` is the text of the value that goes with it. When `signal` is
   * aborted, rejects at once with its reason.
   */
  request(question: StoreRequest, value: string | null = null, signal?: AbortSignal): Promise<string | null> {
    return shownToCaller(
      untilAborted(signal, () => this.open(question, value)),
      signal,
    );
  }

  /** Tells the listeners that a client has started an orchestration; `version: null`: the newest. */
  tellStart(name: string, version: string | null): void {
    for (const listener of this.startListeners) listener(name, version);
  }

  /** Makes a request that the caller can abandon. */
  open(question: StoreRequest, value: string | null = null): PendingReply {
    return this.call((request) => this.store.ask(request, JSON.stringify(question), value));
  }

  /** Makes a call whose reply comes as those to requests do. `issue` is given the number of the reply. */
  call(issue: (request: number) => void): PendingReply {
    this.assertOpen();
    this.lastRequest += 1;
    const request = this.lastRequest;
    const { promise: reply, resolve, reject } = newDeferred<string | null>();
    this.waiting.set(request, { resolve, reject });
    this.hold();
    try {
      issue(request);
    } catch (error) {
      this.forget(request);
      reject(nativeError(error));
    }
    this.testDoubles?.requested();
    return { reply, abandon: () => this.abandon(request) };
  }

  get timers(): Timers {
    return this.testDoubles?.timers ?? NODE_TIMERS;
  }

  /** Returns the lane of this thread, of a runtime on the store. */
  laneOf(runtime: number): NativeLane {
    const lane = laneOf(runtime, 0);
    return this.testDoubles?.lane(lane) ?? lane;
  }

  /** True while a request is not answered. */
  isOpen(request: number): boolean {
    return this.waiting.has(request);
  }

  /** Rejects a request in place of the store. */
  refuse(request: number, error: Error): void {
    const waiting = this.waiting.get(request);
    this.abandon(request);
    waiting?.reject(error);
  }

  /** Keeps the process alive until `letGo` was called as often. */
  hold(): void {
    this.holds += 1;
    if (this.holds === 1) this.keepAlive.ref();
  }

  letGo(): void {
    this.holds -= 1;
    if (this.holds === 0) this.keepAlive.unref();
  }

  /** True while a runtime of this process is started on the store. */
  get hasRuntime(): boolean {
    return this.runtimes > 0;
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
      throw new RuntimeStateError(
        `the provider cannot be closed while ${runtimes} started: call runtime.shutdown() first`,
      );
    }
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  private async closeOnce(): Promise<void> {
    for (const host of this.queryHosts) host.forgetReplays();
    const { reply } = this.open({ kind: 'close' });
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

  private forget(request: number): PendingRequest | undefined {
    const waiting = this.waiting.get(request);
    if (waiting !== undefined) {
      this.waiting.delete(request);
      this.letGo();
    }
    return waiting;
  }
}

/**
 * Returns the same promise, but its error has the stack of the waiting caller: the addon's replies arrive on a stack of
 * their own, which tells a reader nothing. The reason of an aborted signal is the caller's, and stays as it is.
 */
export async function shownToCaller<T>(reply: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await reply;
  } catch (error) {
    const isReason = signal?.aborted === true && error === signal.reason;
    if (error instanceof Error && !isReason) Error.captureStackTrace(error, shownToCaller);
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

/** An opened store, from which runtimes and clients are made. */
export abstract class Provider {
  readonly #port: StorePort;

  /** @internal */
  protected constructor(port: StorePort) {
    if (!isInstance(port, StorePort))
      throw new TypeError(
        'create a provider with SqliteProvider.open, SqliteProvider.inMemory or PostgresProvider.connect',
      );
    this.#port = port;
  }

  /**
   * Closes the store. Requests that clients still wait for are rejected. Closing it again does nothing.
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
    const note = otherCopyNote(provider);
    if (note !== undefined) throw new TypeError(`${where}: the provider cannot be used: ${note}`);
    throw new TypeError(`${where} takes a provider, such as the result of SqliteProvider.open`);
  }
}

markCopy(Provider);

/** Options that all providers have. */
export interface ProviderOptions {
  /**
   * Codec of the values and errors on their way to the store and back, in all runtimes and clients of this provider:
   * inputs, outputs, events, custom statuses, reasons and errors with their stacks. Ids, names and tags are not
   * encoded. A store that had no codec may get one: its contents stay readable. An instance whose values cannot be
   * decoded is suspended with a `PayloadError`, and goes on with `client.resume(id)` on a runtime that can decode them.
   * Default: none.
   *
   * @example
   * ```ts
   * const provider = await SqliteProvider.open('orders.db', { codec: { encode: encrypt, decode: decrypt } });
   * ```
   */
  codec?: Codec | AsyncCodec;
  /**
   * Classes whose instances are stored, by a name that is stored with each: values of all kinds, and errors. In all
   * runtimes and clients of this provider, such an instance comes back as one: in inputs, outputs, events, custom
   * statuses and errors, and anywhere inside them. All processes of a store should register the same classes. An
   * instance of a class that is not registered cannot be stored, and one that was stored cannot be read, which is a
   * `PayloadError`; an error becomes an `Error` with its name and fields. Default: none.
   *
   * @example
   * ```ts
   * const types: ValueTypes = {
   *   Money: { class: Money, to: ({ cents }) => ({ cents }), from: ({ cents }) => new Money(cents) },
   *   CardDeclined,   // a class of errors
   * };
   * const provider = await SqliteProvider.open('orders.db', { types });
   * ```
   */
  types?: ValueTypes;
}

/** Returns the texts of a store with this codec and these classes. */
export function textsOf({ codec, types }: ProviderOptions): StoredTexts {
  return (isAsync(codec) ? new AsyncCodecTexts(codec) : new StoredTexts(codec)).withTypes(new TypeRegistry(types));
}

function isAsync(codec: Codec | AsyncCodec | undefined): codec is AsyncCodec {
  return codec !== undefined && 'async' in codec && codec.async;
}

/** @internal */
export const PROVIDER_OPTIONS = { codec: checkCodec, types: checkTypes } satisfies OptionTable;

/** Length of the longest file path on any system, in characters. */
const PATH_MAX = 32_767;

/** Options of {@link SqliteProvider.open}. */
export interface SqliteOptions extends ProviderOptions {
  /**
   * `'full'` (default): a commit survives power loss. `'normal'`: a commit survives the end of the process, but the
   * last commits before a power loss may be lost.
   */
  durability?: 'full' | 'normal';
  /**
   * `false`: a missing file is not created, and a schema of an older Perdure is refused with a `SchemaVersionError`
   * instead of being migrated. For tools that look at a store which others run. Default: `true`.
   */
  migrate?: boolean;
}

/** Options of {@link SqliteProvider.backup}. */
export interface SqliteBackupOptions {
  /** `true`: the copy replaces an existing file. Default: `false`. */
  replace?: boolean;
}

function checkPath(path: unknown, where: string): asserts path is string {
  if (typeof path !== 'string' || path.length === 0 || path.includes('\0') || !path.isWellFormed()) {
    throw new TypeError(`${where}: the path must be a string that is not empty, without NUL and lone surrogates`);
  }
  if (path.length > PATH_MAX)
    throw new TypeError(`${where}: the path must have at most ${PATH_MAX} characters, got ${path.length}`);
  // No part of a URL is shown, because it may hold a password.
  if (/^postgres(ql)?:/i.test(path))
    throw new TypeError(
      `${where} takes the path of a file, and this is the URL of a Postgres server: use PostgresProvider.connect(url)`,
    );
  const [scheme] = URL_SCHEME.exec(path) ?? [];
  if (scheme === undefined) return;
  const how = scheme.toLowerCase() === 'file:' ? ', such as fileURLToPath(url)' : ", such as 'app.db'";
  throw new TypeError(`${where} takes the path of a file and no URL: leave out '${scheme}' and pass a path${how}`);
}

/** Beginning of a text that is meant as a URL. A path that begins in this way can be written with `./` before it. */
const URL_SCHEME = /^(?:sqlite3?|file|libsql|jdbc|[a-z][a-z0-9+.-]+(?=:\/\/)):/i;

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
   * Opens a file and applies migrations. The file is created if it does not exist; its directory must exist. Only its
   * owner can access a created file (mode 0600, as are its write-ahead log and index); an existing file keeps its mode.
   *
   * @throws ProviderError when the file cannot be opened, is corrupt or is no database, or does not exist and must not
   *   be created
   * @throws SchemaVersionError when a newer Perdure wrote it, or an older one and `migrate` is `false`; nothing is
   *   touched then
   * @throws TypeError when an argument is wrong
   */
  static async open(path: string, options?: SqliteOptions): Promise<SqliteProvider> {
    checkPath(path, 'SqliteProvider.open');
    if (path === ':memory:')
      throw new TypeError("SqliteProvider.open: use SqliteProvider.inMemory() instead of ':memory:'");
    const table = { ...PROVIDER_OPTIONS, durability: oneOf('full', 'normal'), migrate: bool };
    const {
      durability = 'full',
      migrate = true,
      ...values
    } = checkOptions(options, table, 'SqliteProvider.open') ?? {};
    const texts = textsOf(values);
    return new SqliteProvider(
      new StorePort(await openSqlite(path, durability, migrate, texts.bridge), texts, { kind: 'sqlite' }),
    );
  }

  /**
   * Copies the store into another file while runtimes work on it. The copy is a snapshot of one moment: it holds all
   * that was acknowledged before this call. When the promise resolves, the copy is durable and has its name; until then
   * no part of it is under that name. Its mode is 0600. To restore the copy, put it in the place of the store while no
   * process has the store open, and remove the files `-wal` and `-shm` of the former store.
   *
   * @param path - of the copy; its directory must exist
   * @returns the size of the copy
   * @throws ProviderError when the file exists, unless `replace` is `true`; when the path cannot be written, or this
   *   store is in memory
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
    return { bytes: Number(await port.request({ kind: 'backUp', path, replace })) };
  }

  /**
   * Opens a store in memory, for tests. Its contents are gone when it is closed.
   *
   * @throws TypeError when an option is wrong
   */
  static async inMemory(options?: ProviderOptions): Promise<SqliteProvider> {
    const texts = textsOf(checkOptions(options, PROVIDER_OPTIONS, 'SqliteProvider.inMemory') ?? {});
    return new SqliteProvider(new StorePort(await openSqliteInMemory(texts.bridge), texts, null));
  }
}

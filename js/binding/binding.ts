// The native addon, as this package uses it. This is the only file that imports it.
//
// No other file knows that errors cross as JSON text and that calls name an instance by its token. A synchronous call
// that fails throws an Error whose message is JSON of `{ code, message, details? }`. A reply that fails is the same
// text.

import { createRequire } from 'node:module';

import type { AbortReason, AttemptExtras } from '../activity/activity-context.ts';
import {
  ACTIVITY_FAILED,
  CANCEL,
  CHILD_FAILED,
  CHILD_TERMINATED,
  COMPLETED,
  type Delivery,
  type EndKind,
  type EnginePort,
  MESSAGE,
  REFUSED,
  SUCCEEDED,
} from '../driver/engine.ts';
import { PerdureError, ProviderError } from '../errors/errors.ts';
import type { TraceLevel } from '../logging/fields.ts';
import type { TraceContext } from '../tracing/telemetry-hooks.ts';
import type { CodecBridge } from '../values/async-codec.ts';
import { Place } from '../values/codec-context.ts';
import { fromNative, type NativeErrorData } from '../values/error-data.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { addonError, checkVersion } from './addon-error.ts';

/** An execution as the engine describes it. */
export interface InstanceDescription {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly input: string | null;
  readonly parentId: string | null;
  /** Codec text of the custom status that it begins with. */
  readonly customStatus: string | null;
  /** The deterministic time at its start, ms since 1970. */
  readonly timeMs: number;
  /** Context in which the execution was started; `null` if it is not traced. */
  readonly trace: TraceContext | null;
}

/** A reply to a request of a {@link NativeStore}. */
export interface NativeReply {
  readonly request: number;
  readonly ok: boolean;
  /** JSON or `null`; when not ok, JSON of an error. */
  readonly text: string | null;
}

/** An opened provider. Each request is answered by one reply, unless it is abandoned. */
export interface NativeStore {
  /** Returns a warning for the user about the connection to the store, if there is one. */
  warning(): string | null;
  /** Returns the store's number, by which other threads of this process find it. */
  number(): number;
  /**
   * Attaches the replies. Called once, by {@link attachReplies}. Returns a function that gives the next reply as text,
   * or `null`.
   */
  attach(wake: () => void, numbers: Float64Array): () => string | null;
  /** Called after the last reply was taken. */
  detach(): void;
  start(
    request: number,
    id: string,
    name: string,
    version: string | null,
    input: string | null,
    tags: string | null,
    priority: number,
    onConflict: string,
    trace: TraceContext | null,
  ): void;
  /** `unreadMax`: the most messages that may wait for the instance, this one included. */
  send(request: number, id: string, kind: string, name: string, payload: string | null, unreadMax: number): void;
  cancel(request: number, id: string, reason: string | null): void;
  terminate(request: number, id: string, reason: string | null): void;
  suspend(request: number, id: string, reason: string | null): void;
  resume(request: number, id: string): void;
  status(request: number, id: string): void;
  waitForEnd(request: number, id: string): void;
  waitForStatusChange(request: number, id: string, afterVersion: number): void;
  abandon(request: number): void;
  /**
   * Requests a page of events, from event `from` on. `key` is that of the previous page, 0 for the first page.
   * `executionId` 0 stands for the current execution, `limit` 0 for as many events as a page may have.
   */
  history(request: number, id: string, key: number, executionId: number, from: number, limit: number): void;
  list(request: number, filter: string, cursor: string | null, limit: number): void;
  delete(request: number, id: string): void;
  prune(request: number, filter: string, limit: number | null): void;
  pruneExecutions(request: number, filter: string, keep: number): void;
  /**
   * Requests the texts of a table after a row, except those that begin with `except`. `head` is the most characters to
   * return of each text, `null` for all of it.
   */
  texts(request: number, table: string, after: string | null, except: string, head: number | null): void;
  /** `changes` is JSON. */
  replaceTexts(request: number, table: string, changes: string): void;
  /** Removes the remains of deleted instances. */
  sweep(request: number): void;
  stats(request: number): void;
  overdue(request: number): void;
  inspect(request: number): void;
  check(request: number, cursor: string | null, limit: number): void;
  backUp(request: number, path: string, replace: boolean): void;
  close(request: number): void;
}

/** The codec in front of a store, as arguments: `[null, false]` for none. */
type NativeCodec = [ask: ((question: string) => void) | null, required: boolean];

interface NativeStoreClass {
  openSqlite(path: string, durability: string, migrate: boolean, ...codec: NativeCodec): Promise<NativeStore>;
  sqliteInMemory(...codec: NativeCodec): Promise<NativeStore>;
  connectPostgres(
    url: string,
    options: string,
    ask: ((question: number) => void) | null,
    ...codec: NativeCodec
  ): Promise<NativeStore>;
  giveTexts(question: number, texts: string): void;
  givePassword(question: number, password: string | null, whyNot: string): void;
  join(number: number): NativeStore;
}

export function createTestStore(nowMs: number, seed: number): NativeTestStore {
  return new addon.TestStore(nowMs, seed);
}

/** Settings of a connection to a Postgres store, complete and checked. */
export interface NativePostgresOptions {
  readonly schema: string;
  readonly migrate: boolean;
  readonly poolSize: number;
  /** `null`: true, unless a pooler is in between. */
  readonly notify: boolean | null;
  /** `null`: detected. */
  readonly pooler: 'none' | 'transaction' | null;
  /** `null`: detected. */
  readonly prepare: boolean | null;
  /** `null`: as the URL says. */
  readonly tls: {
    readonly mode: 'disable' | 'require' | 'verify-full';
    readonly roots: string | null;
    readonly crls: string | null;
    readonly cert: string | null;
    readonly key: string | null;
  } | null;
  /** Certificates that are trusted if no others are given, PEM. */
  readonly defaultRoots: string | null;
}

export const TURN = 0;
export const ACTIVITY = 1;
export const ABORT = 2;
export const DROP = 3;
export const LOG = 4;
export const ENDED = 5;

/** A job for a lane. */
export type NativeJob =
  | { readonly kind: typeof TURN; readonly token: number }
  | {
      readonly kind: typeof ACTIVITY;
      readonly token: number;
      readonly name: string;
      readonly input: string | null;
      readonly attempt: number;
      readonly timeoutMs: number;
      readonly instanceId: string;
      readonly executionId: number;
      readonly orchestrationName: string;
      readonly operation: number;
      readonly incarnationHigh: number;
      readonly incarnationLow: number;
      readonly extras: AttemptExtras | null;
    }
  | { readonly kind: typeof ABORT; readonly token: number; readonly reason: AbortReason }
  | { readonly kind: typeof DROP; readonly token: number }
  | {
      readonly kind: typeof LOG;
      readonly level: TraceLevel;
      readonly message: string;
      /** JSON of an object. */
      readonly fields: string | null;
      /** True if the line comes from the runtime itself, and not from an orchestration. */
      readonly isInternal: boolean;
    }
  | {
      readonly kind: typeof ENDED;
      readonly instanceId: string;
      readonly executionId: number;
      readonly name: string;
      readonly version: string;
      readonly status: EndState;
    };

/** State of an instance after its last turn here. */
export type EndState = 'Completed' | 'Failed' | 'Cancelled' | 'Suspended';

/** Sizes of the addon's maps, for tests. */
export interface NativeMapSizes {
  readonly instances: number;
  readonly turns: number;
  readonly activities: number;
}

/** A runtime, for the thread that made it. */
export interface NativeRuntime {
  /**
   * Registers a definition. `fingerprint` is that of an orchestration's code; for an activity it is empty, and so is
   * `version`.
   */
  register(kind: string, name: string, version: string, fingerprint: string): void;
  /** Returns the runtime's number, by which other threads of this process find it. */
  number(): number;
  /** Marks a registered definition as one that every thread has. */
  share(kind: string, name: string, version: string): void;
  /** Reports that the thread of a lane has ended. */
  lose(lane: number): void;
  start(request: number, wake: () => void): void;
  shutdown(request: number, timeoutMs: number): void;
  /** Turns {@link ENDED} jobs on or off. */
  reportEnds(wanted: boolean): void;
  /**
   * Notes the share of its time that the thread of each lane has worked lately, 0 to 1. The worker sends it with the
   * next heartbeat.
   */
  noteBusy(shares: readonly number[]): void;
  metrics(): string;
  mapSizes(): NativeMapSizes;
}

/** Changes to the set of awaited mailboxes and timers: see `EnginePort.next`. */
type Waits = Parameters<EnginePort['next']>;

/** A lane of a runtime, for its thread. `instance` and `activity` are tokens of jobs. */
export interface NativeLane {
  /** Starts to take jobs, on a lane other than the first. `warns`: true if a warning may be written to stderr. */
  attach(wake: () => void, warns: boolean): void;
  /**
   * Returns the next job. `null`: there is none. The lane is then parked and `wake` will be called, unless `looksAgain`
   * says that the lane polls again soon.
   */
  nextJob(looksAgain: boolean): NativeJob | null;
  /** Reports that the event loop gets its turn before the next job is taken. */
  pause(): void;
  describe(instance: number): InstanceDescription;
  scheduleActivity(instance: number, name: string, input: string | null, options: string | null): number;
  createTimer(instance: number, delayMs: number): number;
  createTimerAt(instance: number, atMs: number): number;
  graceTimer(instance: number, delayMs: number | null): number | null;
  startInstance(
    instance: number,
    isChild: boolean,
    name: string,
    id: string,
    version: string | null,
    input: string | null,
    tags: string | null,
    priority: number,
    trace: TraceContext | null,
  ): number;
  sendMessage(instance: number, receiver: string, mailbox: string, payload: string | null): number;
  ofFiber(instance: number, fiber: number): void;
  /** See `EnginePort`. */
  succeedsNext(): boolean;
  cancelOperation(instance: number, operation: number): void;
  next(instance: number, ...waits: Waits): Delivery | null;
  /** See `EnginePort`. */
  interrupt(instance: number): Delivery | null;
  /**
   * Called right after `next` returned `null`. True if the instance is released with its turn, and sleeps in the store.
   */
  sleeps(): boolean;
  finish(instance: number, kind: number, payload: string | null): void;
  continueAsNew(instance: number, input: string | null, version: string | null): void;
  /**
   * Suspends an instance. `report` is JSON of an error. Without one, the error is the engine's own, or `source` is its
   * text.
   */
  suspend(instance: number, source: string, report: string | null): void;
  /** Returns the payload that history holds for the next command or for the end; `null` past the history. */
  recordedPayload(instance: number): string | null;
  /** Returns the id of the event that the next command has in history, or will have. */
  nextCommandId(instance: number): number;
  isReplaying(instance: number): boolean;
  historyLength(instance: number): number;
  trace(instance: number, level: string, message: string, fields: string | null): void;
  setCustomStatus(instance: number, text: string | null): void;
  random(instance: number): number;
  randomUuid(instance: number): string;
  /** Records a heartbeat. `details` is codec text. */
  heartbeat(activity: number, details: string): void;
  isCancelling(instance: number): boolean;
  patched(instance: number, patch: string): boolean;
  /** Returns true if the lane was parked and has work now: a drain must be scheduled. */
  completeActivity(activity: number, output: string | null): boolean;
  /** Returns the same as `completeActivity`. `retryAfterMs` is -1 for none. */
  failActivity(
    activity: number,
    error: string,
    errorName: string,
    nonRetryable: boolean,
    retryAfterMs: number,
  ): boolean;
}

/** The calls that the code of an instance makes in a turn. */
type NativeTurn = Omit<
  NativeLane,
  'attach' | 'nextJob' | 'pause' | 'sleeps' | 'heartbeat' | 'completeActivity' | 'failActivity'
>;

/**
 * The engine of one execution that has a history and no store. It has the calls of a lane's turn, and ignores
 * `instance`.
 */
interface NativeReplay extends Omit<NativeTurn, 'suspend'> {
  /** Returns JSON of the mismatch that was found, as the error of a suspension; `null` if there was none. */
  mismatch(source: string): string | null;
}

/**
 * The calls as the addon has them. An answer is its texts, joined in one string, and its numbers, which the addon
 * writes into the array it was given.
 */
type Raw<T> = Omit<T, 'nextJob' | 'next' | 'interrupt' | 'sleeps' | 'succeedsNext' | 'describe'> & {
  describe(instance: number): string;
  interrupt(instance: number): string | null;
  /** Without `waits`, the set of awaited mailboxes and timers has not changed. */
  next(instance: number, ...waits: Waits | []): string | null;
};

/** The calls of a lane that are made at each step. They are functions, not methods. */
type EachStep = Pick<Raw<NativeLane>, 'describe' | 'scheduleActivity' | 'next' | 'finish' | 'completeActivity'> & {
  nextJob(looksAgain: boolean): string | null;
};

type RawLane = Omit<Raw<NativeLane>, keyof EachStep> & { eachStep(): EachStep };

/** A store in memory with a clock of its own, for tests. A request is carried out within its call. */
export interface NativeTestStore {
  store(): NativeStore;
  /** Returns the time of the clock, ms since 1970. */
  nowMs(): number;
  /** Does all work that needs no JavaScript. Returns true if no work waits for JavaScript either. */
  settle(store: NativeStore, runtime: NativeRuntime): boolean;
  /** Sets the clock forward. */
  set(toMs: number): void;
  /** Returns the time of a runtime's next timer, ms since 1970. */
  nextDueMs(runtime: NativeRuntime): number | null;
  crash(runtime: NativeRuntime): void;
  /** Crashes the runtime when an event of an instance is stored, before the event has any effect. */
  crashAfter(runtime: NativeRuntime, instance: string, executionId: number, eventId: number): void;
  isCrashPlanned(): boolean;
  /** Drops all pending work. Time does not go on after that. */
  close(): void;
}

interface NativeModule {
  readonly ADDON_VERSION?: string;
  readonly Store: NativeStoreClass;
  readonly TestStore: new (nowMs: number, seed: number) => NativeTestStore;
  readonly NativeRuntime: new (store: NativeStore, options: string) => NativeRuntime;
  readonly NativeLane: new (runtime: number, lane: number, numbers: Float64Array) => RawLane;
  readonly NativeReplay: new (
    instanceId: string,
    executionId: number,
    events: string,
    numbers: Float64Array,
  ) => Raw<NativeReplay>;
}

const addon = load();

/** Uses `require`: a failed static import would leave no place to explain the failure. */
function load(): NativeModule {
  const require = createRequire(import.meta.url);
  try {
    const native = require('../native/index.cjs') as NativeModule;
    checkVersion(native.ADDON_VERSION, (require('../../package.json') as { version: string }).version);
    return native;
  } catch (error) {
    if (error instanceof PerdureError) throw error;
    throw addonError(error, (specifier) => {
      try {
        return require.resolve(specifier) !== '';
      } catch {
        return false;
      }
    });
  }
}

/** @throws ProviderError, SchemaVersionError */
export async function openSqlite(
  path: string,
  durability: string,
  migrate: boolean,
  codec: CodecBridge | null,
): Promise<NativeStore> {
  try {
    return await addon.Store.openSqlite(path, durability, migrate, ...codecOf(codec));
  } catch (error) {
    throw nativeError(error);
  }
}

/** @throws ProviderError */
export async function openSqliteInMemory(codec: CodecBridge | null): Promise<NativeStore> {
  try {
    return await addon.Store.sqliteInMemory(...codecOf(codec));
  } catch (error) {
    throw nativeError(error);
  }
}

/** @throws ProviderError, SchemaVersionError */
export async function connectPostgres(
  url: string,
  options: NativePostgresOptions,
  codec: CodecBridge | null,
  password?: () => Promise<string>,
): Promise<NativeStore> {
  // Called from a thread that makes a connection. `question` is the number under which the answer is given.
  const ask = (question: number): void =>
    void password?.().then(
      (given) => addon.Store.givePassword(question, given, ''),
      (why: unknown) => addon.Store.givePassword(question, null, why instanceof Error ? why.message : String(why)),
    );
  try {
    return await addon.Store.connectPostgres(
      url,
      JSON.stringify(options),
      password === undefined ? null : ask,
      ...codecOf(codec),
    );
  } catch (error) {
    throw nativeError(error);
  }
}

function codecOf(codec: CodecBridge | null): NativeCodec {
  if (codec === null) return [null, false];
  return [(question) => codec.ask(question, (number, texts) => addon.Store.giveTexts(number, texts)), codec.required];
}

/** Options of a runtime, in the form that the addon takes. */
export interface NativeRuntimeOptions {
  readonly threads: number;
  readonly activityConcurrency: number;
  readonly queues: readonly string[];
  readonly cachedInstancesMax: number;
  readonly leaseMs: number;
  readonly turnDeadlineMs: number;
  /** A turn that takes longer ends at the next wait of the code, and another turn follows. */
  readonly turnSliceMs: number;
  /** An instance whose next timer is due sooner than this stays with its worker. Default 1 s. */
  readonly holdTimerMs?: number;
  readonly workerName: string;
  readonly nodeVersion: string;
  readonly logLevel: TraceLevel;
  readonly historyEvents: number;
  readonly historyBytes: number;
  readonly turnBytes: number;
  readonly pendingActivities: number;
  readonly mailboxMessages: number;
}

export function createRuntime(store: NativeStore, options: NativeRuntimeOptions): NativeRuntime {
  try {
    return new addon.NativeRuntime(store, JSON.stringify(options));
  } catch (error) {
    throw nativeError(error);
  }
}

/**
 * Returns a lane of a runtime of this process, by the numbers of both. Lane 0 is that of the thread that made the
 * runtime.
 */
export function laneOf(runtime: number, lane: number): NativeLane {
  try {
    return new DecodingLane(runtime, lane);
  } catch (error) {
    throw nativeError(error);
  }
}

/** Returns a store that another thread of this process has opened, by its number. */
export function joinStore(number: number): NativeStore {
  try {
    return addon.Store.join(number);
  } catch (error) {
    throw nativeError(error);
  }
}

// Positions at which `crates/node/src/answer.rs` puts the numbers of an answer: its kind, its facts, and the lengths of
// its texts.
const NUMBERS = 15;
const KIND = 0;
const FACTS = 1;
const LENGTHS = 8;

/**
 * Attaches a store's replies. `wake` is called when replies have arrived; this does not keep the process alive. Returns
 * a function that gives the next reply. It gives `null` when there is none, and then `wake` is called for the next
 * reply.
 */
export function attachReplies(store: NativeStore, wake: () => void): () => NativeReply | null {
  const numbers = new Float64Array(NUMBERS);
  const nextReply = store.attach(wake, numbers);
  return () => {
    const text = nextReply();
    if (text === null) return null;
    return {
      request: numbers[FACTS] as number,
      ok: numbers[KIND] === 1,
      text: (numbers[LENGTHS] as number) < 0 ? null : text,
    };
  };
}

/** A lane that decodes the answers of the addon into objects. */
class DecodingLane extends addon.NativeLane implements NativeLane {
  readonly scheduleActivity: EachStep['scheduleActivity'];
  readonly finish: EachStep['finish'];
  readonly completeActivity: EachStep['completeActivity'];
  private readonly calls: EachStep;
  private readonly numbers: Float64Array;

  constructor(runtime: number, lane: number) {
    const numbers = new Float64Array(NUMBERS);
    super(runtime, lane, numbers);
    this.numbers = numbers;
    const calls = this.eachStep();
    this.calls = calls;
    this.scheduleActivity = calls.scheduleActivity;
    this.finish = calls.finish;
    this.completeActivity = calls.completeActivity;
  }

  nextJob(looksAgain: boolean): NativeJob | null {
    const text = this.calls.nextJob(looksAgain);
    if (text === null) return null;
    const { numbers } = this;
    const kind = numbers[KIND] as NativeJob['kind'];
    const first = numbers[FACTS] as number;
    switch (kind) {
      case TURN:
      case DROP:
        return { kind, token: first };
      case ACTIVITY: {
        const name = (numbers[LENGTHS] as number) + (numbers[LENGTHS + 1] as number);
        const extras = name + (numbers[LENGTHS + 2] as number);
        const input = extras + Math.max(numbers[LENGTHS + 3] as number, 0);
        return {
          kind,
          token: first,
          attempt: numbers[FACTS + 1] as number,
          timeoutMs: numbers[FACTS + 2] as number,
          executionId: numbers[FACTS + 3] as number,
          operation: numbers[FACTS + 4] as number,
          incarnationHigh: numbers[FACTS + 5] as number,
          incarnationLow: numbers[FACTS + 6] as number,
          instanceId: text.slice(0, numbers[LENGTHS]),
          orchestrationName: text.slice(numbers[LENGTHS], name),
          name: text.slice(name, extras),
          extras: input === extras ? null : (JSON.parse(text.slice(extras, input)) as AttemptExtras),
          input: (numbers[LENGTHS + 4] as number) < 0 ? null : text.slice(input),
        };
      }
      case ABORT:
        return { kind, token: first, reason: text as AbortReason };
      case ENDED: {
        const [instanceId, name, version, status] = textsOf(text, numbers, 4) as [string, string, string, EndState];
        return { kind, executionId: first, instanceId, name, version, status };
      }
      case LOG: {
        const [level, message, fields] = textsOf(text, numbers, 3) as [TraceLevel, string, string | null];
        return { kind, isInternal: first === 1, level, message, fields };
      }
      default:
        return kind satisfies never;
    }
  }

  describe(instance: number): InstanceDescription {
    return descriptionOf(this.calls.describe(instance), this.numbers);
  }

  next(
    instance: number,
    mailboxes: Waits[0],
    timers: Waits[1],
    mailboxesGone: Waits[2],
    timersGone: Waits[3],
  ): Delivery | null {
    const hasChanged = mailboxes !== null || timers !== null || mailboxesGone !== null || timersGone !== null;
    const text = hasChanged
      ? this.calls.next(instance, mailboxes, timers, mailboxesGone, timersGone)
      : this.calls.next(instance);
    return deliveryOf(text, this.numbers);
  }

  // @ts-expect-error: the same call, decoded
  override interrupt(instance: number): Delivery | null {
    return deliveryOf(super.interrupt(instance), this.numbers);
  }

  sleeps(): boolean {
    return this.numbers[KIND] === 1;
  }

  succeedsNext(): boolean {
    return this.numbers[KIND] === 1;
  }
}

/** The calls of an execution that is only replayed, decoded in the same way. */
class DecodingReplay extends addon.NativeReplay implements NativeTurn {
  /** Reason why the code must not go on; `null` if it may. */
  refusal: NativeErrorData | null = null;
  private readonly numbers: Float64Array;

  constructor(instanceId: string, executionId: number, events: string) {
    const numbers = new Float64Array(NUMBERS);
    super(instanceId, executionId, events, numbers);
    this.numbers = numbers;
  }

  // @ts-expect-error: the same call, decoded
  override describe(instance: number): InstanceDescription {
    return descriptionOf(super.describe(instance), this.numbers);
  }

  // @ts-expect-error: the same call, decoded
  override next(instance: number, ...waits: Waits): Delivery | null {
    return deliveryOf(super.next(instance, ...waits), this.numbers);
  }

  // @ts-expect-error: the same call, decoded
  override interrupt(instance: number): Delivery | null {
    return deliveryOf(super.interrupt(instance), this.numbers);
  }

  succeedsNext(): boolean {
    return this.numbers[KIND] === 1;
  }

  suspend(_: number, source: string, report: string | null): void {
    const text = this.mismatch(source) ?? report;
    this.refusal = text === null ? { code: 'SUSPENDED', message: source } : (JSON.parse(text) as NativeErrorData);
  }
}

/** Returns the first texts of an answer, which arrived joined in one string. */
function textsOf(text: string, numbers: Float64Array, count: number): (string | null)[] {
  const texts: (string | null)[] = [];
  for (let n = 0, from = 0; n < count; n += 1) {
    const length = numbers[LENGTHS + n] as number;
    texts.push(length < 0 ? null : text.slice(from, from + length));
    from += Math.max(length, 0);
  }
  return texts;
}

function descriptionOf(text: string, numbers: Float64Array): InstanceDescription {
  const [instanceId, name, version, parentId, customStatus, trace, input] = textsOf(text, numbers, 7) as [
    string,
    string,
    string,
    string | null,
    string | null,
    TraceContext | null,
    string | null,
  ];
  const [executionId, timeMs] = [numbers[FACTS] as number, numbers[FACTS + 1] as number];
  return { instanceId, executionId, name, version, input, parentId, customStatus, timeMs, trace };
}

function deliveryOf(text: string | null, numbers: Float64Array): Delivery | null {
  if (text === null) return null;
  const mailbox = numbers[LENGTHS] as number;
  return {
    kind: numbers[KIND] as Delivery['kind'],
    timeMs: numbers[FACTS] as number,
    operation: numbers[FACTS + 1] as number,
    detail: numbers[FACTS + 2] as number,
    mailbox: mailbox < 0 ? null : text.slice(0, mailbox),
    value: (numbers[LENGTHS + 1] as number) < 0 ? null : mailbox < 0 ? text : text.slice(mailbox),
  };
}

/**
 * The engine of one instance. It makes the lane's calls with the instance's token. Its texts are those on this side of
 * the store's codec: encoded on the way in, decoded on the way out.
 */
export class NativeEngine implements EnginePort {
  private readonly lane: NativeTurn;
  private readonly token: number;
  private readonly texts: StoredTexts;
  private instanceId = '';
  private executionId = 0;
  /** Ids of the children that this execution started, by operation. Only filled for a store with a codec. */
  private readonly children = new Map<number, string>();

  constructor(lane: NativeTurn, token: number, texts: StoredTexts) {
    this.lane = lane;
    this.token = token;
    this.texts = texts;
  }

  describe(): InstanceDescription {
    try {
      const { texts } = this;
      const description = this.lane.describe(this.token);
      this.instanceId = description.instanceId;
      this.executionId = description.executionId;
      if (texts.isPlain(description.input) && texts.isPlain(description.customStatus)) return description;
      const input = texts.read(description.input, 'input', Place.input(this.instanceId, this.executionId));
      const customStatus = texts.read(description.customStatus, 'status', Place.ofInstance(this.instanceId, 'status'));
      return { ...description, input, customStatus };
    } catch (error) {
      throw nativeError(error);
    }
  }

  scheduleActivity(name: string, input: string | null, options: string | null): number {
    try {
      const { texts } = this;
      const place = texts.hasCodec ? this.ofActivity(this.lane.nextCommandId(this.token), 'input') : null;
      const stored = texts.leaves(input) ? input : texts.rewrite(input, this, 'input', place);
      return this.lane.scheduleActivity(this.token, name, stored, options);
    } catch (error) {
      throw nativeError(error);
    }
  }

  createTimer(delayMs: number): number {
    try {
      return this.lane.createTimer(this.token, delayMs);
    } catch (error) {
      throw nativeError(error);
    }
  }

  graceTimer(delayMs: number | null): number | null {
    try {
      return this.lane.graceTimer(this.token, delayMs);
    } catch (error) {
      throw nativeError(error);
    }
  }

  createTimerAt(atMs: number): number {
    try {
      return this.lane.createTimerAt(this.token, atMs);
    } catch (error) {
      throw nativeError(error);
    }
  }

  startInstance(
    isChild: boolean,
    name: string,
    id: string,
    version: string | null,
    input: string | null,
    tags: string | null,
    priority: number,
    trace: TraceContext | null = null,
  ): number {
    try {
      const { texts } = this;
      const stored = texts.leaves(input) ? input : texts.rewrite(input, this, 'input', Place.input(id, 1));
      const operation = this.lane.startInstance(this.token, isChild, name, id, version, stored, tags, priority, trace);
      if (isChild && texts.hasCodec) this.children.set(operation, id);
      return operation;
    } catch (error) {
      throw nativeError(error);
    }
  }

  sendMessage(receiver: string, mailbox: string, payload: string | null): number {
    try {
      const stored = this.texts.leaves(payload)
        ? payload
        : this.texts.rewrite(payload, this, 'data', Place.mail(receiver, mailbox));
      return this.lane.sendMessage(this.token, receiver, mailbox, stored);
    } catch (error) {
      throw nativeError(error);
    }
  }

  ofFiber(fiber: number): void {
    try {
      this.lane.ofFiber(this.token, fiber);
    } catch (error) {
      throw nativeError(error);
    }
  }

  succeedsNext(): boolean {
    return this.lane.succeedsNext();
  }

  cancelOperation(operation: number): void {
    try {
      this.lane.cancelOperation(this.token, operation);
    } catch (error) {
      throw nativeError(error);
    }
  }

  next(mailboxes: Waits[0], timers: Waits[1], mailboxesGone: Waits[2], timersGone: Waits[3]): Delivery | null {
    try {
      return this.read(this.lane.next(this.token, mailboxes, timers, mailboxesGone, timersGone));
    } catch (error) {
      throw nativeError(error);
    }
  }

  interrupt(): Delivery | null {
    try {
      return this.read(this.lane.interrupt(this.token));
    } catch (error) {
      throw nativeError(error);
    }
  }

  private read(delivery: Delivery | null): Delivery | null {
    if (delivery === null || delivery.kind === REFUSED || this.texts.isPlain(delivery.value)) return delivery;
    return { ...delivery, value: this.texts.read(delivery.value, 'value', this.placeOf(delivery)) };
  }

  finish(kind: EndKind, payload: string | null): void {
    try {
      const path = kind === COMPLETED ? 'output' : 'error';
      const stored = this.texts.leaves(payload)
        ? payload
        : this.texts.rewrite(payload, this, path, Place.end(this.instanceId, path));
      this.lane.finish(this.token, kind, stored);
    } catch (error) {
      throw nativeError(error);
    }
  }

  continueAsNew(input: string | null, version: string | null): void {
    try {
      const stored = this.texts.leaves(input)
        ? input
        : this.texts.rewrite(input, this, 'input', Place.input(this.instanceId, this.executionId + 1));
      this.lane.continueAsNew(this.token, stored, version);
    } catch (error) {
      throw nativeError(error);
    }
  }

  suspend(source: string, report: string | null): void {
    try {
      this.lane.suspend(this.token, source, report);
    } catch (error) {
      throw nativeError(error);
    }
  }

  isReplaying(): boolean {
    try {
      return this.lane.isReplaying(this.token);
    } catch (error) {
      throw nativeError(error);
    }
  }

  historyLength(): number {
    try {
      return this.lane.historyLength(this.token);
    } catch (error) {
      throw nativeError(error);
    }
  }

  trace(level: TraceLevel, message: string, fields: string | null): void {
    try {
      this.lane.trace(this.token, level, message, fields);
    } catch (error) {
      throw nativeError(error);
    }
  }

  setCustomStatus(text: string | null): void {
    try {
      const stored = this.texts.hasCodec
        ? this.texts.write(text, 'status', Place.ofInstance(this.instanceId, 'status'))
        : text;
      this.lane.setCustomStatus(this.token, stored);
    } catch (error) {
      throw nativeError(error);
    }
  }

  random(): number {
    try {
      return this.lane.random(this.token);
    } catch (error) {
      throw nativeError(error);
    }
  }

  randomUuid(): string {
    try {
      return this.lane.randomUuid(this.token);
    } catch (error) {
      throw nativeError(error);
    }
  }

  isCancelling(): boolean {
    try {
      return this.lane.isCancelling(this.token);
    } catch (error) {
      throw nativeError(error);
    }
  }

  patched(id: string): boolean {
    try {
      return this.lane.patched(this.token, id);
    } catch (error) {
      throw nativeError(error);
    }
  }

  /** See {@link NativeLane.recordedPayload}. */
  recordedPayload(): string | null {
    return this.lane.recordedPayload(this.token);
  }

  private ofActivity(operation: number, what: 'input' | 'output' | 'error'): Place {
    return Place.activity(this.instanceId, this.executionId, operation, what);
  }

  /** Returns the place of the value that a delivery holds. */
  private placeOf({ kind, operation, detail, mailbox }: Delivery): Place {
    const child = this.children.get(operation);
    switch (kind) {
      case SUCCEEDED:
        return child === undefined ? this.ofActivity(operation, 'output') : Place.end(child, 'output');
      case ACTIVITY_FAILED:
        return this.ofActivity(operation, 'error');
      case CHILD_FAILED:
        return Place.end(child ?? '', detail === CHILD_TERMINATED ? 'termination' : 'error');
      case MESSAGE:
        return Place.mail(this.instanceId, mailbox ?? '');
      case CANCEL:
      case REFUSED:
        return Place.ofInstance(this.instanceId, 'cancellation');
      default:
        return kind satisfies never;
    }
  }
}

/**
 * The engine of one execution that has a history and nothing else. It keeps facts that a store would have been told.
 */
export class ReplayEngine extends NativeEngine {
  /** Mailboxes and operations that the code waited for at its last wait. Activities and children are not among them. */
  readonly awaited = { mailboxes: new Set<string>(), operations: new Set<number>() };
  /** Text of the error that the code ended with; `null` if it has not ended with one. */
  thrown: string | null = null;
  private readonly replay: DecodingReplay;

  private constructor(replay: DecodingReplay, texts: StoredTexts) {
    super(replay, 0, texts);
    this.replay = replay;
  }

  /**
   * @param events - JSON of the events of an export
   * @throws PerdureError when these are no history
   */
  static open(instanceId: string, executionId: number, events: string, texts: StoredTexts): ReplayEngine {
    try {
      return new ReplayEngine(new DecodingReplay(instanceId, executionId, events), texts);
    } catch (error) {
      throw nativeError(error);
    }
  }

  /** Reason why the code must not go on; `null` if it may. */
  get refusal(): NativeErrorData | null {
    return this.replay.refusal;
  }

  override next(...waits: Waits): Delivery | null {
    this.noteWaits(...waits);
    return super.next(...waits);
  }

  /** Notes the changes to the set of awaited mailboxes and operations. */
  noteWaits(...[mailboxes, timers, mailboxesGone, timersGone]: Waits): void {
    const { awaited } = this;
    for (const mailbox of mailboxesGone ?? []) awaited.mailboxes.delete(mailbox);
    for (const timer of timersGone ?? []) awaited.operations.delete(timer);
    for (const mailbox of mailboxes ?? []) awaited.mailboxes.add(mailbox);
    for (const timer of timers ?? []) awaited.operations.add(timer);
  }

  override finish(kind: EndKind, payload: string | null): void {
    super.finish(kind, payload);
    if (kind !== COMPLETED) this.thrown = payload;
  }
}

/** Returns the error of a reply that is not ok. */
export function replyError(text: string | null): PerdureError {
  return (
    errorOf(text ?? '') ??
    new ProviderError(`the addon replied with an error that cannot be read: ${text}`, { retryable: false })
  );
}

/**
 * Returns the error of a native call as one of Perdure's errors. Any other error, such as a TypeError of napi, is
 * returned unchanged.
 */
export function nativeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return errorOf(error.message) ?? error;
}

function errorOf(text: string): PerdureError | undefined {
  if (!text.startsWith('{')) return undefined;
  try {
    const data = JSON.parse(text) as NativeErrorData;
    return typeof data.code === 'string' ? fromNative(data) : undefined;
  } catch {
    return undefined;
  }
}

// Stores of the addon, and the requests that clients make to them.

import type { TraceContext } from '../tracing/telemetry-hooks.ts';
import type { Admission } from '../values/admission.ts';
import type { CodecBridge } from '../values/async-codec.ts';
import type { OnConflict } from '../values/conflicts.ts';
import { addon } from './addon.ts';
import { Frame } from './frame.ts';
import type { NativeCodec, NativeStore } from './native-classes.ts';
import { guard, guarded } from './native-error.ts';

/** The limits of a queue. Only those that hold are there. A rate is a number and a time in ms. */
export interface QueueSettings {
  readonly concurrency?: number;
  readonly perWorker?: number;
  readonly rate?: readonly [limit: number, perMs: number];
  readonly keyConcurrency?: number;
  readonly keyRate?: readonly [limit: number, perMs: number];
  readonly fair?: true;
}

/** A request to start an instance. */
export interface StartRequest {
  readonly kind: 'start';
  readonly id: string;
  readonly name: string;
  /** `null`: the store chooses the version. */
  readonly version: string | null;
  /** JSON of an object of strings. */
  readonly tags: string | null;
  readonly priority: number;
  readonly onConflict: OnConflict;
  /** Absent: the instance runs at once. */
  readonly admission?: Admission;
  readonly trace: TraceContext | null;
}

/** A request to start an instance, which depends on the instance that was started before under the same key. */
export interface KeyedStartRequest {
  readonly kind: 'keyedStart';
  readonly request: Omit<StartRequest, 'kind'>;
  /** The keys that it may meet: within the rule, those of this name. */
  readonly scope: string;
  readonly key: string;
  readonly rule:
    | { readonly kind: 'skip' | 'cancel' }
    | { readonly kind: 'throttle'; readonly perMs: number }
    | { readonly kind: 'debounce'; readonly delayMs: number; readonly maxMs: number | null }
    | { readonly kind: 'batch'; readonly withinMs: number; readonly max: number };
  /**
   * The queue of the inputs and the input of the instance, if the rule is that of a batch. The value is then that of
   * the message.
   */
  readonly batch?: { readonly queue: string; readonly input: string | null };
}

/** The start of the receiver of a message, and its input. */
export interface ReceiverStartRequest {
  readonly request: Omit<StartRequest, 'kind'>;
  readonly input: string | null;
}

/** A request to a store. `crates/node/src/request.rs` says what each replies. */
export type StoreRequest =
  | StartRequest
  | KeyedStartRequest
  | {
      readonly kind: 'send';
      readonly id: string;
      readonly mailbox: 'event' | 'queue';
      readonly name: string;
      /** The most messages that may wait for the instance, this one among them. */
      readonly unreadMax: number;
      /** `null`: the message starts no instance. */
      readonly start: ReceiverStartRequest | null;
    }
  | {
      readonly kind: 'ask';
      readonly id: string;
      /** Id of the ask, unique in the instance. */
      readonly ask: string;
      /** The most messages that may wait for the instance, this one among them. */
      readonly unreadMax: number;
      /** `null`: the ask starts no instance. */
      readonly start: ReceiverStartRequest | null;
    }
  | {
      readonly kind:
        | 'cancel'
        | 'terminate'
        | 'suspend'
        | 'resume'
        | 'delete'
        | 'status'
        | 'streams'
        | 'footprint'
        | 'takeovers';
      readonly id: string;
    }
  | {
      readonly kind: 'waitForStatusChange' | 'waitForStateChange';
      readonly id: string;
      readonly afterVersion: number;
    }
  | {
      readonly kind: 'readStream' | 'waitForEntry';
      readonly id: string;
      readonly stream: string;
      /** The key of the page before; `null` for the first page. */
      readonly key: number | null;
      /** Index of the next entry. */
      readonly from: number;
      /** The most chunks of the page. */
      readonly limit: number;
    }
  | {
      readonly kind: 'append';
      /** Number of the runtime in this process. */
      readonly runtime: number;
      /** Token of the attempt. */
      readonly activity: number;
      readonly stream: string;
      /** Number of the entries, which are the value. */
      readonly count: number;
      /** True for the first append of the attempt to the stream. */
      readonly begins: boolean;
      readonly entriesMax: number | null;
      readonly retainMs: number | null;
    }
  /** `name: null` asks for all values. */
  | { readonly kind: 'state'; readonly id: string; readonly name: string | null }
  | {
      readonly kind: 'history';
      readonly id: string;
      /** The key of the page before; `null` for the first page. */
      readonly key: number | null;
      /** `null`: the current execution. */
      readonly executionId: number | null;
      /** Id of the first event. */
      readonly from: number;
      /** `null`: as many events as a page may have. */
      readonly limit: number | null;
    }
  | {
      readonly kind: 'executions';
      readonly id: string;
      /** The key of the page before; `null` for the first page. */
      readonly key: number | null;
      /** The newest execution; `null`: the current one. */
      readonly from: number | null;
      readonly limit: number;
    }
  | { readonly kind: 'list'; readonly filter: object; readonly cursor: string | null; readonly limit: number }
  | { readonly kind: 'prune'; readonly filter: object; readonly limit: number | null }
  | { readonly kind: 'pruneExecutions'; readonly filter: object; readonly keep: number }
  | {
      readonly kind: 'texts';
      readonly table: string;
      /** The row of the page before. */
      readonly after: string | null;
      /** Texts that begin with this are left out. */
      readonly except: string;
      /** The most characters to return of each text; `null`: all. */
      readonly head: number | null;
    }
  | { readonly kind: 'replaceTexts'; readonly table: string }
  | { readonly kind: 'check'; readonly cursor: string | null; readonly limit: number }
  | { readonly kind: 'backUp'; readonly path: string; readonly replace: boolean }
  | {
      readonly kind: 'overdue';
      readonly forMs: number;
      /** Names and versions of orchestrations that are left out. */
      readonly servedOrchestrations: readonly (readonly [name: string, version: string])[];
      /** Queues and names of activities that are left out. */
      readonly servedActivities: readonly (readonly [queue: string, name: string])[];
    }
  | { readonly kind: 'waitForEnd'; readonly id: string; readonly orSuspension: boolean }
  | { readonly kind: 'openWork'; readonly id: string }
  | {
      readonly kind: 'logs';
      readonly id: string;
      /** `null`: all. */
      readonly executionId: number | null;
      readonly cursor: string | null;
      readonly limit: number;
    }
  | { readonly kind: 'setQueue'; readonly name: string; readonly settings: QueueSettings }
  | { readonly kind: 'pauseQueue'; readonly name: string; readonly paused: boolean }
  | { readonly kind: 'deleteQueue'; readonly name: string }
  /** `name: null` asks for all queues. */
  | { readonly kind: 'queues'; readonly name: string | null }
  | { readonly kind: 'sweep' | 'stats' | 'storeId' | 'inspect' | 'close' };

/** A request to append entries of an activity to a stream. */
export type AppendRequest = Extract<StoreRequest, { readonly kind: 'append' }>;

/** A reply to a request of a {@link NativeStore}. */
export interface NativeReply {
  readonly request: number;
  readonly ok: boolean;
  /** JSON or `null`; when not ok, JSON of an error. */
  readonly text: string | null;
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

/** @throws ProviderError, SchemaVersionError */
export function openSqlite(
  path: string,
  durability: string,
  migrate: boolean,
  codec: CodecBridge | null,
): Promise<NativeStore> {
  return guarded(() => addon.Store.openSqlite(path, durability, migrate, ...codecOf(codec)));
}

/** @throws ProviderError */
export function openSqliteInMemory(codec: CodecBridge | null): Promise<NativeStore> {
  return guarded(() => addon.Store.sqliteInMemory(...codecOf(codec)));
}

/** @throws ProviderError, SchemaVersionError */
export function connectPostgres(
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
  const asks = password === undefined ? null : ask;
  return guarded(() => addon.Store.connectPostgres(url, JSON.stringify(options), asks, ...codecOf(codec)));
}

function codecOf(codec: CodecBridge | null): NativeCodec {
  if (codec === null) return [null, false];
  return [(question) => codec.ask(question, (number, texts) => addon.Store.giveTexts(number, texts)), codec.required];
}

/** Returns a store that another thread of this process has opened, by its number. */
export const joinStore = guard((number: number): NativeStore => addon.Store.join(number));

/**
 * Attaches a store's replies. `wake` is called when replies have arrived; this does not keep the process alive. Returns
 * a function that gives the next reply. It gives `null` when there is none, and then `wake` is called for the next
 * reply.
 */
export function attachReplies(store: NativeStore, wake: () => void): () => NativeReply | null {
  const frame = new Frame();
  const nextReply = store.attach(wake, frame.numbers);
  return () => {
    const text = nextReply();
    if (text === null) return null;
    return { request: frame.fact(0), ok: frame.kind === 1, text: frame.text(text, 0) };
  };
}

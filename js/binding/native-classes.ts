// The classes of the addon, as types.

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
  /** Turns the jobs that report ended instances on or off. */
  reportEnds(wanted: boolean): void;
  /**
   * Notes the share of its time that the thread of each lane has worked lately, 0 to 1. The worker sends it with the
   * next heartbeat.
   */
  noteBusy(shares: readonly number[]): void;
  metrics(): string;
  mapSizes(): NativeMapSizes;
}

/** An opened store. Each request is answered by one reply, unless it is abandoned. */
export interface NativeStore {
  /** Returns a warning for the user about the connection to the store, if there is one. */
  warning(): string | null;
  /** Returns the store's number, by which other threads of this process find it. */
  number(): number;
  /**
   * Attaches the replies. Called once, by `attachReplies`. Returns a function that gives the next reply as text,
   * or `null`.
   */
  attach(wake: () => void, numbers: Float64Array): () => string | null;
  /** Called after the last reply was taken. */
  detach(): void;
  /**
   * Makes a request. `question` is JSON of a `StoreRequest`. `value` is the codec text of the input, the message
   * or the reason that goes with it, or JSON of the texts to replace.
   */
  ask(request: number, question: string, value: string | null): void;
  /** Abandons a wait. Its reply does not come. */
  abandon(request: number): void;
}

/** The codec in front of a store, as arguments: `[null, false]` for none. */
export type NativeCodec = [ask: ((question: string) => void) | null, required: boolean];

export interface NativeStoreClass {
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

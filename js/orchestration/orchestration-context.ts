// The context that the code of an orchestration works with, as its author sees it.

import type { ActivityDefinition } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import type { ActivityOptions, InlineOptions } from '../activity/activity-options.ts';
import type {
  Branch,
  BranchOutcomes,
  BranchValue,
  BranchValues,
  CombineOptions,
  RaceResult,
  SelectResult,
  SettledRaceResult,
  SettledSelectResult,
} from '../driver/branch.ts';
import type { Channel } from '../driver/channel.ts';
import type { Deferred } from '../driver/deferred.ts';
import type { FiberFuture, Future } from '../driver/future.ts';
import type { TraceFields } from '../logging/fields.ts';
import type { Duration, IsoTime } from '../util/duration.ts';
import type { StreamOptions } from '../values/stream-options.ts';
import type { ChildOptions, DetachedOptions, InputArguments, TypedDetachedOptions } from './call-options.ts';
import type { InputOf, OrchestrationDefinition, OutputOf } from './definition.ts';
import type { OrchestrationMessages } from './message-methods.ts';
import type { OrchestrationPatterns } from './patterns.ts';
import type { PublishedState } from './published-state.ts';
import type { OrchestrationStream } from './streams.ts';

/** Options of {@link OrchestrationContext.continueAsNew}. */
export interface ContinueAsNewOptions {
  /** Version of the orchestration that the next execution runs. Default: the version of this execution. */
  version?: string;
}

/**
 * The context of an orchestration, with the types of its input and its custom status. Its methods schedule work at once
 * and return a {@link Future}, unless they are said to be synchronous. Two calls before the first `yield` run in
 * parallel. The methods work only inside the `function*` that was given this context.
 *
 * @example
 * ```ts
 * const order = defineOrchestration('order', function* (ctx: OrchestrationContext<Order, Progress>, { total }) {
 *   ctx.setCustomStatus({ step: 'charging' });   // a Progress, as in client.handle(order, id).statusChanges()
 *   return yield* ctx.call(charge, total);
 * });
 * ```
 */
export interface OrchestrationContext<I = any, S = unknown> extends OrchestrationMessages, OrchestrationPatterns {
  /** Id of this instance. */
  readonly instanceId: string;

  /** Number of this execution of the instance, from 1. */
  readonly executionId: number;

  /** Name of this orchestration. */
  readonly name: string;

  /** Version of this orchestration that the instance was started with. */
  readonly version: string;

  /** Id of the instance that waits for this one, if it is a child. */
  readonly parentId: string | undefined;

  /** Number of events recorded in this execution up to here, the same in every replay. */
  readonly historyLength: number;

  /**
   * True once this execution has become so long (10 000 events) that it should {@link continueAsNew} at its next
   * convenience. The same in every replay.
   */
  readonly continueAsNewSuggested: boolean;

  /**
   * True while a replay takes the code through the steps that it took before. For logging only: all else that depends
   * on it breaks the replay.
   */
  readonly isReplaying: boolean;

  /**
   * Runs an activity: at least once, and its result is recorded once.
   *
   * @param name - the name that the activity is registered under
   * @param input - any value that can be stored
   * @param options - over those of the registration
   * @returns a future of its output; it fails with `ActivityError` (`cause` is what the activity threw)
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when a name or an option is wrong
   *
   * @example
   * ```ts
   * const receipt = yield ctx.scheduleActivity('charge', order, { timeout: '30s' });
   * ```
   */
  scheduleActivity<T = unknown>(name: string, input?: unknown, options?: ActivityOptions): Future<T>;

  /**
   * Runs an activity by its definition. Otherwise the same as {@link scheduleActivity}, with types. For one of several
   * activities the compiler accepts the input of any of them.
   *
   * @example
   * ```ts
   * const receipt = yield* ctx.call(charge, order);
   * const answer = yield* ctx.call(TOOLS[tool.name], tool.input);   // const TOOLS = { search, readPage }
   * ```
   */
  call<A extends ActivityDefinition>(
    activity: A,
    ...args: InputArguments<InputOf<A>, ActivityOptions>
  ): Future<OutputOf<A>>;

  /**
   * Runs a function as an inline activity: right here, in this process, and records its result. The function may do
   * what an orchestration may not (IO, clocks, randomness) and is given the context of an activity. It runs at least
   * once, as any activity does, with the same options. Its result, and what it takes from the code around it, must not
   * depend on it being called only once. It cannot use this `ctx`.
   *
   * While the activity is open, the orchestration stays in memory. Another process that goes on with the instance runs
   * the activity there.
   *
   * @param name - 1 to 256 characters; recorded in histories, so it must stay the same over versions
   * @param fn - often `async`; its result is recorded, and must be a value that can be stored
   * @param options - the same as of any activity, except for the queue; none are registered
   * @returns a future of its output; it fails with `ActivityError` (`cause` is what the function threw)
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const rate = yield* ctx.run('rate', async ({ signal }) => {
   *   const response = await fetch(`https://rates.example/${input.currency}`, { signal });
   *   return (await response.json()) as Rate;
   * }, { timeout: '10s' });
   * ```
   */
  run<O>(name: string, fn: (ctx: ActivityContext) => O | PromiseLike<O>, options?: InlineOptions): Future<O>;

  /**
   * Runs another orchestration as a child: an instance of its own, whose end this instance waits for. The child is
   * cancelled when the future or this instance is cancelled, and when this execution ends.
   *
   * @param name - the name that the orchestration is registered under, here or in another process
   * @param input - any value that can be stored
   * @param options - its `id`, `version`, `tags`, `priority` and `onConflict`, its `queue` and its start time
   * @returns a future of its output; it fails with `SubOrchestrationError` (`cause` is the error that the child ended
   *   with, `InstanceExistsError` when the id is in use, or `QueueNotFoundError` when there is no such queue)
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when a name or an option is wrong
   *
   * @example
   * ```ts
   * const parts = yield* ctx.all(order.items.map((item) => ctx.scheduleSubOrchestration<Part>('pick', item)));
   * ```
   */
  scheduleSubOrchestration<T = unknown>(name: string, input?: unknown, options?: ChildOptions): Future<T>;

  /**
   * Runs another orchestration as a child by its definition, in the version of the definition unless the options name
   * another. Otherwise the same as {@link scheduleSubOrchestration}, with types.
   *
   * @example
   * ```ts
   * const receipt = yield* ctx.callOrchestration(payment, { total: 12 });
   * ```
   */
  callOrchestration<D extends OrchestrationDefinition>(
    orchestration: D,
    ...args: InputArguments<InputOf<D>, ChildOptions>
  ): Future<OutputOf<D>>;

  /**
   * Starts a detached instance: this instance does not learn of its end, and neither the end nor a cancellation of this
   * instance reaches it.
   *
   * @param name - the name that the orchestration is registered under, here or in another process
   * @param id - its id
   * @param input - any value that can be stored
   * @param options - its `version`, `tags`, `priority` and `onConflict`, its `queue` and its start time
   * @returns a future of the id, which settles when the start is durable; it fails with `InstanceExistsError` when the
   *   id is in use, unless `onConflict` says otherwise, and with `QueueNotFoundError` when there is no such queue. The
   *   instance is started whether or not a fiber waits
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when a name, an id or an option is wrong
   *
   * @example
   * ```ts
   * yield ctx.startOrchestration('audit', `audit-${ctx.instanceId}`, order);
   * ```
   */
  startOrchestration(name: string, id: string, input?: unknown, options?: DetachedOptions): Future<string>;

  /**
   * Starts a detached instance by its definition, in the version of the definition unless the options name another.
   * Otherwise the same as {@link startOrchestration}, with types. The id is a UUID unless the options name one.
   *
   * @example
   * ```ts
   * const id = yield* ctx.start(audit, order, { id: `audit-${ctx.instanceId}` });
   * ```
   */
  start<D extends OrchestrationDefinition>(
    orchestration: D,
    ...args: InputArguments<InputOf<D>, TypedDetachedOptions>
  ): Future<string>;

  /**
   * Creates a durable timer. Its due time is fixed now. A timer that no fiber waits for wakes no fiber.
   *
   * @param due - a duration (ms, or text such as `'24h'`), or a time (a `Date`, or ISO text)
   * @throws TypeError when it is neither
   *
   * @example
   * ```ts
   * yield ctx.scheduleTimer('24h');
   * yield ctx.scheduleTimer(new Date('2030-01-01T00:00:00Z'));
   * ```
   */
  scheduleTimer(due: Duration | IsoTime | Date): Future<void>;

  /** The same as {@link scheduleTimer}. */
  sleep(due: Duration | IsoTime | Date): Future<void>;

  /**
   * Gives the values of all branches, in the order of the branches; fails with the first failure. Branches are futures,
   * other combinators and generators (which become fibers).
   *
   * @throws TypeError when one of the branches is no branch
   *
   * @example
   * ```ts
   * const [user, orders] = yield* ctx.all([ctx.call(loadUser, id), ctx.call(loadOrders, id)]);
   * ```
   */
  all<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<BranchValues<B>>;

  /**
   * Gives the outcome of each branch, in their order, as `Promise.allSettled` does. Fails only when it is cancelled.
   *
   * @throws TypeError when one of the branches is no branch
   *
   * @example
   * ```ts
   * const results = yield* ctx.allSettled(orders.map((order) => ctx.call(charge, order)));
   * const failed = results.filter((result) => result.status === 'rejected');
   * ```
   */
  allSettled<const B extends readonly Branch[]>(branches: B): Future<BranchOutcomes<B>>;

  /**
   * Gives the value of the first branch that succeeds; fails with an `AggregateError` when all have failed.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const quote = yield* ctx.any([ctx.call(askA, item), ctx.call(askB, item)], { cancelLosers: true });
   * ```
   */
  any<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<BranchValue<B[number]>>;

  /**
   * Gives the first branch that settles, as `{ index, value }`; fails if that branch failed. The others go on, unless
   * `{ cancelLosers: true }` is the last argument. Branches are given one by one or as a list.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const answer = ctx.waitForEvent<Answer>('approve');
   * const first = yield* ctx.race(answer, ctx.scheduleTimer('24h'), { cancelLosers: true });
   * return first.index === 0 ? first.value : 'expired';
   * ```
   */
  race<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<RaceResult<B>>;

  race<const B extends readonly Branch[]>(...branches: B): Future<RaceResult<B>>;

  race<const B extends readonly Branch[]>(
    ...args: readonly [...branches: B, options: CombineOptions]
  ): Future<RaceResult<B>>;

  /**
   * Gives the first branch that settles, and its outcome: `{ index, status: 'fulfilled', value }` or
   * `{ index, status: 'rejected', reason }`. So a failed branch does not make it fail, and the result tells which
   * branch failed. Otherwise the same as {@link race}.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const first = yield* ctx.raceSettled(ctx.call(askA, item), ctx.call(askB, item));
   * if (first.status === 'rejected') {
   *   ctx.traceWarn(`${['A', 'B'][first.index]} failed`, { reason: String(first.reason) });
   * }
   * ```
   */
  raceSettled<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<SettledRaceResult<B>>;

  raceSettled<const B extends readonly Branch[]>(...branches: B): Future<SettledRaceResult<B>>;

  raceSettled<const B extends readonly Branch[]>(
    ...args: readonly [...branches: B, options: CombineOptions]
  ): Future<SettledRaceResult<B>>;

  /**
   * Gives the first branch that settles, as `{ tag, value }`; fails if that branch failed. Otherwise the same as
   * {@link race}.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const first = yield* ctx.select({ answer: ctx.waitForEvent<Answer>('answer'), late: ctx.scheduleTimer('24h') });
   * if (first.tag === 'answer') return first.value;   // Answer
   * ```
   */
  select<const B extends Readonly<Record<string, Branch>>>(
    branches: B,
    options?: CombineOptions,
  ): Future<SelectResult<B>>;

  /**
   * Gives the first branch that settles, and its outcome: `{ tag, status: 'fulfilled', value }` or
   * `{ tag, status: 'rejected', reason }`. So a failed branch does not make it fail, and the result tells which branch
   * failed. Otherwise the same as {@link select}.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const first = yield* ctx.selectSettled({ a: ctx.call(askA, item), b: ctx.call(askB, item) });
   * if (first.status === 'rejected') ctx.traceWarn(`${first.tag} failed`, { reason: String(first.reason) });
   * ```
   */
  selectSettled<const B extends Readonly<Record<string, Branch>>>(
    branches: B,
    options?: CombineOptions,
  ): Future<SettledSelectResult<B>>;

  /**
   * Starts a fiber: a strand of this orchestration that runs beside the others. The fiber begins when the code that
   * spawned it waits. When the orchestration returns or throws, fibers that have not ended are dropped, unless its
   * `onEnd` says otherwise. When the orchestration was cancelled, it ends after the fibers have cleaned up.
   *
   * @param body - a `function*`, or the generator that a call of one returned
   * @returns a future of its result, with `interrupt`
   * @throws TypeError when `body` is neither
   *
   * @example
   * ```ts
   * const audit = ctx.spawn(function* () {
   *   yield ctx.scheduleActivity('audit', 'begin');
   *   yield ctx.scheduleTimer('1h');
   *   yield ctx.scheduleActivity('audit', 'still there');
   * });
   * ```
   */
  spawn<T>(body: (() => Generator<Future<any>, T, any>) | Generator<Future<any>, T, any>): FiberFuture<T>;

  /**
   * Makes a future that this orchestration settles itself, once, for any number of fibers. In memory. Synchronous.
   *
   * @example
   * ```ts
   * const ready = ctx.deferred<Config>();
   * const worker = ctx.spawn(function* () {
   *   const config = yield* ready;
   *   yield* ctx.call(work, config);
   * });
   * ready.resolve(yield* ctx.call(loadConfig));
   * yield* worker;
   * ```
   */
  deferred<T = void>(): Deferred<T>;

  /**
   * Makes a channel between the fibers of this orchestration, in memory. Synchronous.
   *
   * @param capacity - the number of values that the channel holds before a `send` waits; without one it holds any
   *   number. With 0 every `send` waits until its value is received
   * @throws TypeError when the capacity is no whole number >= 0
   *
   * @example
   * ```ts
   * const jobs = ctx.channel<Order>(10);
   * const worker = ctx.spawn(jobs.forEach(function* (order) {
   *   yield* ctx.call(charge, order);
   * }));
   * for (const order of orders) yield* jobs.send(order);   // waits while ten are waiting
   * jobs.close();
   * yield* worker;
   * ```
   */
  channel<T = unknown>(capacity?: number): Channel<T>;

  /**
   * Limits a branch in time: gives its value, or a `TimeoutError` when it has not settled by then. When the time is up,
   * the branch is cancelled, and the error comes when the branch has cleaned up. When the branch is first, the timer is
   * cancelled. The time runs from now on, whether or not a fiber waits.
   *
   * @param duration - from now on
   * @param branch - a future, a combinator, or the result of calling a `function*`, which becomes a fiber
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const receipt = yield* ctx.withTimeout('30s', ctx.call(charge, order));
   * ```
   */
  withTimeout<B extends Branch>(duration: Duration, branch: B): Future<BranchValue<B>>;

  /**
   * Runs a block that no cancellation interrupts, neither of the instance nor of a fiber. The work that it schedules
   * and the fibers that it starts are not cancelled either, and a cancelled instance ends only when its blocks have. A
   * waiter of the block gets the block's outcome first. The cancellation comes at the next `yield` after it that would
   * wait. Blocks may nest.
   *
   * Futures from outside that the block waits for are cancelled as usual, and `client.terminateInstance` ends the
   * block.
   *
   * @param body - a `function*`, or the generator that a call of one returned
   * @returns a future of its result; cancelling the future does nothing
   * @throws TypeError when `body` is neither
   *
   * @example
   * ```ts
   * yield* ctx.uncancellable(function* () {
   *   yield* ctx.call(debit, transfer);
   *   yield* ctx.call(credit, transfer);
   * });
   * ```
   */
  uncancellable<T>(body: (() => Generator<Future<any>, T, any>) | Generator<Future<any>, T, any>): Future<T>;

  /**
   * Ends this execution and goes on as the next one of the same instance, with an empty history: for instances that
   * live long. The next execution begins where the function begins, with an input of the type that the orchestration
   * takes. Messages that were not read, the custom status, tags and parent stay. Activities, timers and fibers that
   * have not ended are given up, as when the function returns.
   *
   * Waiting for the future ends the execution there: `finally` blocks run, the code after the `yield` does not. Without
   * a wait the execution ends when the function returns. If the function throws instead, the instance fails.
   *
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when an option is wrong
   *
   * @example
   * ```ts
   * const monitor = defineOrchestration('monitor', function* (ctx, seen: number) {
   *   const found = yield* ctx.call(poll, seen);
   *   if (found.isDone) return found.total;
   *   yield* ctx.sleep('5m');
   *   return yield* ctx.continueAsNew(found.total);
   * });
   * ```
   */
  continueAsNew(...args: InputArguments<I, ContinueAsNewOptions>): Future<never>;

  /** The same with another version, whose input may have another type. */
  continueAsNew(input: unknown, options: ContinueAsNewOptions & { version: string }): Future<never>;

  /**
   * Shows a status to any client that asks for this instance. Synchronous. The status is stored with the turn, and its
   * version goes up by one with each stored change. `undefined` is the same as {@link resetCustomStatus}.
   *
   * @throws PayloadError when the value cannot be stored
   *
   * @example
   * ```ts
   * ctx.setCustomStatus({ step: 'charged', done: 0.5 });
   * ```
   */
  setCustomStatus(value: S): void;

  /** Removes the custom status. Synchronous. */
  resetCustomStatus(): void;

  /**
   * Returns a copy of the custom status that was set last, in a replay too; `undefined` when there is none.
   * Synchronous.
   */
  getCustomStatus<T = S>(): T | undefined;

  /** Values that the instance publishes under names, for clients to read and to watch. */
  readonly state: PublishedState;

  /**
   * Reads a value that another instance publishes with its `ctx.state`: that of its last turn that is stored. The read
   * is an inline activity, so this history records what it found, and a replay finds the same.
   *
   * @param id - the other instance, which may have ended
   * @param name - 1 to 256 characters
   * @returns a future of the value; `undefined` when the instance has no value of that name. It fails with
   *   `InstanceNotFoundError` when there is no instance of that id, with `PayloadError` when the value cannot be read,
   *   and with `ProviderError` when the store has failed for good or in ten attempts
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const progress = yield* ctx.readState<Progress>('order-1', 'progress');
   * ```
   */
  readState<T = unknown>(id: string, name: string): Future<T | undefined>;

  /**
   * Reads all values of another instance, by their names. Together they are one result, which takes at most
   * `limits.payloadBytes`: with more, the future fails with `PayloadError`.
   */
  readState(id: string): Future<ReadonlyMap<string, unknown>>;

  /**
   * Returns a stream of the instance: numbered entries that any client reads from any index on, live. What the
   * orchestration writes is stored with its turn, exactly once. Activities write to the same streams by their own
   * context. Streams go on over `continueAsNew`, and stay until the instance is deleted. Synchronous.
   *
   * @param name - 1 to 256 characters
   * @param options - the entries that stay; all of them by default
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * ctx.stream('log').write({ step: 'charged' });   // client.readStream(ctx.instanceId, 'log')
   * ctx.stream('log').close();
   * ```
   */
  stream(name: string, options?: StreamOptions): OrchestrationStream;

  /** Logs a line at level debug, with the instance beside it. Synchronous; silent while replaying. */
  traceDebug(message: string, fields?: TraceFields): void;

  /** Logs a line at level info. Synchronous; silent while replaying. */
  traceInfo(message: string, fields?: TraceFields): void;

  /** Logs a line at level warn. Synchronous; silent while replaying. */
  traceWarn(message: string, fields?: TraceFields): void;

  /** Logs a line at level error. Synchronous; silent while replaying. */
  traceError(message: string, fields?: TraceFields): void;

  /**
   * Returns the deterministic time, in ms since 1970 as `Date.now()` gives it. It is the time of the last delivery, so
   * it stands still until the next `yield`. Synchronous.
   *
   * @example
   * ```ts
   * const deadline = new Date(ctx.now() + 60_000);
   * ```
   */
  now(): number;

  /** Returns a number in 0..1, the same in every replay. Synchronous. */
  random(): number;

  /** Returns a UUID of version 4, the same in every replay. Synchronous. */
  randomUUID(): string;

  /**
   * Returns true if this execution has a change of its code. Synchronous. A new execution has the change, which is
   * recorded where the execution first asks. An execution that passed this place before the change was deployed does
   * not have it, and stays with the old code until it ends. Asked again, the answer is the same.
   *
   * When no execution is left that runs the old code, delete the question and the old code with it: histories in which
   * the change is recorded fit code that does not ask. Give every change an id of its own, and do not use one again
   * elsewhere.
   *
   * @param id - names the change, 1 to 256 characters
   * @throws TypeError when the id is wrong
   *
   * @example
   * ```ts
   * if (ctx.patched('check-fraud-first')) yield* ctx.call(checkFraud, order);
   * yield* ctx.call(charge, order);
   * ```
   */
  patched(id: string): boolean;
}

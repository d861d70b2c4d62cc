// The context of an orchestration over the scheduler of its fibers.

import { type ActivityDefinition, isActivity } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import {
  type ActivityKey,
  type ActivityOptions,
  checkCallOptions,
  checkInlineOptions,
  type InlineOptions,
  recordedInline,
} from '../activity/activity-options.ts';
import { all, allSettled, any } from '../driver/all.ts';
import type {
  Branch,
  BranchOutcomes,
  BranchValue,
  BranchValues,
  CombineOptions,
  SelectResult,
  SettledSelectResult,
} from '../driver/branch.ts';
import { type Channel, FiberChannel } from '../driver/channel.ts';
import { CheckedEventFuture } from '../driver/checked-event.ts';
import { retriedChild } from '../driver/child-retry.ts';
import {
  CREATE_TIMER,
  CREATE_TIMER_AT,
  type Issued,
  SCHEDULE_ACTIVITY,
  SEND_MESSAGE,
  START_CHILD,
  START_INSTANCE,
  type StartInstance,
} from '../driver/command.ts';
import { Continuation } from '../driver/continuation.ts';
import { type Deferred, DeferredFuture } from '../driver/deferred.ts';
import type { FiberFuture, Future } from '../driver/future.ts';
import { BatchFuture, DrainFuture } from '../driver/gathered.ts';
import { describeValue } from '../driver/generator.ts';
import { MailboxFuture } from '../driver/mailbox.ts';
import { map } from '../driver/map.ts';
import { ActivityFuture, InlineFuture, type OperationFuture, TimerFuture } from '../driver/operation.ts';
import { ChildFuture, SentFuture } from '../driver/other-instances.ts';
import { race, select } from '../driver/race.ts';
import { saga } from '../driver/saga.ts';
import type { FiberScheduler } from '../driver/scheduler.ts';
import { captureSource, type SourceMark } from '../driver/source.ts';
import { getCustomStatus, setCustomStatus } from '../driver/status.ts';
import { withTimeout } from '../driver/time-limit.ts';
import { type Duration, type IsoTime, parseDuration } from '../util/duration.ts';
import { checkName, checkOptions, named, type OptionTable } from '../util/options.ts';
import { DRAINED } from '../values/limits.ts';
import { toPayload } from '../values/payload.ts';
import { parseSync, type StandardSchema } from '../values/schema.ts';
import type { StreamOptions } from '../values/stream-options.ts';
import { admissionOf } from './admission.ts';
import {
  checkBlock,
  checkBody,
  checkChild,
  checkGathered,
  checkInlineFunction,
  checkMap,
  checkStarted,
  timeOf,
} from './call-arguments.ts';
import {
  type ChildOptions,
  DETACHED_OPTIONS,
  type DetachedOptions,
  type InputArguments,
  TYPED_DETACHED_OPTIONS,
  type TypedDetachedOptions,
} from './call-options.ts';
import type { CallableEntity, CalledEntity } from './called-entity.ts';
import { type InputOf, isOrchestration, type OrchestrationDefinition, type OutputOf } from './definition.ts';
import { calledEntity } from './entity-calls.ts';
import { ExecutionContext } from './execution-context.ts';
import { type Block, underLocks } from './lock-block.ts';
import type { Lockable } from './lockable.ts';
import { askedLocks } from './locks.ts';
import { type EventDefinition, mailboxOf, type QueueDefinition, type TypedMailbox } from './messages.ts';
import type { ContinueAsNewOptions, OrchestrationContext } from './orchestration-context.ts';
import type { OrchestrationFacts, OrchestrationHost } from './orchestration-host.ts';
import type { Undo } from './patterns.ts';
import { ExecutionState, type PublishedState } from './published-state.ts';
import { type QueryDefinition, queryHandler, queryOf } from './queries.ts';
import { READ_STATE, type StateRead, StateReadFuture } from './read-state.ts';
import { detachedOptions, receiverStart, SEND_OPTIONS } from './receiver-start.ts';
import type { SendArguments } from './send-options.ts';
import { SentUpdateFuture, UPDATE, type UpdateRequest } from './sent-update.ts';
import { STORE_ACTIVITY_OPTIONS, type StoreActivityFuture } from './store-activity.ts';
import { ExecutionStream, type OrchestrationStream } from './streams.ts';
import type { Token, TokenOptions } from './token-types.ts';
import { TOKEN, TokenFuture, tokenInput, tokenInstance, tokenOrchestration } from './tokens.ts';
import { updateHandler } from './update-handler.ts';
import { type UpdateDefinition, type UpdateHandlerOptions, updateOf } from './updates.ts';

const CONTINUE_OPTIONS: OptionTable = { version: named };

/**
 * The number of open operations up to which the source lines of new ones are kept. A line costs more time and memory
 * than the operation itself.
 */
const SOURCES_MAX = 10_000;

/** Issues each command to the engine at once, and makes the future that its delivery settles. */
export class FiberContext extends ExecutionContext implements OrchestrationContext {
  readonly #scheduler: FiberScheduler;
  readonly #host: OrchestrationHost;
  /** The number of tokens that this execution has made. */
  #tokens = 0;
  readonly state: PublishedState;

  constructor(scheduler: FiberScheduler, facts: OrchestrationFacts, host: OrchestrationHost) {
    super(scheduler, facts);
    this.#scheduler = scheduler;
    this.#host = host;
    this.state = new ExecutionState(scheduler, host);
    scheduler.context = this;
  }

  scheduleActivity<T = unknown>(name: string, input?: unknown, options?: ActivityOptions): Future<T> {
    this.#scheduler.assertRunning('scheduleActivity');
    checkName(name, 'activity name');
    const future = this.#activity<T>(name, input, options);
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  call<A extends ActivityDefinition>(
    activity: A,
    ...args: InputArguments<InputOf<A>, ActivityOptions>
  ): Future<OutputOf<A>> {
    this.#scheduler.assertRunning('call');
    if (!isActivity(activity)) {
      const hint = isOrchestration(activity) ? ', which ctx.callOrchestration takes' : '';
      throw new TypeError(
        `ctx.call takes a definition that defineActivity returned, not ${describeValue(activity)}${hint}`,
      );
    }
    if (activity.input !== undefined) parseSync(activity.input, args[0], 'input', `activity '${activity.name}'`);
    const future = this.#activity<OutputOf<A>>(activity.name, args[0], args[1], activity.options);
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  run<O>(name: string, fn: (ctx: ActivityContext) => O | PromiseLike<O>, options?: InlineOptions): Future<O> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('run');
    checkName(name, 'activity name');
    checkInlineFunction(fn, name);
    const checked = options === undefined ? options : checkInlineOptions(options, `activity '${name}'`);
    const issued = this.#schedule(name, null, recordedInline(checked));
    const future = new InlineFuture<O>(scheduler, issued, name, fn);
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  stream(name: string, options?: StreamOptions): OrchestrationStream {
    this.#scheduler.assertRunning('stream');
    return new ExecutionStream(this.#scheduler, this.#host, name, options);
  }

  readState(id: string, name?: string): Future<any> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('readState');
    checkName(id, 'instance id');
    if (name !== undefined) checkName(name, 'name of the value');
    const read: StateRead = name === undefined ? { id } : { id, name };
    return this.#stored(READ_STATE, read, 'input', (issued) => new StateReadFuture<unknown>(scheduler, issued, id));
  }

  scheduleSubOrchestration<T = unknown>(name: string, input?: unknown, options?: ChildOptions): Future<T> {
    this.#scheduler.assertRunning('scheduleSubOrchestration');
    checkName(name, 'orchestration name');
    const future = this.#child<T>(name, input, options);
    return this.#keepsLineOfChild(future) ? future.askedAt(captureSource()) : future;
  }

  callOrchestration<D extends OrchestrationDefinition>(
    orchestration: D,
    ...args: InputArguments<InputOf<D>, ChildOptions>
  ): Future<OutputOf<D>> {
    this.#scheduler.assertRunning('callOrchestration');
    const [input, options] = args;
    const { name, version } = checkStarted(orchestration, input, 'ctx.callOrchestration');
    const future = this.#child<OutputOf<D>>(name, input, options, version);
    return this.#keepsLineOfChild(future) ? future.askedAt(captureSource()) : future;
  }

  startOrchestration(name: string, id: string, input?: unknown, options?: DetachedOptions): Future<string> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('startOrchestration');
    checkName(name, 'orchestration name');
    checkName(id, 'instance id');
    const checked = checkOptions(options, DETACHED_OPTIONS, `orchestration '${name}'`);
    const issued = this.#startInstance(START_INSTANCE, name, id, this.#payload(input, 'input'), checked);
    const future = new SentFuture(scheduler, issued, id, id, checked?.queue);
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  start<D extends OrchestrationDefinition>(
    orchestration: D,
    ...args: InputArguments<InputOf<D>, TypedDetachedOptions>
  ): Future<string> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('start');
    const [input, given] = args;
    const { name, version } = checkStarted(orchestration, input, 'ctx.start');
    const { id = scheduler.port.randomUuid(), ...options } =
      checkOptions(given, TYPED_DETACHED_OPTIONS, `orchestration '${name}'`) ?? {};
    const issued = this.#startInstance(START_INSTANCE, name, id, this.#payload(input, 'input'), {
      ...options,
      version: options.version ?? version,
    });
    const future = new SentFuture(scheduler, issued, id, id, options.queue);
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  raiseEvent(id: string, event: string | EventDefinition, ...args: SendArguments<unknown>): Future<void> {
    this.#scheduler.assertRunning('raiseEvent');
    const future = this.#send(id, mailboxOf('event', event), args, 'ctx.raiseEvent');
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  enqueueEvent(id: string, queue: string | QueueDefinition, ...args: SendArguments<unknown>): Future<void> {
    this.#scheduler.assertRunning('enqueueEvent');
    const future = this.#send(id, mailboxOf('queue', queue), args, 'ctx.enqueueEvent');
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  scheduleTimer(due: Duration | IsoTime | Date): Future<void> {
    this.#scheduler.assertRunning('scheduleTimer');
    const future = this.#timer(due, 'scheduleTimer');
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  sleep(due: Duration | IsoTime | Date): Future<void> {
    this.#scheduler.assertRunning('sleep');
    const future = this.#timer(due, 'sleep');
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  waitForEvent(event: string | EventDefinition, schema?: StandardSchema): Future<any> {
    this.#scheduler.assertRunning('waitForEvent');
    const mailbox = mailboxOf('event', event, schema);
    return this.#message(mailbox, this.#keepsLines ? captureSource() : undefined);
  }

  dequeueEvent(queue: string | QueueDefinition): Future<any> {
    this.#scheduler.assertRunning('dequeueEvent');
    const mailbox = mailboxOf('queue', queue);
    return this.#message(mailbox, this.#keepsLines ? captureSource() : undefined);
  }

  pollEvent(event: string | EventDefinition, schema?: StandardSchema): Future<any> {
    this.#scheduler.assertRunning('pollEvent');
    const mailbox = mailboxOf('event', event, schema);
    return this.#message(mailbox, this.#keepsLines ? captureSource() : undefined, true);
  }

  tryDequeue(queue: string | QueueDefinition): Future<any> {
    this.#scheduler.assertRunning('tryDequeue');
    const mailbox = mailboxOf('queue', queue);
    return this.#message(mailbox, this.#keepsLines ? captureSource() : undefined, true);
  }

  drainQueue(queue: string | QueueDefinition, max: number = DRAINED): Future<any[]> {
    this.#scheduler.assertRunning('drainQueue');
    const mailbox = mailboxOf('queue', queue);
    checkGathered(max, 'ctx.drainQueue: max');
    return new DrainFuture(this.#scheduler, mailbox, max, this.#keepsLines ? captureSource() : undefined);
  }

  dequeueBatch(queue: string | QueueDefinition, max: number, within: Duration): Future<any[]> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('dequeueBatch');
    const mailbox = mailboxOf('queue', queue);
    checkGathered(max, 'ctx.dequeueBatch: max');
    const timer = this.#timerIn(parseDuration(within, 'ctx.dequeueBatch: the duration'));
    return new BatchFuture(scheduler, mailbox, max, this.#keepsLines ? captureSource() : undefined, timer);
  }

  map(items: unknown, fn: unknown, options?: unknown): FiberFuture<never> {
    this.#scheduler.assertRunning('map');
    return map(this.#scheduler, checkMap(items, fn, options)) as FiberFuture<unknown> as FiberFuture<never>;
  }

  saga<T>(body: (undo: Undo) => Generator<any, T, any>): FiberFuture<T> {
    this.#scheduler.assertRunning('saga');
    checkBody(body, 'saga');
    return saga<T>(this.#scheduler, body);
  }

  all<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<BranchValues<B>> {
    this.#scheduler.assertRunning('all');
    return all(this.#scheduler, branches, options) as unknown as Future<BranchValues<B>>;
  }

  allSettled<const B extends readonly Branch[]>(branches: B): Future<BranchOutcomes<B>> {
    this.#scheduler.assertRunning('allSettled');
    return allSettled(this.#scheduler, branches) as unknown as Future<BranchOutcomes<B>>;
  }

  any<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<BranchValue<B[number]>> {
    this.#scheduler.assertRunning('any');
    return any(this.#scheduler, branches, options) as Future<BranchValue<B[number]>>;
  }

  race(...args: readonly unknown[]): Future<never> {
    this.#scheduler.assertRunning('race');
    return race(this.#scheduler, 'race', args) as Future<unknown> as Future<never>;
  }

  raceSettled(...args: readonly unknown[]): Future<never> {
    this.#scheduler.assertRunning('raceSettled');
    return race(this.#scheduler, 'raceSettled', args) as Future<unknown> as Future<never>;
  }

  select<const B extends Readonly<Record<string, Branch>>>(
    branches: B,
    options?: CombineOptions,
  ): Future<SelectResult<B>> {
    this.#scheduler.assertRunning('select');
    return select(this.#scheduler, 'select', branches, options) as unknown as Future<SelectResult<B>>;
  }

  selectSettled<const B extends Readonly<Record<string, Branch>>>(
    branches: B,
    options?: CombineOptions,
  ): Future<SettledSelectResult<B>> {
    this.#scheduler.assertRunning('selectSettled');
    return select(this.#scheduler, 'selectSettled', branches, options) as unknown as Future<SettledSelectResult<B>>;
  }

  spawn<T>(body: (() => Generator<Future<any>, T, any>) | Generator<Future<any>, T, any>): FiberFuture<T> {
    this.#scheduler.assertRunning('spawn');
    checkBlock(body, 'spawn');
    return this.#scheduler.spawn<T>(body);
  }

  deferred<T = void>(): Deferred<T> {
    this.#scheduler.assertRunning('deferred');
    return new DeferredFuture<T>(this.#scheduler);
  }

  channel<T = unknown>(capacity: number = Number.POSITIVE_INFINITY): Channel<T> {
    this.#scheduler.assertRunning('channel');
    return new FiberChannel<T>(this.#scheduler, capacity, this.#host.sourceStacks);
  }

  withTimeout<B extends Branch>(duration: Duration, branch: B): Future<BranchValue<B>> {
    this.#scheduler.assertRunning('withTimeout');
    const timeoutMs = parseDuration(duration, 'ctx.withTimeout: the duration');
    const source = this.#keepsLines ? captureSource() : undefined;
    return withTimeout(this.#scheduler, timeoutMs, branch, () => this.#timerIn(timeoutMs).askedAt(source)) as Future<
      BranchValue<B>
    >;
  }

  uncancellable<T>(body: (() => Generator<Future<any>, T, any>) | Generator<Future<any>, T, any>): Future<T> {
    this.#scheduler.assertRunning('uncancellable');
    checkBlock(body, 'uncancellable');
    return this.#scheduler.spawnUncancellable<T>(body);
  }

  continueAsNew(input?: unknown, options?: ContinueAsNewOptions): Future<never> {
    this.#scheduler.assertRunning('continueAsNew');
    const { version = null } = checkOptions(options, CONTINUE_OPTIONS, 'ctx.continueAsNew') ?? {};
    return new Continuation(this.#scheduler, this.#payload(input, 'input'), version);
  }

  update(id: string, given: string | UpdateDefinition, input?: unknown): Future<any> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('update');
    checkName(id, 'instance id');
    const { name, input: schema } = updateOf(given);
    if (schema !== undefined) parseSync(schema, input, 'input', `update '${name}'`);
    const request: UpdateRequest = { id, update: name, updateId: scheduler.port.randomUuid(), input };
    const future = (issued: Issued) => new SentUpdateFuture<unknown>(scheduler, issued, request);
    return this.#stored(UPDATE, request, 'update', future);
  }

  entity<H, R>(definition: CallableEntity<H, R>, key: string): CalledEntity<H, R> {
    this.#scheduler.assertRunning('entity');
    return calledEntity(this.#scheduler, this, definition, key, (name, request, future) =>
      this.#stored(name, request, 'call', future),
    ) as CalledEntity<H, R>;
  }

  token<T = unknown>(options?: TokenOptions): Token<T> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('token');
    this.#tokens += 1;
    const input = tokenInput(scheduler.port, this.#tokens, options);
    const [instance, version] = [tokenInstance(input.id) as string, tokenOrchestration.version];
    const issued = this.#startInstance(START_CHILD, TOKEN, instance, this.#payload(input, 'data'), { version });
    const future = new TokenFuture<T>(scheduler, issued, input);
    return this.#keepsLine(future) ? future.askedAt(captureSource()) : future;
  }

  lock<T>(what: Lockable | readonly Lockable[], block: Block<T>): FiberFuture<T> {
    this.#scheduler.assertRunning('lock');
    const locks = askedLocks(what, this.instanceId);
    checkBlock(block, 'lock');
    const fiber = this.#scheduler.spawn<T>(underLocks(this, locks, block));
    fiber.label = `lock ${locks.map(({ id }) => id).join(', ')}`;
    return fiber;
  }

  onUpdate(update: string | UpdateDefinition, handler: unknown, options?: UpdateHandlerOptions): void {
    this.#scheduler.assertRunning('onUpdate');
    const checked = updateOf(update);
    this.#scheduler.asks.handle(checked.name, updateHandler(checked, handler, options));
  }

  onQuery(query: string | QueryDefinition, handler: unknown): void {
    this.#scheduler.assertRunning('onQuery');
    const checked = queryOf(query);
    this.#scheduler.queries.handle(checked.name, queryHandler(checked, handler));
  }

  finishUpdates(): Future<void> {
    this.#scheduler.assertRunning('finishUpdates');
    return this.#scheduler.asks.finish();
  }

  setCustomStatus(value: unknown): void {
    this.#scheduler.assertRunning('setCustomStatus');
    this.#setCustomStatus(this.#payload(value, 'status'));
  }

  resetCustomStatus(): void {
    this.#scheduler.assertRunning('resetCustomStatus');
    this.#setCustomStatus(null);
  }

  getCustomStatus<T = unknown>(): T | undefined {
    this.#scheduler.assertRunning('getCustomStatus');
    return getCustomStatus(this.#scheduler, this.#host.types) as T | undefined;
  }

  #setCustomStatus(text: string | null): void {
    const scheduler = this.#scheduler;
    scheduler.ask((port) => setCustomStatus(scheduler, port, text));
  }

  /**
   * Returns true if the line of the code that asked for an operation is kept. It is shown when the operation fails, or
   * when the code waits elsewhere.
   */
  #keepsLine(future: OperationFuture<unknown>): boolean {
    return this.#keepsLines && !future.succeedsNext;
  }

  /** The same of a child. One with a retry policy has kept the line already. */
  #keepsLineOfChild<T>(future: Future<T>): future is ChildFuture<T> {
    return future instanceof ChildFuture && this.#keepsLine(future);
  }

  /** True if the execution may keep another line of its code: see {@link SOURCES_MAX}. */
  get #keepsLines(): boolean {
    return this.#host.sourceStacks && this.#scheduler.operations.size <= SOURCES_MAX;
  }

  #activity<T>(
    name: string,
    input: unknown,
    options: ActivityOptions | undefined,
    defined?: ActivityOptions<ActivityKey>,
  ): ActivityFuture<T> {
    const scheduler = this.#scheduler;
    const checked = options === undefined ? options : checkCallOptions(options, defined, `activity '${name}'`);
    const payload = this.#payload(input, 'input');
    const recorded = this.#host.recordedOptions({ name, input }, checked, defined);
    return new ActivityFuture<T>(scheduler, this.#schedule(name, payload, recorded), name);
  }

  /** Runs an inline activity of Perdure's own. `path` names its input in errors. */
  #stored<F extends StoreActivityFuture<unknown>>(
    name: string,
    input: object,
    path: string,
    future: (issued: Issued) => F,
  ): F {
    const made = future(this.#schedule(name, this.#payload(input, path), STORE_ACTIVITY_OPTIONS));
    return this.#keepsLine(made) ? made.askedAt(captureSource()) : made;
  }

  #schedule(name: string, input: string | null, options: string | null): Issued {
    return this.#scheduler.issue({ kind: SCHEDULE_ACTIVITY, name, input, options });
  }

  #child<T>(name: string, input: unknown, given: ChildOptions | undefined, version?: string): Future<T> {
    const scheduler = this.#scheduler;
    const { policy, idMax, ...options } = checkChild(given, name);
    const id = options.id ?? this.#childId(idMax);
    const payload = this.#payload(input, 'input');
    const started = { ...options, version: options.version ?? version };
    const again = { ...started, delay: undefined, startAt: undefined };
    const start = (attemptId: string) =>
      new ChildFuture<T>(
        scheduler,
        this.#startInstance(START_CHILD, name, attemptId, payload, attemptId === id ? started : again),
        name,
        attemptId,
        started.queue,
      );
    if (policy === undefined) return start(id);
    const source = this.#keepsLines ? captureSource() : undefined;
    return retriedChild<T>(scheduler, {
      name,
      id,
      policy,
      start: (attemptId) => start(attemptId).askedAt(source),
      sleep: (delayMs) => this.#timerIn(delayMs).askedAt(source),
    });
  }

  /** Returns an id that differs for any two children, and is the same in every replay. */
  #childId(max: number): string {
    const uuid = this.#scheduler.port.randomUuid();
    const below = `${this.instanceId}/${uuid}`;
    return below.length <= max ? below : uuid;
  }

  #startInstance(
    kind: StartInstance['kind'],
    name: string,
    id: string,
    input: string | null,
    options: { [Name in keyof DetachedOptions]: DetachedOptions[Name] | undefined } | undefined,
  ): Issued {
    const { version = null, tags, priority = 0, onConflict = 'error' } = options ?? {};
    const admission = options && admissionOf(options, `orchestration '${name}'`);
    return this.#scheduler.issue({
      kind,
      name,
      id,
      version,
      input,
      tags: tags === undefined ? null : JSON.stringify(tags),
      priority,
      onConflict,
      admission: admission === undefined ? null : JSON.stringify(admission),
      trace: null,
    });
  }

  #send(
    id: string,
    { kind, name, schema }: TypedMailbox,
    [data, options]: SendArguments<unknown>,
    where: string,
  ): SentFuture<void> {
    const scheduler = this.#scheduler;
    checkName(id, 'instance id');
    const start = receiverStart(checkOptions(options, SEND_OPTIONS, where), where);
    if (schema !== undefined) parseSync(schema, data, 'data', `${kind} '${name}'`);
    const payload = this.#payload(data, 'data');
    if (start !== undefined) {
      if (start.definition !== undefined) checkStarted(start.definition, start.input, where);
      // The starts of a turn go before its messages, in the same commit.
      const input = this.#payload(start.input, 'input');
      const started = this.#startInstance(START_INSTANCE, start.name, id, input, detachedOptions(start));
      new SentFuture(scheduler, started, id, id, start.queue);
    }
    const issued = scheduler.issue({ kind: SEND_MESSAGE, receiver: id, mailbox: { kind, name }, payload });
    return new SentFuture<void>(scheduler, issued, id, undefined, start?.queue);
  }

  #message(mailbox: TypedMailbox, source: SourceMark | undefined, isPoll = false): Future<unknown> {
    const { schema } = mailbox;
    return schema === undefined
      ? new MailboxFuture(this.#scheduler, mailbox, source, isPoll)
      : new CheckedEventFuture(this.#scheduler, mailbox, schema, source, isPoll);
  }

  #payload(value: unknown, path: string): string | null {
    return toPayload(value, path, this.#host.limits, this.#host.types);
  }

  #timer(due: unknown, method: string): TimerFuture {
    const scheduler = this.#scheduler;
    const at = timeOf(due, method);
    if (at === undefined) return this.#timerIn(parseDuration(due, `ctx.${method}: the duration`));
    return new TimerFuture(scheduler, scheduler.issue({ kind: CREATE_TIMER_AT, atMs: at }));
  }

  #timerIn(delayMs: number): TimerFuture {
    const scheduler = this.#scheduler;
    return new TimerFuture(scheduler, scheduler.issue({ kind: CREATE_TIMER, delayMs }));
  }
}

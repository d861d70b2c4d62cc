// The runtime of a test: a real one, on a store in memory, with a clock of its own.

import { type ActivityDefinition, type ActivityFunction, defineActivity, isActivity } from '../activity/activity.ts';
import type { ActivityKey, ActivityOptions } from '../activity/activity-options.ts';
import type { NativeStore, NativeTestStore } from '../binding/native-classes.ts';
import { createTestStore } from '../binding/test-store.ts';
import { Client } from '../client/client.ts';
import type { TypedStartOptions } from '../client/client-options.ts';
import type { InstanceHandle } from '../client/handle.ts';
import { NotRegisteredError, RuntimeStateError } from '../errors/errors.ts';
import type { InputArguments } from '../orchestration/call-options.ts';
import {
  defineOrchestration,
  isOrchestration,
  type OrchestrationDefinition,
  type OrchestrationFunction,
  type OrchestrationGenerator,
  type OrchestrationOptions,
} from '../orchestration/definition.ts';
import type { OrchestrationContext } from '../orchestration/orchestration-context.ts';
import type { RuntimeEvents } from '../runtime/main-host.ts';
import { Runtime } from '../runtime/runtime.ts';
import { RUNTIME_OPTIONS, type RuntimeOptions } from '../runtime/runtime-options.ts';
import { isSchedule, type ScheduleDefinition } from '../schedules/schedule.ts';
import { Provider, StorePort } from '../store/providers.ts';
import { abortSignal, untilAborted } from '../util/abort.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkName, checkOptions, duration, type OptionTable, oneOf, time, timeOf, whole } from '../util/options.ts';
import { show } from '../util/show.ts';
import { DEFAULT_LIMITS, limitsOver, type RuntimeLimits } from '../values/limits.ts';
import type { SchemaInput, SchemaOutput, StandardSchema } from '../values/schema.ts';
import { type Codec, checkSyncCodec, StoredTexts } from '../values/stored-text.ts';
import { checkTypes, TypeRegistry, type ValueTypes } from '../values/value-types.ts';
import { RuntimeDoubles } from './runtime-doubles.ts';
import { StuckError, WaitExplanation } from './stuck-error.ts';
import { type ActivityCall, type Hang, TestActivities } from './test-activities.ts';
import { TestSchedules } from './test-schedules.ts';
import { TestTime } from './test-time.ts';

/** Options of a {@link Runtime} that make a difference in a test. */
type TestedOption =
  | 'activityConcurrency'
  | 'queues'
  | 'cachedInstancesMax'
  | 'sourceStacks'
  | 'determinism'
  | 'limits'
  | 'logger'
  | 'logLevel';

/**
 * Options of {@link TestRuntime.create}: its own, and some of a {@link Runtime} and of a provider, with the same
 * meaning. With `cachedInstancesMax: 0` each turn begins with a replay, which finds code that does not behave the same
 * again. The default of `logLevel` is `'error'` here.
 */
export interface TestRuntimeOptions extends Pick<RuntimeOptions, TestedOption> {
  /** Codec, as of a provider. Default: none. */
  codec?: Codec;
  /** Classes whose instances are stored: the same as the provider's option `types`. Default: none. */
  types?: ValueTypes;
  /**
   * Time of the clock at first: a `Date` or ISO text. Default `'2030-01-01T00:00:00Z'`, so that each run is the same.
   */
  now?: Date | string;
  /**
   * `'skips'` (default): while an instance is awaited and only later timers can make it go on, the clock is set to the
   * next one that is due. `'stands'`: only {@link TestRuntime.advance} and {@link TestRuntime.advanceTo} move it.
   */
  clock?: 'skips' | 'stands';
  /** Seed of `ctx.random()` and `ctx.randomUUID()`. Default 1. */
  seed?: number;
  /** Time until a wait that cannot end rejects, in real time. Default 1 s. */
  patience?: Duration;
}

const { activityConcurrency, queues, cachedInstancesMax, sourceStacks, determinism, limits, logger, logLevel } =
  RUNTIME_OPTIONS;

const OPTIONS = {
  // A clock that stands cannot wait for a promise of the codec.
  codec: checkSyncCodec,
  types: checkTypes,
  ...{ activityConcurrency, queues, cachedInstancesMax, sourceStacks, determinism, limits, logger, logLevel },
  now: time,
  clock: oneOf('skips', 'stands'),
  seed: whole(0),
  patience: duration(1),
} satisfies OptionTable;

/** Options of {@link TestRuntime.advance}, {@link TestRuntime.advanceTo} and {@link TestRuntime.settled}. */
export interface TestWaitOptions {
  /**
   * When aborted, ends the wait at once: the call rejects with the signal's reason, and the clock stands where it is.
   * The instances and activities go on. Default: none.
   *
   * @example
   * ```ts
   * it('is late after three days', async ({ signal }) => test.advance('3d', { signal }));   // the signal of Vitest
   * ```
   */
  signal?: AbortSignal;
}

const WAIT_OPTIONS = { signal: abortSignal } satisfies OptionTable;

const BEGIN = '2030-01-01T00:00:00Z';

class TestProvider extends Provider {
  constructor(port: StorePort) {
    super(port);
  }
}

/** An activity, named by its definition or by its name. */
export type ActivityName<I = any, O = any> = string | ActivityDefinition<I, O>;

/**
 * A runtime for tests: the engine and the driver that run in production, on a store in memory, with a clock of its own.
 * It uses no thread, no process and no real time, so there may be hundreds in one process, and a test of 30 days takes
 * milliseconds.
 *
 * Everything that can go on does so before the clock moves. The clock stands while an activity is at work, and while no
 * instance is awaited: a test has all the time it needs to send messages to its instances. Timeouts of activities and
 * of a client's waits follow this clock, too.
 *
 * @example
 * ```ts
 * await using test = await TestRuntime.create();
 * test.register(order, charge);
 * test.activity(charge, async (ctx, order) => ({ id: `receipt of ${order.item}` }));
 * const handle = await test.start(order, { item: 'tea' });
 * expect(await handle.result()).toBe('late');   // three days later
 * ```
 */
export class TestRuntime {
  /** A client of the test runtime's store. */
  readonly client: Client;
  readonly #native: NativeTestStore;
  readonly #store: NativeStore;
  readonly #port: StorePort;
  readonly #runtime: Runtime;
  readonly #time: TestTime;
  readonly #activities: TestActivities;
  readonly #schedules: TestSchedules;
  readonly #doubles: RuntimeDoubles;
  readonly #limits: RuntimeLimits | undefined;
  readonly #isGuarded: boolean;
  /** Number of instances started without an id, by orchestration. */
  readonly #started = new Map<string, number>();
  #closing: Promise<void> | undefined;

  private constructor(options: TestRuntimeOptions) {
    const {
      now = BEGIN,
      clock = 'skips',
      seed = 1,
      patience = '1s',
      codec,
      types,
      logLevel = 'error',
      ...others
    } = options;
    this.#limits = others.limits;
    this.#isGuarded = others.determinism !== 'off';
    this.#native = createTestStore(timeOf(now, 'now'), seed);
    this.#store = this.#native.store();
    this.#time = new TestTime(
      this.#native,
      {
        settle: () => this.#native.settle(this.#store, this.#parts.native),
        nextDueMs: () => this.#native.nextDueMs(this.#parts.native),
        isBusy: () => this.#atWork().length > 0,
        isAwaited: () => this.#doubles.waits().length > 0,
        stuck: () => void this.#stuck(),
      },
      clock === 'skips',
      parseDuration(patience, 'patience'),
    );
    this.#activities = new TestActivities(() => this.#time.nowMs);
    this.#schedules = new TestSchedules(this.#time, () => ({ declared: this.#parts.schedules, port: this.#port }));
    this.#doubles = new RuntimeDoubles(
      this.#time,
      this.#activities,
      this.#schedules,
      (request) => this.#port.isOpen(request),
      () => this.#native.crash(this.#parts.native),
    );
    const texts = new StoredTexts(codec).withTypes(new TypeRegistry(types));
    this.#port = new StorePort(this.#store, texts, null, this.#doubles);
    const provider = new TestProvider(this.#port);
    this.client = new Client(provider);
    this.#runtime = new Runtime(provider, { ...others, logLevel, workerName: 'test' });
  }

  /**
   * Creates a test runtime and starts it.
   *
   * @throws TypeError when an option is wrong
   *
   * @example
   * ```ts
   * await using test = await TestRuntime.create({ now: '2031-03-30T00:59:00Z', clock: 'stands' });
   * ```
   */
  static async create(options?: TestRuntimeOptions): Promise<TestRuntime> {
    const test = new TestRuntime(checkOptions(options, OPTIONS, 'TestRuntime.create') ?? {});
    await test.#runtime.start();
    return test;
  }

  /** Stops the runtime and drops everything. The signal of each running activity is aborted. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // ---- what runs ----

  /**
   * Registers results of `defineActivity`, `defineOrchestration` and `defineSchedule`, as `runtime.register` does. A
   * schedule is set at the present time of the clock, before all that the test requests from then on. If that fails,
   * the next call that the test awaits rejects with the reason, at the latest {@link close}.
   *
   * @throws RuntimeStateError when one is already registered
   * @throws TypeError when one is no definition
   */
  register(...definitions: readonly (ActivityDefinition | OrchestrationDefinition | ScheduleDefinition)[]): this {
    for (const definition of definitions) {
      if (isSchedule(definition)) this.#schedules.add(definition);
      else this.#runtime.register(definition);
    }
    this.#time.stir();
    return this;
  }

  /**
   * Registers an activity, as `runtime.registerActivity` does.
   *
   * @throws RuntimeStateError, TypeError as that does
   */
  registerActivity<S extends StandardSchema, O = any>(
    name: string,
    fn: ActivityFunction<SchemaOutput<S>, O>,
    options: ActivityOptions<ActivityKey<SchemaInput<S>>> & { input: S },
  ): this;
  registerActivity<I = any, O = any>(
    name: string,
    fn: ActivityFunction<I, O>,
    options?: ActivityOptions<ActivityKey<NoInfer<I>>>,
  ): this;
  registerActivity(name: string, fn: ActivityFunction, options?: ActivityOptions<ActivityKey>): this {
    return this.register(defineActivity(name, fn, options));
  }

  /**
   * Registers an orchestration, as `runtime.registerOrchestration` does.
   *
   * @throws RuntimeStateError, TypeError as that does
   */
  registerOrchestration<S extends StandardSchema, O = any>(
    name: string,
    fn: (ctx: OrchestrationContext<SchemaInput<S>>, input: SchemaOutput<S>) => OrchestrationGenerator<O>,
    options: OrchestrationOptions & { input: S },
  ): this;
  registerOrchestration<I = any, O = any>(
    name: string,
    fn: OrchestrationFunction<I, O>,
    options?: OrchestrationOptions,
  ): this;
  registerOrchestration(name: string, fn: OrchestrationFunction, options?: OrchestrationOptions): this {
    return this.register(defineOrchestration(name, fn, options));
  }

  /**
   * Starts an instance of an orchestration that is registered here, as `client.start` does.
   *
   * @param args - its input and options; the id is by default the name of the orchestration and a number, from 1
   * @throws NotRegisteredError when it is not registered
   * @throws InstanceExistsError, PayloadError, TypeError as `client.start` does
   */
  async start<I, O, S>(
    definition: OrchestrationDefinition<I, O, S>,
    ...args: InputArguments<NoInfer<I>, TypedStartOptions>
  ): Promise<InstanceHandle<O, S, I>> {
    if (!isOrchestration(definition))
      throw new TypeError(`test.start takes a definition that defineOrchestration returned, not ${show(definition)}`);
    const { name, version } = definition;
    if (this.#parts.registry.orchestration(name, version) === undefined) {
      throw new NotRegisteredError(
        `test.start: orchestration '${name}' ${version} is not registered; call test.register with it first`,
        {
          kind: 'orchestration',
          missing: name,
          version,
        },
      );
    }
    const [input, options] = args as [I, TypedStartOptions?];
    return this.client.start(
      definition,
      ...([input, { ...options, id: options?.id ?? this.#newId(name) }] as typeof args),
    );
  }

  /** Adds a listener for events, as `runtime.on` does. */
  on<E extends keyof RuntimeEvents>(event: E, listener: RuntimeEvents[E]): () => void {
    return this.#runtime.on(event, listener);
  }

  // ---- time ----

  /** Returns the time of the clock. */
  now(): Date {
    return new Date(this.#time.nowMs);
  }

  /**
   * Sets the clock forward. Timers that are due on the way fire in order, each at its time, and their effects are over
   * before the next one; so is all work in progress. Resolves when the clock is there.
   *
   * @throws StuckError when an activity is at work for longer than `patience`: the clock stands meanwhile
   * @throws RuntimeStateError when the clock is being advanced already, or this is closed
   * @throws TypeError when it is no duration
   *
   * @example
   * ```ts
   * await test.advance('3d');
   * ```
   */
  async advance(by: Duration, options?: TestWaitOptions): Promise<void> {
    const ms = parseDuration(by, 'test.advance: the duration');
    const checked = checkOptions(options, WAIT_OPTIONS, 'test.advance');
    return this.#advance(this.#time.nowMs + ms, checked);
  }

  /**
   * Sets the clock forward to a time, as {@link advance} does.
   *
   * @throws TypeError when it is no time, or one in the past
   * @throws StuckError, RuntimeStateError as {@link advance} does
   */
  async advanceTo(to: Date | string, options?: TestWaitOptions): Promise<void> {
    const atMs = timeOf(to, 'test.advanceTo: the time');
    const checked = checkOptions(options, WAIT_OPTIONS, 'test.advanceTo');
    if (atMs < this.#time.nowMs) {
      throw new TypeError(
        `test.advanceTo: the clock cannot be set back from ${this.now().toISOString()} ` +
          `to ${new Date(atMs).toISOString()}`,
      );
    }
    return this.#advance(atMs, checked);
  }

  /**
   * Lets everything go on that can without the clock: all turns, and all activities that do not hang. Resolves when no
   * work is in progress.
   *
   * @throws StuckError when an activity is at work for longer than `patience`
   * @throws RuntimeStateError when this is closed
   */
  async settled(options?: TestWaitOptions): Promise<void> {
    const { signal } = checkOptions(options, WAIT_OPTIONS, 'test.settled') ?? {};
    this.#checkOpen();
    this.#schedules.check();
    return untilAborted(signal, () => this.#time.rest());
  }

  // ---- activities ----

  /**
   * Replaces an activity by this function from now on, also an inline one (`ctx.run`). An activity that is not
   * registered is registered by this call.
   *
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * test.activity(charge, async (ctx, order) => ({ id: 'r1' }));
   * test.activity('lookup', () => 42);
   * ```
   */
  activity<I, O>(activity: ActivityDefinition<I, O>, fn: ActivityFunction<I, NoInfer<O>>): this;
  activity<I = any, O = any>(name: string, fn: ActivityFunction<I, O>): this;
  activity(activity: ActivityName, fn: ActivityFunction): this {
    const name = nameOf(activity, 'test.activity');
    if (typeof fn !== 'function')
      throw new TypeError(`test.activity: the replacement of '${name}' must be a function, got ${show(fn)}`);
    this.#activities.replace(name, fn);
    if (this.#parts.registry.activityFunction(name) === undefined) {
      this.register(isActivity(activity) ? activity : defineActivity(name, fn));
    }
    return this;
  }

  /**
   * Makes the next attempts of an activity fail, in any instance. They are retried as the activity's options say,
   * unless the error is a `NonRetryableError`.
   *
   * @param options - `times`: how many attempts. Default 1
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * test.failNext(charge, new Error('the bank is down'), { times: 2 });
   * ```
   */
  failNext(activity: ActivityName, error: unknown, options?: { times?: number }): this {
    const name = nameOf(activity, 'test.failNext');
    const { times = 1 } = checkOptions(options, { times: whole(1) }, 'test.failNext') ?? {};
    this.#activities.failNext(name, error, times);
    return this;
  }

  /**
   * Makes the attempts of an activity hang from now on, until they are told how they end. The clock does not stand for
   * them: their timeouts pass.
   *
   * @throws TypeError when it is neither a name nor a definition
   */
  hang<O = any>(activity: ActivityName<any, O>): Hang<O> {
    return this.#activities.hang(nameOf(activity, 'test.hang'));
  }

  /**
   * Returns the attempts that were called so far, in order: of one activity, or of all.
   *
   * @throws TypeError when it is neither a name nor a definition
   *
   * @example
   * ```ts
   * expect(test.calls(charge).map(({ attempt, input }) => [attempt, input])).toEqual([[1, { item: 'tea' }]]);
   * ```
   */
  calls<I = any, O = any>(activity?: ActivityName<I, O>): ActivityCall<I, O>[] {
    if (activity === undefined) return [...this.#activities.calls];
    const name = nameOf(activity, 'test.calls');
    return this.#activities.calls.filter((call) => call.activity === name);
  }

  // ---- crashes ----

  /**
   * Crashes the worker now, as if its process were killed, and another worker takes its place. Stored state stays; all
   * other state is lost, and so are the activities that run. Their signal is aborted, which code of a killed process
   * would not live to see.
   */
  crash(): void {
    this.#checkOpen();
    this.#native.crash(this.#parts.native);
    this.#time.stir();
  }

  /**
   * Crashes the worker, as {@link crash} does, as soon as an event of an instance is stored, and before the event has
   * any effect; at once if it is stored already. Only the last requested crash is pending. Events that are stored
   * together are lost or kept together.
   *
   * @param eventId - its number within the execution, from 1
   * @param executionId - from 1. Default 1
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * test.crashAfter('order-1', 4);
   * const handle = await test.start(order, { item: 'tea' }, { id: 'order-1' });
   * ```
   */
  crashAfter(instanceId: string, eventId: number, executionId = 1): this {
    checkName(instanceId, 'instance id');
    whole(1)(eventId, 'test.crashAfter: the eventId');
    whole(1)(executionId, 'test.crashAfter: the executionId');
    this.#checkOpen();
    this.#native.crashAfter(this.#parts.native, instanceId, executionId, eventId);
    this.#time.stir();
    return this;
  }

  /**
   * Crashes the worker, as {@link crash} does, when an attempt of an activity has ended and before its result is
   * stored: the attempt has done its work, and the activity will be called again.
   *
   * @param nth - which of its attempts, of those that end from now on. Default 1
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * test.crashBeforeResult(charge);
   * const handle = await test.start(order, { item: 'tea' });
   * await handle.result();
   * expect(test.calls(charge)).toHaveLength(2);
   * ```
   */
  crashBeforeResult(activity: ActivityName, nth = 1): this {
    const name = nameOf(activity, 'test.crashBeforeResult');
    whole(1)(nth, 'test.crashBeforeResult: nth');
    this.#checkOpen();
    this.#activities.loseResult(name, nth);
    return this;
  }

  /** True while a requested crash is pending. */
  get isCrashPending(): boolean {
    return this.#native.isCrashPlanned() || this.#activities.losesResult;
  }

  get #parts(): ReturnType<typeof Runtime.partsOf> {
    return Runtime.partsOf(this.#runtime);
  }

  #newId(name: string): string {
    const number = (this.#started.get(name) ?? 0) + 1;
    this.#started.set(name, number);
    return `${name}-${number}`;
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new RuntimeStateError('the test runtime is closed');
  }

  async #advance(toMs: number, { signal }: TestWaitOptions = {}): Promise<void> {
    this.#checkOpen();
    this.#schedules.check();
    if (this.#time.isAdvancing)
      throw new RuntimeStateError('the clock is already being advanced: await test.advance before the next call');
    await untilAborted(signal, () => this.#time.advance(toMs));
  }

  #atWork(): ActivityCall[] {
    const waiting = new Set(this.#doubles.waits().map(({ activity }) => activity));
    return this.#activities.atWork((context) => waiting.has(context));
  }

  /**
   * Rejects the waits that cannot end, with an explanation. Called when all is at rest, or when activities stay at
   * work.
   */
  async #stuck(): Promise<void> {
    const at = this.now().toISOString();
    const atWork = this.#atWork();
    if (atWork.length > 0) {
      const who = atWork.map(
        ({ activity, instanceId, attempt }) =>
          `\n  attempt ${attempt} of activity '${activity}' of instance '${instanceId}' is running`,
      );
      const hint = 'use test.hang for an activity that is to take time on this clock';
      this.#time.giveUp(new StuckError(`the clock stands at ${at} while activities run; ${hint}:${who.join('')}`));
      return;
    }
    const waits = this.#doubles.waits();
    const due = this.#time.nextDueMs;
    const what =
      due === null
        ? 'and no timer is due'
        : `and the next timer is due at ${new Date(due).toISOString()} (see test.advance)`;
    const host = {
      orchestration: (name: string, version: string) => this.#parts.registry.orchestration(name, version),
      known: [],
      limits: limitsOver(this.#limits, DEFAULT_LIMITS),
      texts: this.#port.texts.ofExports,
      isGuarded: this.#isGuarded,
    };
    const explanation = new WaitExplanation(this.client, host, this.#activities.calls);
    const why = await this.#schedules
      .pass(() => explanation.of(waits.map(({ instanceId }) => instanceId)))
      .catch((error: unknown) => `\n  the waits of the instances cannot be read: ${String(error)}`);
    // Work has begun meanwhile.
    if (this.#time.nextDueMs !== due || this.#atWork().length > 0) return;
    const error = (): StuckError => new StuckError(`no instance makes progress at ${at}, ${what}:${why}`);
    for (const { request } of waits) this.#port.refuse(request, error());
  }

  async #close(): Promise<void> {
    this.#schedules.end();
    await this.#runtime.shutdown(0);
    await this.#port.close();
    this.#time.end(new RuntimeStateError('the test runtime was closed'));
    this.#schedules.check();
  }
}

function nameOf(activity: unknown, where: string): string {
  if (isActivity(activity)) return activity.name;
  if (typeof activity !== 'string')
    throw new TypeError(
      `${where} takes the name of an activity or a definition that defineActivity returned, got ${show(activity)}`,
    );
  checkName(activity, 'activity name');
  return activity;
}

// The runtime: registers code, runs it on a lane of this thread, and stops in good order.

import { performance } from 'node:perf_hooks';
import { isDeepStrictEqual } from 'node:util';

import { type ActivityDefinition, type ActivityFunction, defineActivity, isActivity } from '../activity/activity.ts';
import type { ActivityKey, ActivityOptions } from '../activity/activity-options.ts';
import { acquireRejections, releaseRejections } from '../activity/rejections.ts';
import type { NativeMapSizes, NativeRuntime } from '../binding/native-classes.ts';
import { nativeError } from '../binding/native-error.ts';
import { createRuntime, type NativeRuntimeOptions } from '../binding/runtime.ts';
import { Client } from '../client/client.ts';
import { declaredQueues, Queues, type QueuesToSet } from '../client/queues.ts';
import { RuntimeStateError } from '../errors/errors.ts';
import type { TraceFields } from '../logging/fields.ts';
import { isLogged } from '../logging/logger.ts';
import {
  defineOrchestration,
  isOrchestration,
  type OrchestrationDefinition,
  type OrchestrationFunction,
  type OrchestrationGenerator,
  type OrchestrationOptions,
} from '../orchestration/definition.ts';
import { acquireGuard, releaseGuard } from '../orchestration/determinism.ts';
import type { OrchestrationContext } from '../orchestration/orchestration-context.ts';
import { queryOrchestration } from '../orchestration/query-code.ts';
import { isSchedule, type ScheduleDefinition } from '../schedules/schedule.ts';
import { Provider, type StorePort, shownToCaller } from '../store/providers.ts';
import type { LaneMetrics, RuntimeMetrics } from '../tracing/metrics.ts';
import { markCopy } from '../util/copy.ts';
import { type Duration, parseDuration, TIMER_MAX_MS } from '../util/duration.ts';
import { checkOptions } from '../util/options.ts';
import { show } from '../util/show.ts';
import { DEFAULT_LIMITS, limitsOver } from '../values/limits.ts';
import { DEFAULT_QUEUE } from '../values/queue.ts';
import type { SchemaInput, SchemaOutput, StandardSchema } from '../values/schema.ts';
import { BusyShares, type MeasuredThread } from './busy-shares.ts';
import { DeclaredSchedules } from './declared-schedules.ts';
import { Lane } from './lane.ts';
import { MainHost, type RuntimeEvents } from './main-host.ts';
import { loadModules, specifiersOf } from './modules.ts';
import { Registry } from './registry.ts';
import {
  type KeepLogs,
  RUNTIME_OPTIONS,
  type RuntimeOptions,
  type RuntimeStartOptions,
  SESSION_IDLE,
  SESSIONS_MAX,
  START_OPTIONS,
  WORKER_NAME,
} from './runtime-options.ts';
import { StuckWork } from './stuck-work.ts';
import { Threads } from './threads.ts';

// Captured at import: a test's fake timers must not keep a runtime from stopping.
const later = setImmediate;

/** Heartbeats that the runtime sends within the time of one lease, the same as in the addon. */
const HEARTBEATS_A_LEASE = 3;

type State = 'stopped' | 'starting' | 'started' | 'stopping';

/**
 * Runs orchestrations and activities in this process. Code that is registered with a runtime belongs to it alone;
 * several runtimes of a process share nothing.
 *
 * @example
 * ```ts
 * const runtime = new Runtime(provider, { activityConcurrency: 20 });
 * runtime.registerActivity('charge', async (ctx, order) => pay(order, { signal: ctx.signal }));
 * runtime.registerOrchestration('order', function* (ctx, order) {
 *   return yield ctx.scheduleActivity('charge', order);
 * });
 * await runtime.start();
 * // …
 * await runtime.shutdown('5s');
 * ```
 */
export class Runtime {
  readonly #port: StorePort;
  readonly #options: RuntimeOptions;
  readonly #registry = new Registry();
  readonly #host: MainHost;
  readonly #schedules: DeclaredSchedules;
  /** The queues of activities that the runtime serves. */
  #queues: readonly string[] | 'any';
  #native: NativeRuntime;
  #lane: Lane | null = null;
  #threads: Threads | null = null;
  #busyShares: BusyShares | null = null;
  #stuckWork: StuckWork | null = null;
  /** The definitions that every thread has; `null` until the modules are loaded. */
  #shared: readonly (ActivityDefinition | OrchestrationDefinition)[] | null = null;
  #idle = performance.eventLoopUtilization();
  #state: State = 'stopped';
  #starting: Promise<void> | null = null;
  #stopping: Promise<void> | null = null;
  #holdsGuard = false;
  #holdsRejections = false;

  /** @throws TypeError when an argument is wrong */
  constructor(provider: Provider, options?: RuntimeOptions) {
    this.#port = Provider.portOf(provider, 'new Runtime');
    this.#options = checkOptions(options, RUNTIME_OPTIONS, 'new Runtime') ?? {};
    const { threads = 0, modules = [], limits, keepLogs } = this.#options;
    if (threads > 0 && modules.length === 0) {
      throw new TypeError(
        'new Runtime: the option threads needs the option modules, which defines the code that the threads run',
      );
    }
    if (keepLogs !== undefined && this.#port.texts.hasCodec) {
      throw new TypeError(
        'new Runtime: the option keepLogs needs a provider without a codec: the lines would be stored as they are',
      );
    }
    this.#port.limits = limitsOver(limits, this.#port.limits);
    this.#host = new MainHost(
      this.#registry,
      clientOf(provider, this.#options),
      this.#port.texts,
      this.#options,
      this.#port.testDoubles,
    );
    this.#schedules = new DeclaredSchedules(this.#host, this.#options.workerName ?? WORKER_NAME);
    this.#port.queryHosts.unshift(this.#host);
    this.#queues = this.#options.queues ?? [DEFAULT_QUEUE];
    this.#native = this.#createNative();
  }

  /**
   * Registers an activity, before or after `start`.
   *
   * @param options - defaults for all calls, and `input`, a schema: see {@link defineActivity}
   * @throws RuntimeStateError when the name is already registered
   * @throws TypeError when an argument is wrong
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
   * Registers an orchestration, before or after `start`. Several versions of one name can be registered.
   *
   * Instances of this name and version that are Suspended with a `NondeterminismError` resume by themselves if the text
   * of `fn` differs from the text that did not match their history. Only the text of `fn` is compared, not the
   * functions that it calls. This happens once: when the runtime starts, or when the orchestration is registered with a
   * started runtime. With the same text they wait for {@link Client.resume}. While workers with different code for one
   * name and version run side by side, any of them may take such an instance and suspend it again: give changed code
   * another version.
   *
   * @param options - its `version`, its `cancelGrace` and `onEnd`, and `input`, a schema: see
   *   {@link defineOrchestration}
   * @throws RuntimeStateError when the name is already registered in this version
   * @throws TypeError when an argument is wrong
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
   * Registers definitions made by `defineActivity`, `defineOrchestration` and `defineSchedule`, before or after
   * `start`. A schedule must be registered before.
   *
   * @throws RuntimeStateError when one is already registered, or a schedule comes after `start`; those before it are
   *   registered then
   * @throws TypeError when one is no definition
   */
  register(...definitions: readonly (ActivityDefinition | OrchestrationDefinition | ScheduleDefinition)[]): this {
    for (const definition of definitions) {
      if (isActivity(definition)) {
        this.#registry.addActivity(definition);
        this.#registerNative('activity', definition.name, '', '');
      } else if (isOrchestration(definition)) {
        this.#addOrchestration(definition);
        this.#addOrchestration(queryOrchestration(definition));
      } else if (isSchedule(definition)) {
        if (this.#state !== 'stopped')
          throw new RuntimeStateError(`schedule '${definition.id}' must be registered before the runtime is started`);
        this.#schedules.add(definition);
      } else {
        throw new TypeError(
          'runtime.register takes definitions that defineActivity, defineOrchestration and defineSchedule returned, ' +
            `not ${show(definition)}`,
        );
      }
    }
    return this;
  }

  /**
   * Starts the runtime. Resolves when this worker is entered in the store and its schedules are set. The process stays
   * alive until `shutdown`.
   *
   * @param options - `queues`: limits of queues, which are set before the runtime looks for work
   * @throws RuntimeStateError when it is started already, the provider is closed, or a module cannot be loaded
   * @throws ProviderError when the store refuses
   * @throws TypeError when an option is wrong
   *
   * @example
   * ```ts
   * await runtime.start({ queues: { emails: { concurrency: 20 } } });
   * ```
   */
  async start(options?: RuntimeStartOptions): Promise<void> {
    const { queues = {} } = checkOptions(options, START_OPTIONS, 'runtime.start') ?? {};
    const settings = declaredQueues(queues, 'runtime.start: queues');
    if (this.#state !== 'stopped') {
      const how = { starting: 'being started', started: 'started', stopping: 'being shut down' }[this.#state];
      throw new RuntimeStateError(`the runtime cannot be started: it is ${how}`);
    }
    this.#state = 'starting';
    this.#starting = this.#start(settings);
    await this.#starting;
  }

  /**
   * Stops taking work, lets running turns and activities finish, and hands over the rest. Resolves as soon as nothing
   * runs any more. Work that still runs at the deadline is aborted and will run again elsewhere. A stopped runtime can
   * be started again.
   *
   * @param timeout - how long to wait for running work. Default 5 s
   * @throws TypeError when the timeout is no duration
   */
  async shutdown(timeout: Duration = '5s'): Promise<void> {
    const timeoutMs = parseDuration(timeout, 'runtime.shutdown: timeout');
    this.#host.forgetReplays();
    if (this.#state === 'stopped') return;
    this.#stopping ??= this.#shutdown(timeoutMs).finally(() => {
      this.#stopping = null;
    });
    await this.#stopping;
  }

  /** The same as {@link shutdown} with its default timeout. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.shutdown();
  }

  /**
   * Returns counters, histograms and gauges since the last start. `perdure/prometheus` writes them as Prometheus reads
   * them.
   *
   * @example
   * ```ts
   * const { started, ended, stepLatency } = runtime.metrics();
   * console.log(`${started} started, ${ended} ended, ${stepLatency.sumMs / stepLatency.count} ms a step`);
   * ```
   */
  metrics(): RuntimeMetrics {
    try {
      const metrics = JSON.parse(this.#native.metrics()) as Omit<RuntimeMetrics, 'lanes'> & {
        lanes: Omit<LaneMetrics, 'busyShare'>[];
      };
      const busyShare = (lane: number): number =>
        lane === 0
          ? performance.eventLoopUtilization(this.#idle).utilization
          : (this.#threads?.measured(lane)?.eventLoopUtilization().utilization ?? 0);
      return { ...metrics, lanes: metrics.lanes.map((lane, i) => ({ ...lane, busyShare: busyShare(i) })) };
    } catch (error) {
      throw nativeError(error);
    }
  }

  /**
   * Adds a listener, which is called until the returned function is called. A listener that throws is reported in the
   * log.
   *
   * @throws TypeError when there is no such event
   *
   * @example
   * ```ts
   * const off = runtime.on('instance', ({ instanceId, status }) => console.log(instanceId, status));
   * ```
   */
  on<E extends keyof RuntimeEvents>(event: E, listener: RuntimeEvents[E]): () => void {
    const off = this.#host.on(event, listener);
    this.#native.reportEnds(this.#host.hears('instance'));
    return () => {
      off();
      this.#native.reportEnds(this.#host.hears('instance'));
    };
  }

  /** @internal */
  static sizesOf(runtime: Runtime): { native: NativeMapSizes; instances: number; activities: number } {
    return { native: runtime.#native.mapSizes(), ...(runtime.#lane?.sizes ?? { instances: 0, activities: 0 }) };
  }

  /** @internal */
  static partsOf(runtime: Runtime): { native: NativeRuntime; registry: Registry; schedules: DeclaredSchedules } {
    return { native: runtime.#native, registry: runtime.#registry, schedules: runtime.#schedules };
  }

  async #start(queues: QueuesToSet): Promise<void> {
    try {
      this.#port.runtimeStarted();
    } catch (error) {
      this.#state = 'stopped';
      throw error;
    }
    let lane: Lane;
    try {
      lane = await this.#enter(queues);
    } catch (error) {
      this.#stopped();
      throw error;
    }
    this.#state = 'started';
    const native = this.#native;
    lane.open();
    await this.#startThreads(native);
    this.#measure(native);
    this.#watchStuckWork();
    await this.#orStop(this.#schedules.apply());
  }

  /** Enters the worker in the store. Returns its lane. */
  async #enter(queues: QueuesToSet): Promise<Lane> {
    await this.#loadModules();
    this.#serve(queues);
    const native = this.#native;
    const lane = new Lane(this.#port.laneOf(native.number()), this.#host);
    this.#lane = lane;
    if (this.#host.isGuarded) {
      acquireGuard();
      this.#holdsGuard = true;
    }
    acquireRejections();
    this.#holdsRejections = true;
    await Queues.declare(this.#host.client.queues, queues);
    const reply = await shownToCaller(this.#port.call((request) => native.start(request, lane.wake)).reply);
    this.#host.workerId = (JSON.parse(reply ?? '{}') as { workerId?: string }).workerId ?? '';
    return lane;
  }

  /** Serves the queues that are set, and that registered activities name, unless the options tell which ones. */
  #serve(set: QueuesToSet): void {
    if (this.#options.queues !== undefined) return;
    const limited = [...this.#registry.activityQueues()].filter((queue) => set.has(queue));
    const queues = [...new Set([DEFAULT_QUEUE, ...limited])];
    if (isDeepStrictEqual(queues, this.#queues)) return;
    this.#queues = queues;
    this.#native = this.#createNative();
  }

  /** Waits for a part of the start. Shuts the runtime down if it fails. */
  async #orStop(part: Promise<void>): Promise<void> {
    try {
      await part;
    } catch (error) {
      this.#starting = null;
      await this.shutdown(0);
      throw error;
    }
  }

  /** Not in a test, whose kit says by itself that nothing can go on. */
  #watchStuckWork(): void {
    const { logLevel = 'info' } = this.#options;
    if (this.#port.testDoubles !== null || !isLogged('warn', logLevel)) return;
    const warn = (message: string, fields: TraceFields) => this.#host.log('warn', message, fields);
    this.#stuckWork = new StuckWork(this.#port, this.#host.client, this.#registry, this.#queues, warn);
  }

  /** Runs once: a second start finds the definitions registered. */
  async #loadModules(): Promise<void> {
    if (this.#shared !== null) return;
    const { definitions } = await loadModules(specifiersOf(this.#options.modules ?? []));
    this.register(...definitions);
    this.#shared = definitions;
    this.#share(this.#native);
  }

  #share(native: NativeRuntime): void {
    for (const definition of this.#shared ?? []) {
      native.share(definition.kind, definition.name, definition.kind === 'orchestration' ? definition.version : '');
    }
  }

  async #startThreads(native: NativeRuntime): Promise<void> {
    this.#idle = performance.eventLoopUtilization();
    const {
      threads = 0,
      modules = [],
      limits,
      turnSliceMs,
      sourceStacks,
      determinism,
      logLevel,
      telemetry,
    } = this.#options;
    if (threads === 0) return;
    const data = {
      runtime: native.number(),
      store: this.#port.store.number(),
      workerId: this.#host.workerId,
      modules: specifiersOf(modules),
      codec: this.#port.texts.kind,
      types: this.#port.texts.types.names,
      isTraced: telemetry !== undefined,
      options: { threads, limits, turnSliceMs, sourceStacks, determinism, logLevel },
    };
    this.#threads = new Threads(native, data, this.#host);
    await this.#orStop(this.#threads.start(threads));
  }

  /** Measures the threads for heartbeats. Not under a test's clock, where no thread uses any time. */
  #measure(native: NativeRuntime): void {
    if (this.#port.testDoubles !== null) return;
    const { threads = 0 } = this.#options;
    const lanes = Array.from({ length: threads }, (_, i) => i + 1);
    const measured = (): (MeasuredThread | undefined)[] => [
      performance,
      ...lanes.map((lane) => this.#threads?.measured(lane)),
    ];
    const intervalMs = Math.min(this.#leaseMs / HEARTBEATS_A_LEASE, TIMER_MAX_MS);
    this.#busyShares = new BusyShares(intervalMs, measured, (shares) => native.noteBusy(shares));
  }

  async #shutdown(timeoutMs: number): Promise<void> {
    // A start that fails has nothing to shut down; its caller receives the failure.
    await this.#starting?.catch(() => {});
    if (this.#state !== 'started') return;
    this.#state = 'stopping';
    this.#stuckWork?.stop();
    this.#stuckWork = null;
    const native = this.#native;
    try {
      await shownToCaller(this.#port.call((request) => native.shutdown(request, timeoutMs)).reply);
      this.#lane?.handOnReports();
    } finally {
      this.#lane?.close();
      await this.#threads?.stop();
      this.#threads = null;
      // Activities that were told to stop may reject promises, which become visible only after one round of the event
      // loop.
      await new Promise((resolve) => later(resolve));
      this.#stopped();
    }
  }

  #stopped(): void {
    this.#lane?.close();
    this.#lane = null;
    this.#busyShares?.stop();
    this.#busyShares = null;
    this.#state = 'stopped';
    if (this.#holdsGuard) {
      this.#holdsGuard = false;
      releaseGuard();
    }
    if (this.#holdsRejections) {
      this.#holdsRejections = false;
      releaseRejections();
    }
    this.#port.runtimeStopped();
    // The next start has a new worker, which nothing of this one can reach.
    this.#native = this.#createNative();
  }

  get #leaseMs(): number {
    return parseDuration(this.#options.lease ?? '15s', 'lease');
  }

  #createNative(): NativeRuntime {
    const {
      threads = 0,
      activityConcurrency = 100,
      orchestrationConcurrency = 20_000,
      sessions = {},
      cachedInstancesMax = 10_000,
      turnDeadline = '5s',
      workerName = WORKER_NAME,
      logLevel = 'info',
    } = this.#options;
    const native = createRuntime(this.#port.store, {
      threads,
      activityConcurrency,
      orchestrationConcurrency,
      queues: this.#queues,
      sessionsMax: sessions.max ?? SESSIONS_MAX,
      sessionIdleMs: parseDuration(sessions.idle ?? SESSION_IDLE, 'sessions.idle'),
      cachedInstancesMax,
      leaseMs: this.#leaseMs,
      turnDeadlineMs: parseDuration(turnDeadline, 'turnDeadline'),
      turnSliceMs: this.#host.turnSliceMs,
      workerName,
      nodeVersion: process.versions.node,
      logLevel: logLevel === 'silent' ? 'error' : logLevel,
      historyEvents: this.#host.limits.historyEvents,
      historyBytes: this.#host.limits.historyBytes,
      turnBytes: this.#host.limits.turnBytes,
      pendingActivities: this.#host.limits.pendingActivities,
      mailboxMessages: this.#host.limits.mailboxMessages,
      keepLogs: keptLogs(this.#options.keepLogs),
      ...this.#port.testDoubles?.runtime,
    });
    for (const { kind, name, version, fingerprint } of this.#registry.entries())
      native.register(kind, name, version, fingerprint);
    this.#share(native);
    native.reportEnds(this.#host.hears('instance'));
    return native;
  }

  #addOrchestration(definition: OrchestrationDefinition): void {
    this.#registry.addOrchestration(definition);
    this.#registerNative('orchestration', definition.name, definition.version, definition.fingerprint);
  }

  #registerNative(kind: string, name: string, version: string, fingerprint: string): void {
    try {
      this.#native.register(kind, name, version, fingerprint);
    } catch (error) {
      throw nativeError(error);
    }
  }
}

markCopy(Runtime);
const DAY_MS = 86_400_000;

/** Returns the kept lines in the form that the addon takes. */
function keptLogs(keepLogs: KeepLogs | undefined): NativeRuntimeOptions['keepLogs'] {
  if (keepLogs === undefined) return null;
  const { level = 'info', maxLines = 1_000, days = 7 } = keepLogs;
  return { level, maxLines, ageMs: Math.ceil(days * DAY_MS) };
}

/** Returns the client that activities use. Its limits are the runtime's where the runtime was given any. */
function clientOf(provider: Provider, { limits, telemetry, logger, logLevel }: RuntimeOptions): Client {
  const { payloadBytes, mailboxMessages } = limitsOver(limits, DEFAULT_LIMITS);
  return new Client(provider, {
    limits: { payloadBytes, mailboxMessages },
    ...(telemetry === undefined ? {} : { telemetry }),
    ...(logger === undefined ? {} : { logger }),
    ...(logLevel === undefined ? {} : { logLevel }),
  });
}

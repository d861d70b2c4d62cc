// The runtime: registers code, runs it on a lane of this thread, and stops in good order.

import { performance } from 'node:perf_hooks';
import { type ActivityDefinition, type ActivityFunction, defineActivity, isActivity } from '../activity/activity.ts';
import type { ActivityOptions } from '../activity/activity-options.ts';
import { acquireRejections, releaseRejections } from '../activity/rejections.ts';
import { createRuntime, type NativeMapSizes, type NativeRuntime, nativeError } from '../binding/binding.ts';
import { Client } from '../client/client.ts';
import { PerdureError, RuntimeStateError } from '../errors/errors.ts';
import type { TraceFields, TraceLevel } from '../logging/fields.ts';
import { checkLogger, consoleLogger, LOG_LEVELS, type Logger, type LogLevel } from '../logging/logger.ts';
import { acquireGuard, releaseGuard } from '../orchestration/determinism.ts';
import {
  defineOrchestration,
  isOrchestration,
  type OrchestrationDefinition,
  type OrchestrationFunction,
  type OrchestrationOptions,
} from '../orchestration/orchestration.ts';
import { Provider, type StorePort } from '../store/providers.ts';
import type { Stage } from '../store/stage.ts';
import type { LaneMetrics, RuntimeMetrics } from '../tracing/metrics.ts';
import { checkTelemetry, type Telemetry } from '../tracing/telemetry-hooks.ts';
import { type Duration, parseDuration, TIMER_MAX_MS } from '../util/duration.ts';
import {
  bool,
  checkOptions,
  duration,
  finite,
  listOfNames,
  named,
  type OptionTable,
  oneOf,
  whole,
} from '../util/options.ts';
import { show } from '../util/show.ts';
import { checkRuntimeLimits, DEFAULT_LIMITS, limitsOver, type RuntimeLimits } from '../values/limits.ts';
import type { SchemaOutput, StandardSchema } from '../values/schema.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { BusyShares, type Measured } from './busy-shares.ts';
import { Host } from './host.ts';
import { type InstanceEvent, Lane } from './lane.ts';
import { checkModules, loadModules, specifiersOf } from './modules.ts';
import { Registry } from './registry.ts';
import { type Listener, Threads } from './threads.ts';

/** Options of a {@link Runtime}. */
export interface RuntimeOptions {
  /**
   * Worker threads that run orchestrations and activities besides this one, from `modules`. What is registered with the runtime itself runs on this
   * thread alone. Default 0.
   */
  threads?: number;
  /**
   * Modules that every thread loads when the runtime is started, this one too, and registers what they define: what they export of
   * {@link defineActivity} and {@link defineOrchestration}, and what their default function registers, which is called with an object that has
   * `register`, `registerActivity` and `registerOrchestration`. Where the provider has a codec, one of them exports it as `codec`.
   * Each is a URL (`new URL('./work.js', import.meta.url)`, or `import.meta.resolve('a-package')`) or an absolute path.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { threads: 3, modules: [new URL('./work.js', import.meta.url)] });
   * ```
   */
  modules?: readonly (string | URL)[];
  /** Activity attempts that run at the same time, at most. Default 100. */
  activityConcurrency?: number;
  /**
   * Queues whose activities it runs: of its own orchestrations and, from other runtimes on the store, those that it has registered.
   * Default `['default']`; `[]` runs none but inline ones.
   */
  queues?: readonly string[];
  /** Time after which the runtime lets the event loop in, ms: between turns, and in a long one before the next thing is handed to the code. Default 5. */
  turnSliceMs?: number;
  /**
   * Orchestrations whose generator is kept in memory, at most; others are replayed when they go on, and so are those that did nothing for 10 s
   * and have no more than 200 events, which takes a moment. Default 10 000.
   */
  cachedInstancesMax?: number;
  /**
   * How long other workers wait for a sign of life before they take over. Default 15 s. On Linux those of the same machine see within a second
   * that a process is gone.
   */
  lease?: Duration;
  /**
   * How long the event loop may be held up before what waits for it goes to other workers. A turn of an orchestration takes
   * microseconds; one that does not end is reported, its instance goes to others with everything else that this runtime owns, and the third one in a
   * row suspends the instance. An activity that works synchronously for so long is not run again elsewhere, but instances that wait behind it are.
   * Raise it while you debug with breakpoints. Default 5 s.
   */
  turnDeadline?: Duration;
  /** Name of this worker in the store and in logs. Default `perdure`. */
  workerName?: string;
  /** Where log lines go. Default: stderr, as text. */
  logger?: Logger;
  /** The least severe level that is logged; `'silent'` logs nothing. Default `'info'`. */
  logLevel?: LogLevel;
  /**
   * Whether activity errors and mismatches show the line of the orchestration that scheduled the work. Costs 1 to 6
   * microseconds per scheduled operation; an execution with more than 10 000 operations open at once keeps no further
   * lines. Default: true, unless `NODE_ENV` is `production`.
   */
  sourceStacks?: boolean;
  /**
   * Whether orchestrations are guarded against what a replay could not repeat. Inside of one `Date`, `performance.now()`,
   * `Math.random()` and `crypto.randomUUID()` are then deterministic, and `setTimeout`, `setInterval`, `setImmediate`,
   * `queueMicrotask` and `fetch` throw `DeterminismError`. While a runtime with `'on'` is started these globals are
   * replaced by functions that do as ever everywhere else; `'off'` replaces nothing. Default `'on'`.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { determinism: 'off' });   // the code sees to it by itself
   * ```
   */
  determinism?: 'on' | 'off';
  /**
   * How large things may grow. The limits of what is handed over hold for clients of the same provider object too, unless they were
   * given their own.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { limits: { historyEvents: 50_000, payloadBytes: 256 * 1024 } });
   * ```
   */
  limits?: RuntimeLimits;
  /**
   * Who traces what runs here: what `openTelemetry` of `perdure/telemetry` returned. Where the runtime has worker threads, one of its modules exports
   * it as `telemetry` too. Default: nobody.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { telemetry: openTelemetry() });
   * ```
   */
  telemetry?: Telemetry;
}

// Taken now: a test's fake timers must not keep a runtime from its end.
const later = setImmediate;

/** How often the runtime renews its lease in the time of one, as the addon does. */
const HEARTBEATS_A_LEASE = 3;

/** Most worker threads of a runtime. */
const THREADS_MAX = 256;

/** @internal What checks each of them. */
export const RUNTIME_OPTIONS = {
  threads: whole(0, THREADS_MAX),
  modules: checkModules,
  activityConcurrency: whole(1, 1_000_000),
  queues: listOfNames,
  turnSliceMs: finite(0.1, 60_000),
  cachedInstancesMax: whole(0, 0xffff_ffff),
  lease: duration(100),
  turnDeadline: duration(100),
  workerName: named,
  logger: checkLogger,
  logLevel: oneOf(...LOG_LEVELS),
  sourceStacks: bool,
  determinism: oneOf('on', 'off'),
  limits: checkRuntimeLimits,
  telemetry: checkTelemetry,
} satisfies OptionTable;

/** What `runtime.on` tells of. */
export interface RuntimeEvents {
  /** Something failed that is no failure of user code. Without a listener it is only logged. */
  error: (error: Error) => void;
  /**
   * Something is not as it should be, and the runtime goes on. With the code `'UNHANDLED_REJECTION'`: an activity left a promise
   * behind that was rejected (`cause`), and nobody handles that; listeners of `process` do not hear of it.
   */
  warning: (warning: Error) => void;
  /** An instance has ended here or was suspended, and that is stored. */
  instance: (event: InstanceEvent) => void;
}

type State = 'stopped' | 'starting' | 'started' | 'stopping';

/**
 * Runs orchestrations and activities in this process. What is registered with it belongs to it alone; several runtimes
 * of a process share nothing.
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
  #native: NativeRuntime;
  #lane: Lane | null = null;
  #threads: Threads | null = null;
  #busyShares: BusyShares | null = null;
  /** What every thread has; `null` before the modules are loaded. */
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
    const { threads = 0, modules = [], limits } = this.#options;
    if (threads > 0 && modules.length === 0) {
      throw new TypeError('new Runtime: threads need modules, from which they have what they run');
    }
    this.#port.limits = limitsOver(limits, this.#port.limits);
    this.#host = new MainHost(
      this.#registry,
      clientOf(provider, this.#options),
      this.#port.texts,
      this.#options,
      this.#port.stage,
    );
    this.#native = this.#createNative();
  }

  /**
   * Register an activity; before or after `start`.
   *
   * @param options - defaults for all calls, and `input`, a schema: see {@link defineActivity}
   * @throws RuntimeStateError when the name is registered already
   * @throws TypeError when an argument is wrong
   */
  registerActivity<S extends StandardSchema, O = any>(
    name: string,
    fn: ActivityFunction<SchemaOutput<S>, O>,
    options: ActivityOptions & { input: S },
  ): this;
  registerActivity<I = any, O = any>(name: string, fn: ActivityFunction<I, O>, options?: ActivityOptions): this;
  registerActivity(name: string, fn: ActivityFunction, options?: ActivityOptions): this {
    return this.register(defineActivity(name, fn, options));
  }

  /**
   * Register an orchestration; before or after `start`. Several versions of one name can be registered.
   *
   * Instances of this name and version that are Suspended with a `NondeterminismError` go on by themselves if the text of `fn` is another
   * than that which did not fit them; of what `fn` calls nothing is looked at. That happens once, when the runtime is started or the
   * orchestration registered with one that is. With the same text they wait for {@link Client.resume}. While workers with different code
   * for one name and version run side by side, any of them may take such an instance and suspend it again: give changed code another version.
   *
   * @param options - its `version`, its `cancelGrace` and `onEnd`, and `input`, a schema: see {@link defineOrchestration}
   * @throws RuntimeStateError when the name is registered already in this version
   * @throws TypeError when an argument is wrong
   */
  registerOrchestration<S extends StandardSchema, O = any>(
    name: string,
    fn: OrchestrationFunction<SchemaOutput<S>, O>,
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
   * Register what `defineActivity` and `defineOrchestration` made; before or after `start`.
   *
   * @throws RuntimeStateError when one is registered already; those before it are registered then
   * @throws TypeError when one is no definition
   */
  register(...definitions: readonly (ActivityDefinition | OrchestrationDefinition)[]): this {
    for (const definition of definitions) {
      if (isActivity(definition)) {
        this.#registry.addActivity(definition);
        this.#registerNative('activity', definition.name, '', '');
      } else if (isOrchestration(definition)) {
        this.#registry.addOrchestration(definition);
        this.#registerNative('orchestration', definition.name, definition.version, definition.fingerprint);
      } else {
        throw new TypeError(
          `runtime.register takes what defineActivity and defineOrchestration returned, not ${show(definition)}`,
        );
      }
    }
    return this;
  }

  /**
   * Begin to work; resolves when this worker is entered in the store. The process stays alive until `shutdown`.
   *
   * @throws RuntimeStateError when it is started already, the provider is closed, or a module cannot be loaded
   * @throws ProviderError when the store refuses
   */
  start(): Promise<void> {
    if (this.#state !== 'stopped') {
      const how = { starting: 'being started', started: 'started', stopping: 'being shut down' }[this.#state];
      return Promise.reject(new RuntimeStateError(`the runtime cannot be started: it is ${how}`));
    }
    this.#state = 'starting';
    this.#starting = this.#start();
    return this.#starting;
  }

  /**
   * Stop taking work, let running turns and activities finish, and hand over what is left; resolves as soon as nothing
   * runs any more. What still runs at the deadline is aborted and will run again elsewhere. A runtime that is stopped can be started again.
   *
   * @param timeout - how long to wait for what runs. Default 5 s
   * @throws TypeError when the timeout is no duration
   */
  async shutdown(timeout: Duration = '5s'): Promise<void> {
    const timeoutMs = parseDuration(timeout, 'runtime.shutdown: timeout');
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
   * Counters, histograms and gauges since the last start. `perdure/prometheus` writes them as Prometheus reads them.
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
   * Be told of events, until the returned function is called. A listener that throws is reported in the log.
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
  static partsOf(runtime: Runtime): { native: NativeRuntime; registry: Registry } {
    return { native: runtime.#native, registry: runtime.#registry };
  }

  async #start(): Promise<void> {
    try {
      this.#port.runtimeStarted();
    } catch (error) {
      this.#state = 'stopped';
      throw error;
    }
    const native = this.#native;
    const lane = new Lane(this.#port.laneOf(native.number()), this.#host);
    this.#lane = lane;
    try {
      await this.#loadModules();
      if (this.#host.isGuarded) {
        acquireGuard();
        this.#holdsGuard = true;
      }
      acquireRejections();
      this.#holdsRejections = true;
      const reply = await this.#port.request((_store, request) => native.start(request, lane.wake));
      this.#host.workerId = (JSON.parse(reply ?? '{}') as { workerId?: string }).workerId ?? '';
    } catch (error) {
      this.#stopped();
      throw error;
    }
    this.#state = 'started';
    lane.open();
    await this.#startThreads(native);
    this.#measure(native);
  }

  /** Once: the second start finds all registered. */
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
      isTraced: telemetry !== undefined,
      options: { threads, limits, turnSliceMs, sourceStacks, determinism, logLevel },
    };
    this.#threads = new Threads(native, data, this.#host);
    try {
      await this.#threads.start(threads);
    } catch (error) {
      this.#starting = null;
      await this.shutdown(0);
      throw error;
    }
  }

  /** What heartbeats tell of the threads. In the time of a test nothing takes any. */
  #measure(native: NativeRuntime): void {
    if (this.#port.stage !== null) return;
    const { threads = 0 } = this.#options;
    const lanes = Array.from({ length: threads }, (_, i) => i + 1);
    const measured = (): (Measured | undefined)[] => [
      performance,
      ...lanes.map((lane) => this.#threads?.measured(lane)),
    ];
    const intervalMs = Math.min(this.#leaseMs / HEARTBEATS_A_LEASE, TIMER_MAX_MS);
    this.#busyShares = new BusyShares(intervalMs, measured, (shares) => native.noteBusy(shares));
  }

  async #shutdown(timeoutMs: number): Promise<void> {
    // A start that fails has nothing to shut down; whoever called it hears of the failure.
    await this.#starting?.catch(() => {});
    if (this.#state !== 'started') return;
    this.#state = 'stopping';
    const native = this.#native;
    try {
      await this.#port.request((_store, request) => native.shutdown(request, timeoutMs));
    } finally {
      this.#lane?.close();
      await this.#threads?.stop();
      this.#threads = null;
      // What activities reject because they were told to stop shows before the event loop has come round.
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
    // A worker of its own for the next start: nothing of this one can reach it.
    this.#native = this.#createNative();
  }

  get #leaseMs(): number {
    return parseDuration(this.#options.lease ?? '15s', 'lease');
  }

  #createNative(): NativeRuntime {
    const {
      threads = 0,
      queues = ['default'],
      activityConcurrency = 100,
      cachedInstancesMax = 10_000,
      turnDeadline = '5s',
      workerName = 'perdure',
      logLevel = 'info',
    } = this.#options;
    const native = createRuntime(this.#port.store, {
      threads,
      activityConcurrency,
      queues,
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
      ...this.#port.stage?.runtime,
    });
    for (const { kind, name, version, fingerprint } of this.#registry.entries())
      native.register(kind, name, version, fingerprint);
    this.#share(native);
    native.reportEnds(this.#host.hears('instance'));
    return native;
  }

  #registerNative(kind: string, name: string, version: string, fingerprint: string): void {
    try {
      this.#native.register(kind, name, version, fingerprint);
    } catch (error) {
      throw nativeError(error);
    }
  }
}

/** The runtime as the lane of its own thread sees it. */
class MainHost extends Host implements Listener {
  private readonly logger: Logger;
  private readonly listeners: { [E in keyof RuntimeEvents]: Set<RuntimeEvents[E]> } = {
    error: new Set(),
    warning: new Set(),
    instance: new Set(),
  };

  constructor(registry: Registry, client: Client, texts: StoredTexts, options: RuntimeOptions, stage: Stage | null) {
    super(registry, client, texts, options.telemetry, options, stage);
    this.logger = options.logger ?? consoleLogger;
  }

  on<E extends keyof RuntimeEvents>(event: E, listener: RuntimeEvents[E]): () => void {
    oneOf(...Object.keys(this.listeners))(event, 'runtime.on: the event');
    if (typeof listener !== 'function') throw new TypeError('runtime.on: the listener must be a function');
    const listeners: Set<RuntimeEvents[E]> = this.listeners[event];
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }

  hears(event: keyof RuntimeEvents): boolean {
    return this.listeners[event].size > 0;
  }

  line(level: TraceLevel, message: string, fields: TraceFields): void {
    try {
      this.logger[level](fields, message);
    } catch {
      // A logger that fails must not stop the work, and there is nowhere left to say so.
    }
  }

  logText(level: TraceLevel, message: string, fields: string | null, isInternal: boolean): void {
    const values = fields === null ? {} : (JSON.parse(fields) as TraceFields);
    this.log(level, message, values);
    if (!isInternal || (level !== 'error' && level !== 'warn')) return;
    const error = new PerdureError(message, 'RUNTIME', { cause: values });
    this.emit(level === 'error' ? 'error' : 'warning', error);
  }

  instanceEnded(event: InstanceEvent): void {
    this.emit('instance', event);
  }

  warn(what: string, fields: TraceFields, error: unknown): void {
    this.log('error', what, { ...fields, error });
    this.emit('warning', new PerdureError(what, 'UNHANDLED_REJECTION', { cause: error }));
  }

  report(error: unknown, what: string): void {
    this.log('error', what, { error });
    this.emit('error', error instanceof Error ? error : new PerdureError(what, 'RUNTIME', { cause: error }));
  }

  private emit<E extends keyof RuntimeEvents>(event: E, ...args: Parameters<RuntimeEvents[E]>): void {
    for (const listener of this.listeners[event]) {
      try {
        (listener as (...values: Parameters<RuntimeEvents[E]>) => void)(...args);
      } catch (error) {
        this.log('error', `a listener of '${event}' threw`, { error });
      }
    }
  }
}

/** The client that activities work with: its limits are the runtime's, where these were given. */
function clientOf(provider: Provider, { limits, telemetry }: RuntimeOptions): Client {
  const { payloadBytes, mailboxMessages } = limitsOver(limits, DEFAULT_LIMITS);
  return new Client(provider, {
    limits: { payloadBytes, mailboxMessages },
    ...(telemetry === undefined ? {} : { telemetry }),
  });
}

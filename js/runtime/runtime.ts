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
import {
  defineOrchestration,
  isOrchestration,
  type OrchestrationDefinition,
  type OrchestrationFunction,
  type OrchestrationOptions,
} from '../orchestration/definition.ts';
import { acquireGuard, releaseGuard } from '../orchestration/determinism.ts';
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
   * Number of worker threads that run orchestrations and activities besides this one, loaded from `modules`. Code that
   * is registered with the runtime itself runs on this thread alone. Default 0.
   */
  threads?: number;
  /**
   * Modules that every thread, this one included, loads when the runtime starts. A thread registers the definitions
   * that a module exports (the results of {@link defineActivity} and {@link defineOrchestration}). It also calls the
   * module's default function, if there is one, with an object that has `register`, `registerActivity` and
   * `registerOrchestration`. If the provider has a codec, one of the modules exports it as `codec`. Each module is
   * named by a URL (`new URL('./work.js', import.meta.url)`, or `import.meta.resolve('a-package')`) or by an absolute
   * path.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { threads: 3, modules: [new URL('./work.js', import.meta.url)] });
   * ```
   */
  modules?: readonly (string | URL)[];
  /** The most activity attempts that run at the same time. Default 100. */
  activityConcurrency?: number;
  /**
   * Queues whose activities the runtime runs: those of its own orchestrations and, for other runtimes on the store,
   * those that it has registered. Default `['default']`; `[]` runs inline activities only.
   */
  queues?: readonly string[];
  /**
   * Time after which the runtime yields to the event loop, ms: between turns, and within a long turn before the next
   * delivery to the code. Default 5.
   */
  turnSliceMs?: number;
  /**
   * The most orchestrations whose generator is kept in memory. Others are replayed when they go on. So are those that
   * did nothing for 10 s and have no more than 200 events, because their replay is short. Default 10 000.
   */
  cachedInstancesMax?: number;
  /**
   * Lease of this worker: other workers take over after this time without a heartbeat. Default 15 s. On Linux, workers
   * on the same machine notice within a second that a process is gone.
   */
  lease?: Duration;
  /**
   * Time for which the event loop may be blocked before the work that waits for it goes to other workers. A turn of an
   * orchestration takes microseconds. A turn that does not end is reported, and its instance goes to other workers with
   * everything else that this runtime owns; the third such turn in a row suspends the instance. An activity that works
   * synchronously for this long is not run again elsewhere, but instances that wait behind it are. Raise it while you
   * debug with breakpoints. Default 5 s.
   */
  turnDeadline?: Duration;
  /** Name of this worker in the store and in logs. Default `perdure`. */
  workerName?: string;
  /** Receives log lines. Default: stderr, as text. */
  logger?: Logger;
  /** The least severe level that is logged; `'silent'` logs nothing. Default `'info'`. */
  logLevel?: LogLevel;
  /**
   * True to show, in activity errors and mismatches, the line of the orchestration that scheduled the work. Costs 1 to
   * 6 microseconds per scheduled operation; an execution with more than 10 000 operations open at once keeps no further
   * lines. Default: true, unless `NODE_ENV` is `production`.
   */
  sourceStacks?: boolean;
  /**
   * `'on'` guards orchestrations against calls that a replay could not repeat. Inside an orchestration `Date`,
   * `performance.now()`, `Math.random()` and `crypto.randomUUID()` are then deterministic, and `setTimeout`,
   * `setInterval`, `setImmediate`, `queueMicrotask` and `fetch` throw `DeterminismError`. While a runtime with `'on'`
   * is started, these globals are replaced by functions that behave as usual everywhere else; `'off'` replaces nothing.
   * Default `'on'`.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { determinism: 'off' });   // the code sees to it by itself
   * ```
   */
  determinism?: 'on' | 'off';
  /**
   * Limits on sizes and counts. The limits of what is handed over also apply to clients of the same provider object,
   * unless the client has its own.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { limits: { historyEvents: 50_000, payloadBytes: 256 * 1024 } });
   * ```
   */
  limits?: RuntimeLimits;
  /**
   * Traces the work of this runtime: the result of `openTelemetry` of `perdure/telemetry`. If the runtime has worker
   * threads, one of its modules exports it as `telemetry` too. Default: no tracing.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { telemetry: openTelemetry() });
   * ```
   */
  telemetry?: Telemetry;
}

// Captured at import: a test's fake timers must not keep a runtime from stopping.
const later = setImmediate;

/** Heartbeats that the runtime sends within the time of one lease, the same as in the addon. */
const HEARTBEATS_A_LEASE = 3;

/** The most worker threads of a runtime. */
const THREADS_MAX = 256;

/** @internal The check of each option. */
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

/** Listeners of `runtime.on`, by event. */
export interface RuntimeEvents {
  /** An error that is not a failure of user code. Without a listener it is only logged. */
  error: (error: Error) => void;
  /**
   * A problem that does not stop the runtime. With the code `'UNHANDLED_REJECTION'`: an activity left behind a promise
   * that was rejected (`cause`) and has no handler; listeners of `process` do not receive it.
   */
  warning: (warning: Error) => void;
  /** An instance ended or was suspended here, and that is stored. */
  instance: (event: InstanceEvent) => void;
}

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
  #native: NativeRuntime;
  #lane: Lane | null = null;
  #threads: Threads | null = null;
  #busyShares: BusyShares | null = null;
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
   * Registers an activity, before or after `start`.
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
   * Registers definitions made by `defineActivity` and `defineOrchestration`, before or after `start`.
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
   * Starts the runtime. Resolves when this worker is entered in the store. The process stays alive until `shutdown`.
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
   * Stops taking work, lets running turns and activities finish, and hands over the rest. Resolves as soon as nothing
   * runs any more. Work that still runs at the deadline is aborted and will run again elsewhere. A stopped runtime can
   * be started again.
   *
   * @param timeout - how long to wait for running work. Default 5 s
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

  /** Measures the threads for heartbeats. Not under a test's clock, where no thread uses any time. */
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
    // A start that fails has nothing to shut down; its caller receives the failure.
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

/** The runtime, seen from the lane of its own thread. */
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
      // A logger that fails must not stop the work, and there is no place left to report it.
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

/** Returns the client that activities use. Its limits are the runtime's where the runtime was given any. */
function clientOf(provider: Provider, { limits, telemetry }: RuntimeOptions): Client {
  const { payloadBytes, mailboxMessages } = limitsOver(limits, DEFAULT_LIMITS);
  return new Client(provider, {
    limits: { payloadBytes, mailboxMessages },
    ...(telemetry === undefined ? {} : { telemetry }),
  });
}

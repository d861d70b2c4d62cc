// The options of a runtime.

import type { QueueLimits } from '../client/queue-limits.ts';
import { declaredQueues } from '../client/queues.ts';
import { checkLogger, LOG_LEVELS, type Logger, type LogLevel } from '../logging/logger.ts';
import { checkTelemetry, type Telemetry } from '../tracing/telemetry-hooks.ts';
import type { Duration } from '../util/duration.ts';
import { bool, duration, finite, listOfNames, named, nested, type OptionTable, oneOf, whole } from '../util/options.ts';
import { isList, show } from '../util/show.ts';
import { checkRuntimeLimits, type RuntimeLimits } from '../values/limits.ts';
import { checkModules } from './modules.ts';

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
   * The most instances of orchestrations that the runtime works on at the same time, 1 to 1 000 000. The others wait in
   * the store, for this runtime or for another one. An instance counts while it has a turn to run, while an activity of
   * it runs here, waits for a slot here or waits for its next attempt here, and while it waits for a timer that is due
   * within a second and no other instance waits for its place. An instance does not count while it waits for events,
   * messages, children, later timers or activities that other runtimes run. An activity that waits for another instance
   * keeps the place of its own: with a limit of 1 that other instance needs another runtime. Default 20 000.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { orchestrationConcurrency: 50 });
   * ```
   */
  orchestrationConcurrency?: number;
  /**
   * Queues whose activities the runtime runs: those of its own orchestrations and, for other runtimes on the store,
   * those that it has registered. `'any'`: every queue, also one that appears later. `[]` runs inline activities only.
   * Default: `['default']`, and those of the queues of {@link RuntimeStartOptions} that an activity names which is
   * registered before the start.
   */
  queues?: readonly string[] | 'any';
  /**
   * Limits of the activity sessions that the runtime holds: see {@link ActivityOptions.session}.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { sessions: { max: 4, idle: '30m' } });   // four models fit in memory
   * ```
   */
  sessions?: SessionOptions;
  /**
   * Time after which the runtime yields to the event loop, ms: between turns, and within a long turn before the next
   * delivery to the code. Default 5.
   */
  turnSliceMs?: number;
  /**
   * The most orchestrations whose generator is kept in memory. Others are replayed when they go on. So are those that
   * did nothing for 10 s and have no more than 200 events, because their replay is short. The 256 that ran last always
   * stay. Default 10 000.
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
  /**
   * Name of this worker in the store and in logs. A runtime pauses the schedules which runtimes of its name have
   * declared and it does not declare. With the default name it does so only if it declares schedules, because unrelated
   * programs have that name, too. Default `perdure`.
   */
  workerName?: string;
  /** Receives log lines. Default: stderr, in a readable form on a terminal, and as a line of JSON each elsewhere. */
  logger?: Logger;
  /** The least severe level that is logged; `'silent'` logs nothing. Default `'info'`. */
  logLevel?: LogLevel;
  /**
   * Keeps the lines that orchestrations log with `ctx.traceInfo` and its like in the store, for {@link Client.logs} and
   * `perdure logs`. A line is stored in the transaction of its turn, once, and a replay adds none. Turns that log
   * nothing cost nothing; one that logs costs an insertion and, on Postgres, two round trips more. Not available with a
   * codec, because the lines would be stored without it. Default: none are kept.
   *
   * @example
   * ```ts
   * const runtime = new Runtime(provider, { keepLogs: { level: 'debug', maxLines: 200, days: 2 } });
   * ```
   */
  keepLogs?: KeepLogs;
  /**
   * True to show, in activity errors, mismatches and warnings, the line of the orchestration that scheduled the work or
   * waits for a message. Costs 1 to 6 microseconds each; an execution with more than 10 000 operations open at once
   * keeps no further lines. Default: true, unless `NODE_ENV` is `production`.
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

/** Options of {@link Runtime.start}. */
export interface RuntimeStartOptions {
  /**
   * Queues by name, with their limits, as `client.queues.set` takes them. Each start of a runtime sets them again, so
   * limits that a client has set meanwhile are replaced. A queue that is not named here stays as it is. The runtime
   * serves those of them that registered activities name, unless {@link RuntimeOptions.queues} tells which ones it
   * serves.
   */
  queues?: Readonly<Record<string, QueueLimits>>;
}

/** Limits of the activity sessions that a runtime holds: see {@link RuntimeOptions.sessions}. */
export interface SessionOptions {
  /**
   * The most sessions at the same time. Further sessions go to other runtimes, or wait until a session is idle. 0: the
   * runtime holds none. Default 100.
   */
  max?: number;
  /**
   * Time without an activity of a session, waiting or running, after which the session is no longer bound to the
   * runtime. Default 5 min.
   */
  idle?: Duration;
}

/** The lines of orchestrations that are kept in the store: see {@link RuntimeOptions.keepLogs}. */
export interface KeepLogs {
  /** The least severe level that is kept. It does not depend on `logLevel`. Default `'info'`. */
  level?: 'debug' | 'info' | 'warn' | 'error';
  /**
   * The most lines of an instance, over all its executions: the oldest are deleted when there are more. Of one turn,
   * 100 lines are kept, and a line that tells the number of the others. A message is cut after 8 KiB, and fields of
   * more than 8 KiB are left out. Default 1 000.
   */
  maxLines?: number;
  /** Time for which lines are kept, in days. Deleting an instance deletes its lines. Default 7. */
  days?: number;
}

/** Default of {@link RuntimeOptions.workerName}. */
export const WORKER_NAME = 'perdure';
/** Default of {@link SessionOptions.max}. */
export const SESSIONS_MAX = 100;
/** Default of {@link SessionOptions.idle}. */
export const SESSION_IDLE = '5m';

/** The most worker threads of a runtime. */
const THREADS_MAX = 256;

function checkQueues(value: unknown, path: string): void {
  if (value === 'any') return;
  if (!isList(value)) throw new TypeError(`${path} must be a list of names, or 'any', got ${show(value)}`);
  listOfNames(value, path);
}

/** @internal The check of each option of a start. */
export const START_OPTIONS = {
  queues: (value, path) => void declaredQueues(value as Record<string, QueueLimits>, path),
} satisfies OptionTable;

/** @internal The check of each option. */
export const RUNTIME_OPTIONS = {
  threads: whole(0, THREADS_MAX),
  modules: checkModules,
  activityConcurrency: whole(1, 1_000_000),
  orchestrationConcurrency: whole(1, 1_000_000),
  queues: checkQueues,
  sessions: nested({ max: whole(0, 1_000_000), idle: duration(1) }),
  turnSliceMs: finite(0.1, 60_000),
  cachedInstancesMax: whole(0, 0xffff_ffff),
  lease: duration(100),
  turnDeadline: duration(100),
  workerName: named,
  logger: checkLogger,
  logLevel: oneOf(...LOG_LEVELS),
  keepLogs: nested({
    level: oneOf('debug', 'info', 'warn', 'error'),
    maxLines: whole(1, 100_000),
    days: finite(0.001, 36_500),
  }),
  sourceStacks: bool,
  determinism: oneOf('on', 'off'),
  limits: checkRuntimeLimits,
  telemetry: checkTelemetry,
} satisfies OptionTable;

// The services of a runtime that a lane needs on its thread.

import type { ActivityFunction } from '../activity/activity.ts';
import type { ActivityCall, ActivityKey, ActivityOptions } from '../activity/activity-options.ts';
import type { LogJob } from '../binding/jobs.ts';
import type { Client } from '../client/client.ts';
import type { QueryAnswer } from '../driver/queries.ts';
import type { TraceFields, TraceLevel } from '../logging/fields.ts';
import { isLogged, type LogLevel } from '../logging/logger.ts';
import type { RunnableOrchestration } from '../orchestration/definition.ts';
import { withoutGuard } from '../orchestration/determinism.ts';
import type { MissingCode, QueryHost, ReadAfter } from '../store/query-host.ts';
import type { TestDoubles } from '../store/test-doubles.ts';
import type { Telemetry } from '../tracing/telemetry-hooks.ts';
import { DEFAULT_LIMITS, limitsOver, type RuntimeLimits } from '../values/limits.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import type { TypeRegistry } from '../values/value-types.ts';
import type { InstanceEvent, LaneHost } from './lane.ts';
import { QueryReplays } from './query-replays.ts';
import type { Registry } from './registry.ts';

/** Options of a runtime that each of its threads follows. */
export interface HostOptions {
  readonly threads?: number | undefined;
  readonly limits?: RuntimeLimits | undefined;
  readonly turnSliceMs?: number | undefined;
  readonly sourceStacks?: boolean | undefined;
  readonly determinism?: 'on' | 'off' | undefined;
  readonly logLevel?: LogLevel | undefined;
}

/** See {@link LaneHost.looksMax}. */
const LOOKS_MAX = 4;

/** The runtime, seen from the lane of one thread. */
export abstract class Host implements LaneHost, QueryHost {
  readonly client: Client;
  readonly texts: StoredTexts;
  readonly testDoubles: TestDoubles | null;
  readonly limits: Required<RuntimeLimits>;
  readonly sourceStacks: boolean;
  readonly turnSliceMs: number;
  readonly looksMax: number;
  /** True if orchestrations run under the determinism guard. */
  readonly isGuarded: boolean;
  readonly telemetry: Telemetry | undefined;
  workerId = '';
  private readonly replays = new QueryReplays(this);
  private readonly registry: Registry;
  private readonly logLevel: LogLevel;

  constructor(
    registry: Registry,
    client: Client,
    texts: StoredTexts,
    telemetry: Telemetry | undefined,
    options: HostOptions,
    testDoubles: TestDoubles | null = null,
  ) {
    this.registry = registry;
    this.client = client;
    this.texts = texts;
    this.telemetry = telemetry;
    this.testDoubles = testDoubles;
    this.limits = limitsOver(options.limits, DEFAULT_LIMITS);
    this.turnSliceMs = options.turnSliceMs ?? 5;
    this.looksMax = (options.threads ?? 0) > 0 ? LOOKS_MAX : 0;
    this.sourceStacks = options.sourceStacks ?? process.env.NODE_ENV !== 'production';
    this.isGuarded = options.determinism !== 'off';
    this.logLevel = options.logLevel ?? 'info';
  }

  get types(): TypeRegistry {
    return this.texts.types;
  }

  /** Logs a line whose level has passed the log level. */
  protected abstract line(level: TraceLevel, message: string, fields: TraceFields): void;
  abstract warn(what: string, fields: TraceFields, error: unknown): void;
  abstract report(error: unknown, what: string): void;
  abstract logLine(line: LogJob): void;
  abstract instanceEnded(event: InstanceEvent): void;

  activityFunction(name: string): ActivityFunction | undefined {
    return this.registry.activityFunction(name);
  }

  activitiesLike(name: string): string[] {
    return this.registry.activitiesLike(name);
  }

  orchestration(name: string, version: string): RunnableOrchestration | undefined {
    const found = this.registry.orchestration(name, version);
    return found === undefined || this.isGuarded ? found : withoutGuard(found);
  }

  answer(id: string, query: string, input: unknown, read: ReadAfter): Promise<QueryAnswer | MissingCode> {
    return this.replays.answer(id, query, input, read);
  }

  forgetReplays(): void {
    this.replays.forget();
  }

  recordedOptions(
    call: ActivityCall,
    called: ActivityOptions | undefined,
    defined: ActivityOptions<ActivityKey> | undefined,
  ): string | null {
    return this.registry.recordedOptions(call, called, defined);
  }

  log(level: TraceLevel, message: string, fields: TraceFields): void {
    if (isLogged(level, this.logLevel)) this.line(level, message, fields);
  }
}

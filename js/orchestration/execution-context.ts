// The part of a context that tells facts of the execution, and logs.

import type { FiberScheduler } from '../driver/scheduler.ts';
import type { TraceFields, TraceLevel } from '../logging/fields.ts';
import { type TraceOrigin, trace } from '../tracing/trace.ts';
import { checkName } from '../util/options.ts';
import type { OrchestrationFacts } from './orchestration-host.ts';

/**
 * The number of events from which an execution is advised to continue as new. Part of the format: replays decide by it.
 */
const LONG_HISTORY = 10_000;

/** Facts of one execution, its time and randomness, and its log lines. */
export class ExecutionContext {
  readonly #scheduler: FiberScheduler;
  readonly #facts: OrchestrationFacts;
  readonly #origin: TraceOrigin;

  constructor(scheduler: FiberScheduler, facts: OrchestrationFacts) {
    this.#scheduler = scheduler;
    this.#facts = facts;
    this.#origin = { instanceId: facts.instanceId, executionId: facts.executionId, orchestrationName: facts.name };
  }

  get instanceId(): string {
    return this.#facts.instanceId;
  }

  get executionId(): number {
    return this.#facts.executionId;
  }

  get name(): string {
    return this.#facts.name;
  }

  get version(): string {
    return this.#facts.version;
  }

  get parentId(): string | undefined {
    return this.#facts.parentId;
  }

  get historyLength(): number {
    this.#scheduler.assertRunning('historyLength');
    return this.#scheduler.port.historyLength();
  }

  get continueAsNewSuggested(): boolean {
    return this.historyLength >= LONG_HISTORY;
  }

  get isReplaying(): boolean {
    this.#scheduler.assertRunning('isReplaying');
    return this.#scheduler.port.isReplaying();
  }

  now(): number {
    this.#scheduler.assertRunning('now');
    return this.#scheduler.now;
  }

  random(): number {
    this.#scheduler.assertRunning('random');
    return this.#scheduler.port.random();
  }

  randomUUID(): string {
    this.#scheduler.assertRunning('randomUUID');
    return this.#scheduler.port.randomUuid();
  }

  patched(id: string): boolean {
    this.#scheduler.assertRunning('patched');
    checkName(id, 'patch id');
    return this.#scheduler.port.patched(id);
  }

  traceDebug(message: string, fields?: TraceFields): void {
    this.#trace('debug', message, fields);
  }

  traceInfo(message: string, fields?: TraceFields): void {
    this.#trace('info', message, fields);
  }

  traceWarn(message: string, fields?: TraceFields): void {
    this.#trace('warn', message, fields);
  }

  traceError(message: string, fields?: TraceFields): void {
    this.#trace('error', message, fields);
  }

  #trace(level: TraceLevel, message: string, fields: TraceFields | undefined): void {
    const scheduler = this.#scheduler;
    scheduler.assertRunning(`trace${level[0]?.toUpperCase()}${level.slice(1)}`);
    trace(scheduler, scheduler.port, this.#origin, level, message, fields);
  }
}

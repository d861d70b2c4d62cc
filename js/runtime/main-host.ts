// The runtime on the thread that made it: its log and the listeners of its events.

import type { LogJob } from '../binding/jobs.ts';
import type { Client } from '../client/client.ts';
import { PerdureError } from '../errors/errors.ts';
import { lineText, type TraceFields, type TraceLevel } from '../logging/fields.ts';
import { consoleLogger, type Logger } from '../logging/logger.ts';
import type { TestDoubles } from '../store/test-doubles.ts';
import { oneOf } from '../util/options.ts';
import { Place } from '../values/codec-context.ts';
import { fromErrorPayload } from '../values/payload.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { Host } from './host.ts';
import type { InstanceEvent } from './lane.ts';
import type { Registry } from './registry.ts';
import type { RuntimeOptions } from './runtime-options.ts';
import type { ThreadListener } from './threads.ts';

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

/** The runtime, seen from the lane of its own thread. */
export class MainHost extends Host implements ThreadListener {
  private readonly logger: Logger;
  private readonly listeners: { [E in keyof RuntimeEvents]: Set<RuntimeEvents[E]> } = {
    error: new Set(),
    warning: new Set(),
    instance: new Set(),
  };

  constructor(
    registry: Registry,
    client: Client,
    texts: StoredTexts,
    options: RuntimeOptions,
    testDoubles: TestDoubles | null,
  ) {
    super(registry, client, texts, options.telemetry, options, testDoubles);
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

  logLine({ level, message, fields, isInternal, error: stored, operation }: LogJob): void {
    const values = fields === null ? {} : (JSON.parse(fields) as TraceFields);
    if (stored !== null) {
      const error = this.readError(stored, values, operation);
      this.log(level, `${message}: ${lineText(error)}`, { ...values, error });
      return;
    }
    this.log(level, message, values);
    if (!isInternal || (level !== 'error' && level !== 'warn')) return;
    const error = new PerdureError(message, 'RUNTIME', { cause: values });
    this.emit(level === 'error' ? 'error' : 'warning', error);
  }

  /** Returns the error of an instance or of one of its activities. An error that cannot be read gives the reason. */
  private readError(stored: string, { instanceId, executionId }: TraceFields, operation: number): unknown {
    const id = String(instanceId);
    const place =
      operation === 0 ? Place.end(id, 'error') : Place.activity(id, Number(executionId), operation, 'error');
    try {
      return fromErrorPayload(this.texts.read(stored, 'error', place), this.texts.types);
    } catch (error) {
      return error;
    }
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

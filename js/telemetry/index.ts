/**
 * Spans of clients, instances and activities, by OpenTelemetry: `perdure/telemetry`, which needs `@opentelemetry/api`
 * installed.
 *
 * The spans are listed in docs/telemetry.md. The names of attributes are Perdure's own (`perdure.*`), except
 * `error.type`: the conventions for messaging and for functions describe one message and one call, and an instance is
 * neither.
 */

import {
  type Attributes,
  type Context,
  context as contexts,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
  type Tracer,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';

import type {
  AttemptSpan,
  ClientCall,
  Segment,
  SegmentEnd,
  Telemetry,
  TraceContext,
  TracedAttempt,
  TracedError,
  TracedExecution,
  TracedTurn,
} from '../tracing/telemetry-hooks.ts';
import { checkOptions, hasMethods } from '../util/options.ts';
import { property, show } from '../util/show.ts';

export type { Telemetry } from '../tracing/telemetry-hooks.ts';
export { type MetricsOptions, type ObservedMetrics, observeMetrics } from './telemetry-metrics.ts';

/** Options of {@link openTelemetry}. */
export interface OpenTelemetryOptions {
  /**
   * Creates the spans. Default: the provider that is registered with `@opentelemetry/api`, even if it is registered
   * later.
   */
  tracerProvider?: TracerProvider;
  /**
   * Writes a context into the store and reads it back. Default: the propagator that is registered with
   * `@opentelemetry/api`.
   */
  propagator?: TextMapPropagator;
}

/**
 * The longest context that is stored with a start or a schedule, bytes. A longer one loses its baggage first, then
 * `tracestate`.
 */
export const TRACE_CONTEXT_BYTES_MAX = 1_024;

/** The parts that are removed from a context that is too long, in this order. */
const EXPENDABLE = ['baggage', 'tracestate'] as const;

const OPTIONS = { tracerProvider: hasMethods('getTracer'), propagator: hasMethods('inject', 'extract') };

/**
 * Traces runtimes and clients by OpenTelemetry. All runtimes and clients of a process may share one result. Set up the
 * process's SDK as usual, before this call.
 *
 * @throws TypeError when an option is wrong, or no propagator is given and none is registered: a trace would end where
 *   the process does
 *
 * @example
 * ```ts
 * new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] }).register();
 * const telemetry = openTelemetry();
 * const runtime = new Runtime(provider, { telemetry });
 * const client = new Client(provider, { telemetry });
 * ```
 */
export function openTelemetry(options?: OpenTelemetryOptions): Telemetry {
  const { tracerProvider, propagator } = checkOptions(options, OPTIONS, 'openTelemetry') ?? {};
  if (propagator === undefined && propagation.fields().length === 0) {
    throw new TypeError(
      'openTelemetry: no propagator is registered: pass the option propagator, ' +
        'call register() of the tracer provider first, or start the SDK',
    );
  }
  return new Traces((tracerProvider ?? trace).getTracer('perdure'), new Carriers(propagator ?? propagation));
}

/** A given propagator, or the registered one behind the API. */
interface Propagator {
  inject(context: Context, carrier: Carrier, setter: typeof SETTER): void;
  extract(context: Context, carrier: Carrier, getter: typeof GETTER): Context;
}

type Carrier = Record<string, string>;

const SETTER = { set: (carrier: Carrier, key: string, value: string): void => void (carrier[key] = value) };
const GETTER = {
  get: (carrier: Carrier, key: string): string | undefined => carrier[key],
  keys: (carrier: Carrier): string[] => Object.keys(carrier),
};

/** Converts contexts to text and back. */
class Carriers {
  private readonly propagator: Propagator;

  constructor(propagator: Propagator) {
    this.propagator = propagator;
  }

  write(context: Context): TraceContext | null {
    const carrier: Carrier = {};
    this.propagator.inject(context, carrier, SETTER);
    let text = JSON.stringify(carrier);
    for (const name of EXPENDABLE) {
      if (Buffer.byteLength(text) <= TRACE_CONTEXT_BYTES_MAX) break;
      delete carrier[name];
      text = JSON.stringify(carrier);
    }
    return text === '{}' || Buffer.byteLength(text) > TRACE_CONTEXT_BYTES_MAX ? null : text;
  }

  /**
   * Returns the root context if there is no text, or if the text cannot be read: another version or another tool wrote
   * it.
   */
  read(text: TraceContext | null): Context {
    if (text === null) return ROOT_CONTEXT;
    try {
      return this.propagator.extract(ROOT_CONTEXT, JSON.parse(text) as Carrier, GETTER);
    } catch {
      return ROOT_CONTEXT;
    }
  }
}

class Traces implements Telemetry {
  private readonly tracer: Tracer;
  private readonly carriers: Carriers;

  constructor(tracer: Tracer, carriers: Carriers) {
    this.tracer = tracer;
    this.carriers = carriers;
  }

  async call<T>(
    { operation, target, instanceId, isProducer }: ClientCall,
    run: (context: TraceContext | null) => Promise<T>,
  ): Promise<T> {
    const name = target === undefined ? `perdure.${operation}` : `perdure.${operation} ${target}`;
    const attributes: Attributes = { 'perdure.operation': operation };
    if (instanceId !== undefined) attributes['perdure.instance.id'] = instanceId;
    if (target !== undefined) attributes[TARGETS[operation] ?? 'perdure.target'] = target;
    const around = contexts.active();
    const span = this.tracer.startSpan(
      name,
      { kind: isProducer ? SpanKind.PRODUCER : SpanKind.CLIENT, attributes },
      around,
    );
    try {
      return await run(this.carriers.write(trace.setSpan(around, span)));
    } catch (error) {
      fail(span, error);
      throw error;
    } finally {
      span.end();
    }
  }

  segment(
    { instanceId, executionId, name, version, isResumed }: TracedExecution,
    context: TraceContext | null,
  ): Segment {
    const attributes = {
      'perdure.instance.id': instanceId,
      'perdure.execution.id': executionId,
      'perdure.orchestration.name': name,
      'perdure.orchestration.version': version,
      'perdure.resumed': isResumed,
    };
    const below = this.carriers.read(context);
    const span = this.tracer.startSpan(name, { kind: SpanKind.CONSUMER, attributes }, below);
    return new OpenSegment(this.tracer, this.carriers, span, trace.setSpan(below, span));
  }

  attempt(facts: TracedAttempt, below: Segment | TraceContext | null): AttemptSpan {
    const attributes = {
      'perdure.instance.id': facts.instanceId,
      'perdure.execution.id': facts.executionId,
      'perdure.orchestration.name': facts.orchestrationName,
      'perdure.activity.name': facts.activityName,
      'perdure.activity.attempt': facts.attempt,
      'perdure.activity.queue': facts.queue,
      'perdure.activity.inline': facts.isInline,
    };
    const around = below instanceof OpenSegment ? below.around : this.carriers.read(below as TraceContext | null);
    const kind = facts.isBorrowed ? SpanKind.CONSUMER : SpanKind.INTERNAL;
    const span = this.tracer.startSpan(facts.activityName, { kind, attributes }, around);
    return new OpenAttempt(span, trace.setSpan(around, span));
  }

  outside<T>(fn: () => T): T {
    return contexts.with(ROOT_CONTEXT, fn);
  }
}

/** Attribute for the target of a client's operation. */
const TARGETS: Readonly<Record<string, string>> = {
  start: 'perdure.orchestration.name',
  raise: 'perdure.event.name',
  enqueue: 'perdure.queue.name',
  update: 'perdure.update.name',
  query: 'perdure.query.name',
};

class OpenSegment implements Segment {
  /** Context below which its turns and attempts nest. */
  readonly around: Context;
  private readonly tracer: Tracer;
  private readonly carriers: Carriers;
  private readonly span: Span;
  private written: TraceContext | null | undefined;

  constructor(tracer: Tracer, carriers: Carriers, span: Span, around: Context) {
    this.tracer = tracer;
    this.carriers = carriers;
    this.span = span;
    this.around = around;
  }

  get context(): TraceContext | null {
    if (this.written === undefined) this.written = this.carriers.write(this.around);
    return this.written;
  }

  turn(isReplay: boolean): TracedTurn {
    const span = this.tracer.startSpan(isReplay ? 'replay' : 'turn', { kind: SpanKind.INTERNAL }, this.around);
    return {
      end(deliveries, commands) {
        span.setAttributes({ 'perdure.turn.deliveries': deliveries, 'perdure.turn.commands': commands });
        span.end();
      },
    };
  }

  end(how: SegmentEnd, error?: TracedError): void {
    this.span.setAttribute('perdure.outcome', how);
    if (error !== undefined) fail(this.span, error);
    this.span.end();
  }
}

class OpenAttempt implements AttemptSpan {
  private readonly span: Span;
  private readonly below: Context;
  private isOver = false;

  constructor(span: Span, below: Context) {
    this.span = span;
    this.below = below;
  }

  run<T>(fn: () => T): T {
    return contexts.with(this.below, fn);
  }

  completed(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.span.end();
  }

  failed(error: unknown): void {
    if (this.isOver) return;
    fail(this.span, error);
    this.completed();
  }
}

function fail(span: Span, error: unknown): void {
  const { name, message, stack } = described(error);
  span.recordException({ name, message, ...(stack === undefined ? {} : { stack }) });
  span.setAttribute('error.type', name);
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

/** Describes an error; the thrown value may be anything. */
function described(error: unknown): TracedError {
  const text = (key: string): string | undefined => {
    const value = property(error, key);
    return typeof value === 'string' ? value : undefined;
  };
  const stack = text('stack');
  return {
    name: text('name') ?? 'Error',
    message: text('message') ?? show(error),
    ...(stack === undefined ? {} : { stack }),
  };
}

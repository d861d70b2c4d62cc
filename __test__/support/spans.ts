// Recorded traces: ended spans of this process and of others, and the trees that they form.

import { type HrTime, propagation, trace } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
  type Span,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-node';

/** A span, in the form that processes exchange. */
export interface Traced {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly kind: number;
  readonly begun: HrTime;
  /** Position of the span in its process, in the order in which spans began: many begin in one millisecond. */
  readonly place: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Message of its status, if that is an error. */
  readonly error: string | undefined;
  /** Names of the errors that were recorded in it. */
  readonly thrown: readonly unknown[];
}

/** Values of `SpanKind`. */
export const KINDS = { internal: 0, server: 1, client: 2, producer: 3, consumer: 4 } as const;

/** Numbers the spans of this process as they begin. */
class Places implements SpanProcessor {
  readonly #places = new Map<string, number>();

  onStart(span: Span): void {
    this.#places.set(span.spanContext().spanId, this.#places.size);
  }

  onEnd(): void {}

  async forceFlush(): Promise<void> {}

  async shutdown(): Promise<void> {}

  of(span: ReadableSpan): number {
    return this.#places.get(span.spanContext().spanId) ?? -1;
  }
}

function traced(span: ReadableSpan, places: Places): Traced {
  const { name, kind, startTime, attributes, status, events } = span;
  return {
    name,
    kind,
    attributes,
    traceId: span.spanContext().traceId,
    spanId: span.spanContext().spanId,
    parentId: span.parentSpanContext?.spanId,
    begun: startTime,
    place: places.of(span),
    error: status.code === 2 ? (status.message ?? '') : undefined,
    thrown: events.map((event) => event.attributes?.['exception.type']),
  };
}

/** All ended spans of this process. The SDK is set up once, as in any program. */
export class Spans {
  readonly #exporter = new InMemorySpanExporter();
  readonly #places = new Places();
  readonly #provider = new NodeTracerProvider({
    spanProcessors: [this.#places, new SimpleSpanProcessor(this.#exporter)],
  });

  constructor() {
    this.#provider.register();
  }

  /** Returns the spans of a trace, or all, in the order in which they began. */
  all(traceId?: string): Traced[] {
    const spans = this.#exporter.getFinishedSpans().map((span) => traced(span, this.#places));
    return ordered(spans.filter((span) => traceId === undefined || span.traceId === traceId));
  }

  clear(): void {
    this.#exporter.reset();
  }

  /** Shuts the SDK down and removes it. */
  async end(): Promise<void> {
    await this.#provider.shutdown();
    trace.disable();
    propagation.disable();
  }
}

function ordered(spans: readonly Traced[]): Traced[] {
  return [...spans].sort((a, b) => a.begun[0] - b.begun[0] || a.begun[1] - b.begun[1] || a.place - b.place);
}

/**
 * Returns the tree of spans as text, one span per line, indented by two blanks per level. Children are in the order in
 * which they began. A span whose parent is missing is a root.
 */
export function treeOf(spans: readonly Traced[], label: (span: Traced) => string = ({ name }) => name): string {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const children = new Map<string | undefined, Traced[]>();
  for (const span of ordered(spans)) {
    const parent = span.parentId !== undefined && ids.has(span.parentId) ? span.parentId : undefined;
    children.set(parent, [...(children.get(parent) ?? []), span]);
  }
  const lines = (parent: string | undefined, indent: string): string[] =>
    (children.get(parent) ?? []).flatMap((span) => [`${indent}${label(span)}`, ...lines(span.spanId, `${indent}  `)]);
  return lines(undefined, '').join('\n');
}

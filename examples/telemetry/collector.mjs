// A minimal collector of spans: an HTTP server that accepts OTLP as JSON from any OpenTelemetry exporter, and prints
// trees of the spans. In production, run Jaeger, Tempo or the OpenTelemetry collector instead.

import { createServer } from 'node:http';

export class Collector {
  #spans = [];
  #server;

  /** Starts a collector at a local address. */
  static async start() {
    const collector = new Collector();
    collector.#server = createServer(async (request, response) => {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      if (request.method === 'POST' && request.url === '/v1/traces') collector.#take(JSON.parse(Buffer.concat(chunks)));
      response.setHeader('content-type', 'application/json').end('{}');
    });
    await new Promise((resolve) => collector.#server.listen(0, '127.0.0.1', resolve));
    return collector;
  }

  /** The address for exporters: `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  get endpoint() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  /** Returns the trees of all traces, one span a line: its name, process and duration. */
  trees() {
    const ids = new Set(this.#spans.map(({ spanId }) => spanId));
    const began = (a, b) => (a.startTimeUnixNano < b.startTimeUnixNano ? -1 : 1);
    const lines = (spans, indent) =>
      spans.sort(began).flatMap((span) => {
        const below = this.#spans.filter(({ parentSpanId }) => parentSpanId === span.spanId);
        return [`${indent}${told(span)}`, ...lines(below, `${indent}  `)];
      });
    return lines(
      this.#spans.filter(({ parentSpanId }) => !ids.has(parentSpanId)),
      '',
    ).join('\n');
  }

  stop() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #take({ resourceSpans }) {
    for (const { resource, scopeSpans } of resourceSpans) {
      const service = valueOf(resource, 'service.name');
      for (const { spans } of scopeSpans) {
        // Nanoseconds need more digits than a double has.
        for (const span of spans)
          this.#spans.push({
            ...span,
            service,
            startTimeUnixNano: BigInt(span.startTimeUnixNano),
            endTimeUnixNano: BigInt(span.endTimeUnixNano),
          });
      }
    }
  }
}

function told(span) {
  const { name, service, startTimeUnixNano: begun, endTimeUnixNano: ended, status } = span;
  const attempt = valueOf(span, 'perdure.activity.attempt');
  const facts = [
    service,
    attempt === undefined ? undefined : `attempt ${attempt}`,
    valueOf(span, 'perdure.outcome'),
    `${(ended - begun) / 1_000_000n} ms`,
  ];
  if (status?.code === 2) facts.push(`error: ${status.message}`);
  return `${name}  (${facts.filter(Boolean).join(', ')})`;
}

function valueOf({ attributes }, key) {
  const value = attributes.find((attribute) => attribute.key === key)?.value;
  return value && Object.values(value)[0];
}

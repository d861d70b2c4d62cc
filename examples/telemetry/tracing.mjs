// The OpenTelemetry setup of each process: it runs before anything else, and is the same as without Perdure.

import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { openTelemetry } from 'perdure/telemetry';

/** Traces this process under a service name. Spans go to `OTEL_EXPORTER_OTLP_ENDPOINT`. */
export function traced(service) {
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': service }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  provider.register();
  return { telemetry: openTelemetry(), flush: () => provider.shutdown() };
}

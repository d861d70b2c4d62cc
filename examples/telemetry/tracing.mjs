// How a process of this example sets OpenTelemetry up: before anything else, and the same way as without Perdure.

import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { openTelemetry } from 'perdure/telemetry';

/** Trace this process under a name; spans go to `OTEL_EXPORTER_OTLP_ENDPOINT`. */
export function traced(service) {
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': service }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  provider.register();
  return { telemetry: openTelemetry(), flush: () => provider.shutdown() };
}

// A traced worker process that reports each of its ended spans: see processes.test.ts.

import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { Client, Runtime } from 'perdure';
import { openTelemetry } from 'perdure/telemetry';

import { openStore, say } from '../support/worker-parts.mjs';

const { store, runtime: options = {}, holds = false } = JSON.parse(process.argv[2]);

let begun = 0;
const places = new Map();
const saying = {
  onStart: (span) => void places.set(span.spanContext().spanId, (begun += 1)),
  onEnd(span) {
    const { name, kind, startTime, attributes, status, events, parentSpanContext } = span;
    const { traceId, spanId } = span.spanContext();
    const error = status.code === 2 ? status.message : undefined;
    const thrown = events.map((event) => event.attributes['exception.type']);
    say({
      type: 'span',
      span: {
        name,
        kind,
        traceId,
        spanId,
        parentId: parentSpanContext?.spanId,
        begun: startTime,
        place: places.get(spanId),
        attributes,
        error,
        thrown,
      },
    });
  },
  forceFlush: async () => {},
  shutdown: async () => {},
};
new NodeTracerProvider({ spanProcessors: [saying] }).register();
const telemetry = openTelemetry();

const provider = await openStore(store);
const client = new Client(provider, { telemetry });
const runtime = new Runtime(provider, { logLevel: 'warn', telemetry, ...options });
runtime.registerActivity('charge', async (ctx) => {
  if (ctx.attempt === 1) throw new RangeError('the bank is down');
  return process.pid;
});
runtime.registerActivity('hold', async () => {
  say({ type: 'holding' });
  if (holds) await new Promise(() => {});
  return process.pid;
});
runtime.registerOrchestration('shipping', function* (ctx) {
  return yield ctx.scheduleActivity('hold');
});
runtime.registerOrchestration('order', function* (ctx, n) {
  if (n > 0) return yield ctx.continueAsNew(n - 1);
  return yield ctx.scheduleSubOrchestration('shipping', undefined, { id: `${ctx.instanceId}-shipping` });
});
await runtime.start();

process.on('message', (command) => {
  if (command.type === 'start')
    return void client.startOrchestration(command.id, command.name, command.input).then(() => say({ type: 'started' }));
  void runtime
    .shutdown()
    .then(() => provider.close())
    .then(() => process.disconnect());
});
say({ type: 'ready' });

// One trace across two processes and an HTTP call, printed as a tree.
//
//   node examples/telemetry/main.mjs
//
// An order of shares requests a quote over HTTP. A worker process takes its payment from a queue, and a child
// orchestration settles it. Both processes send their spans to a collector, as they would to Jaeger or Tempo.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { context, propagation, SpanKind, trace } from '@opentelemetry/api';
import { Client, Runtime, SqliteProvider } from 'perdure';
import { Collector } from './collector.mjs';
import { traced } from './tracing.mjs';

const collector = await Collector.start();
process.env.OTEL_EXPORTER_OTLP_ENDPOINT = collector.endpoint;
const { telemetry, flush } = traced('shop');
const tracer = trace.getTracer('example');

// A service without Perdure. The headers of a request carry its trace context.
const csv = await readFile(new URL('../data/stocks.csv', import.meta.resolve('vega-datasets')), 'utf8');
const prices = new Map(
  csv
    .trim()
    .split('\n')
    .map((line) => line.split(','))
    .map(([symbol, , price]) => [symbol, Number(price)]),
);
const exchange = createServer((request, response) => {
  const caller = propagation.extract(context.active(), request.headers);
  tracer.startActiveSpan('GET /quote', { kind: SpanKind.SERVER }, caller, (span) => {
    response.end(String(prices.get(request.url.slice(1))));
    span.end();
  });
}).listen(0, '127.0.0.1');
await once(exchange, 'listening');

// The work of an instrumentation of fetch, by hand.
const get = (url) =>
  tracer.startActiveSpan('GET', { kind: SpanKind.CLIENT, attributes: { 'url.full': url } }, async (span) => {
    const headers = {};
    propagation.inject(context.active(), headers);
    const response = await fetch(url, { headers });
    span.end();
    return response.text();
  });

const folder = mkdtempSync(join(tmpdir(), 'perdure-telemetry-'));
const file = join(folder, 'store.db');
const provider = await SqliteProvider.open(file);
const bank = fork(new URL('bank.mjs', import.meta.url), [file]);
await once(bank, 'message');

const runtime = new Runtime(provider, { telemetry, logLevel: 'warn' });
runtime.registerActivity('quote', async (ctx, symbol) =>
  Number(await get(`http://127.0.0.1:${exchange.address().port}/${symbol}`)),
);
runtime.registerOrchestration('settlement', function* (ctx, payment) {
  return yield ctx.run('book', () => `${payment}, settled`);
});
runtime.registerOrchestration('order', function* (ctx, { symbol, shares }) {
  const price = yield ctx.scheduleActivity('quote', symbol);
  const payment = yield ctx.scheduleActivity('pay', { amount: price * shares }, { queue: 'bank' });
  return yield ctx.scheduleSubOrchestration('settlement', payment);
});
await runtime.start();

const client = new Client(provider, { telemetry });
await tracer.startActiveSpan('POST /orders', { kind: SpanKind.SERVER }, async (span) => {
  await client.startOrchestration('order-1', 'order', { symbol: 'IBM', shares: 10 });
  span.end();
});
const { output } = await new Client(provider).waitForOrchestration('order-1', '30s');

bank.send('stop');
await once(bank, 'exit');
await runtime.shutdown();
await provider.close();
await flush();
console.log(`order-1: ${output}\n\n${collector.trees()}`);
exchange.close();
exchange.closeAllConnections();
collector.stop();
rmSync(folder, { recursive: true });

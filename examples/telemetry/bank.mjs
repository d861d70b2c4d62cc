// The bank: a separate worker process, which only runs the activities of queue `bank`.

import { Runtime, SqliteProvider } from 'perdure';
import { traced } from './tracing.mjs';

const { telemetry, flush } = traced('bank');
const provider = await SqliteProvider.open(process.argv[2]);
const runtime = new Runtime(provider, { telemetry, queues: ['bank'], workerName: 'bank', logLevel: 'warn' });

runtime.registerActivity('pay', async (ctx, { amount }) => {
  if (ctx.attempt === 1) throw new Error('the bank is busy');
  return `paid ${amount}`;
});

await runtime.start();
process.on('message', async () => {
  await runtime.shutdown();
  await provider.close();
  await flush();
  process.disconnect();
});
process.send('ready');

// A worker process of chaos: it runs programs (interpreter.mjs), writes the effect log, and reports its counters until
// it is killed.

import { Runtime } from 'perdure';

import { openLog, openStore, say } from '../support/worker-parts.mjs';
import { register } from './interpreter.mjs';

const { store, log, name, runtime: options } = JSON.parse(process.argv[2]);

/** Interval between reports, ms. The counters of a killed worker are known, too, except for the last moment. */
const TELL_MS = 200;

const prototypes = () => [Object.prototype, Array.prototype].map((prototype) => Reflect.ownKeys(prototype).map(String));
const natural = JSON.stringify(prototypes());

const write = openLog(log);
const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'error', workerName: name, ...options });
register(runtime, (event, ctx) => {
  const { instanceId: id, attempt, idempotencyKey: key } = ctx;
  write({ event, worker: name, id, step: Number(key.slice(key.lastIndexOf('/') + 1)), attempt, key, at: Date.now() });
});
runtime.on('warning', ({ message }) => {
  // Other workers may run again what it owned from the end of its lease on.
  if (message.includes('lost its lease')) write({ event: 'lost', worker: name, at: Date.now() });
});

function tell() {
  const { fenced, takeovers, commitRetries, openActivities } = runtime.metrics();
  say({
    type: 'counts',
    fenced,
    takeovers,
    commitRetries,
    openActivities,
    isNatural: JSON.stringify(prototypes()) === natural,
  });
}

process.on('message', async () => {
  // The counters of a runtime start from zero after a shutdown, so the last report is sent before it.
  clearInterval(telling);
  tell();
  await runtime.shutdown('20s');
  await provider.close();
  process.disconnect();
});
// The parent process is gone, so no further commands can come.
process.on('disconnect', () => process.exit());

const telling = setInterval(tell, TELL_MS);
await runtime.start();
say({ type: 'ready', pid: process.pid });

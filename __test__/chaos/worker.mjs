// A worker process of chaos: runs programs (interpreter.mjs), writes the effect log, and tells of itself until it is killed.

import { Runtime } from 'perdure';

import { openLog, openStore, say } from '../support/worker-parts.mjs';
import { register } from './interpreter.mjs';

const { store, log, name, runtime: options } = JSON.parse(process.argv[2]);

/** How often it tells of itself, ms: what a worker has counted is known even of one that is killed, but for the last moment. */
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
  // What it owned may be run again by others from the end of its lease on.
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
  // A runtime that was shut down counts from zero.
  clearInterval(telling);
  tell();
  await runtime.shutdown('20s');
  await provider.close();
  process.disconnect();
});
// Nobody is left to tell it anything.
process.on('disconnect', () => process.exit());

const telling = setInterval(tell, TELL_MS);
await runtime.start();
say({ type: 'ready', pid: process.pid });

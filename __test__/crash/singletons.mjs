// A process of singletons.test.ts: a worker that also starts singletons, one after the other. Runs in plain Node with
// the built package.

import { Client, defineActivity, defineOrchestration, Runtime } from 'perdure';

import { openLog, openStore, pause, say, seeded } from '../support/worker-parts.mjs';

const { store, name, log: path, keys, seed, starts } = JSON.parse(process.argv[2]);

const log = openLog(path);

/** Notes in the log that an instance runs, at its begin and at its end. */
const note = defineActivity('note', async (ctx, event) => {
  log({ event, worker: name, id: ctx.instanceId, attempt: ctx.attempt, at: Date.now() });
  await pause(2);
});

const alone = defineOrchestration('alone', function* (ctx) {
  yield* ctx.call(note, 'begin');
  yield* ctx.sleep(5);
  yield* ctx.call(note, 'end');
});

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '1s' });
runtime.register(note, alone);
runtime.on('error', () => undefined);
await runtime.start();
say({ type: 'ready' });

const client = new Client(provider);
const random = seeded(seed);
for (let n = 0; starts; n += 1) {
  const key = `key ${Math.floor(random() * keys)}`;
  const id = `${key}/${name}/${n}`;
  // A store that cannot write now is asked again.
  const handle = await client.start(alone, undefined, { id, key, singleton: 'skip' }).catch(() => undefined);
  if (handle?.id === id) log({ event: 'started', worker: name, id, at: Date.now() });
}

// A worker of queues.test.ts: it sets the limits of the queue, and runs its instances. Runs in plain Node with the
// built package.

import { defineActivity, defineOrchestration, Runtime } from 'perdure';

import { openLog, openStore, pause, say } from '../support/worker-parts.mjs';

const { store, name, log: path, limits } = JSON.parse(process.argv[2]);

const log = openLog(path);

/** Notes in the log that an instance has its slot, at its begin and at its end. */
const note = defineActivity('note', async (ctx, event) => {
  log({ event, worker: name, id: ctx.instanceId, attempt: ctx.attempt, at: Date.now() });
  await pause(3);
});

const held = defineOrchestration('held', function* (ctx, fails) {
  yield* ctx.call(note, 'begin');
  yield* ctx.sleep(10);
  yield* ctx.call(note, 'end');
  if (fails) throw new Error('on purpose');
});

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '1s' });
runtime.register(note, held);
runtime.on('error', () => undefined);
await runtime.start({ queues: { mails: limits } });
say({ type: 'ready' });

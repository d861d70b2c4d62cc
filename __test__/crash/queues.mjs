// A worker of queues.test.ts: it sets the limits of the queues, and runs the instances and the attempts in them.
// It runs in plain Node with the built package.

import { defineActivity, defineOrchestration, Runtime } from 'perdure';

import { openLog, openStore, pause, say } from '../support/worker-parts.mjs';

const { store, name, log: path, queues } = JSON.parse(process.argv[2]);

const log = openLog(path);

/** Notes in the log that an instance has its slot, at its begin and at its end. */
const note = defineActivity('note', async (ctx, event) => {
  log({ event, worker: name, id: ctx.instanceId, attempt: ctx.attempt, at: Date.now() });
  await pause(3);
});

/** Notes in the log that the attempt has its slot, at its begin and at its end. */
const call = defineActivity(
  'call',
  async (ctx) => {
    log({ event: 'call', worker: name, id: ctx.instanceId, attempt: ctx.attempt, at: Date.now() });
    await pause(5);
    log({ event: 'called', worker: name, id: ctx.instanceId, attempt: ctx.attempt, at: Date.now() });
  },
  { queue: 'calls', key: (id) => id.split('/', 1)[0] },
);

const held = defineOrchestration('held', function* (ctx, fails) {
  yield* ctx.call(note, 'begin');
  yield* ctx.call(call, ctx.instanceId);
  yield* ctx.call(note, 'end');
  if (fails) throw new Error('on purpose');
});

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '1s' });
runtime.register(note, call, held);
runtime.on('error', () => undefined);
await runtime.start({ queues });
say({ type: 'ready' });

// A worker of queues.test.ts and queue-fairness.test.ts: it sets the limits of queues, and runs the instances and the
// attempts in them. It runs in plain Node with the built package.

import { defineActivity, defineOrchestration, Runtime } from 'perdure';

import { openLog, openStore, pause, say } from '../support/worker-parts.mjs';

const { store, name, log: path, queues } = JSON.parse(process.argv[2]);

const log = openLog(path);
const line = (event, ctx) => log({ event, worker: name, id: ctx?.instanceId, attempt: ctx?.attempt, at: Date.now() });

/** Notes in the log that an instance has its slot, at its begin and at its end. */
const note = defineActivity('note', async (ctx, event) => {
  line(event, ctx);
  await pause(3);
});

/** Notes in the log that the attempt has its slot, at its begin and at its end. */
const call = defineActivity(
  'call',
  async (ctx, { failures }) => {
    line('call', ctx);
    await pause(5);
    line('called', ctx);
    if (ctx.attempt <= failures) throw new Error('not yet');
  },
  { queue: 'calls', key: ({ id }) => id.split('/', 1)[0], retry: { initialInterval: 5 } },
);

const held = defineOrchestration('held', function* (ctx, { fails, failures }) {
  yield* ctx.call(note, 'begin');
  yield* ctx.call(call, { id: ctx.instanceId, failures });
  yield* ctx.call(note, 'end');
  if (fails) throw new Error('on purpose');
});

/** Notes its begin and its end in one step. */
const brief = defineOrchestration('brief', function* (ctx) {
  yield* ctx.run('note', async (step) => {
    line('begin', step);
    await pause(3);
    line('end', step);
  });
});

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '1s' });
runtime.register(note, call, held, brief);
runtime.on('error', () => undefined);
runtime.on('warning', ({ message }) => {
  if (message.includes('lost its lease')) line('lost');
});
await runtime.start({ queues });
say({ type: 'ready' });

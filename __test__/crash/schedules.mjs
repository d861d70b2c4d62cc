// A worker of schedules.test.ts and set-clock.test.ts: it declares the schedule, and runs it. Runs in plain Node with
// the built package.

import { Client, defineActivity, defineOrchestration, defineSchedule, Runtime } from 'perdure';

import { openStore, pause, say } from '../support/worker-parts.mjs';

const { store, name, everyMs } = JSON.parse(process.argv[2]);

const work = defineActivity('work', () => pause(20));

const tick = defineOrchestration('tick', function* (ctx) {
  yield* ctx.call(work, undefined);
});

/** Run by hand, at the time of the worker's clock. */
const asked = defineOrchestration('asked', function* () {});

const clock = defineSchedule('clock', { every: everyMs, overlap: 'allow', start: { definition: tick } });
const bell = defineSchedule('bell', { cron: '0 0 1 1 *', overlap: 'allow', start: { definition: asked } });

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '1s' });
runtime.register(work, tick, asked, clock, bell);
runtime.on('error', () => undefined);
await runtime.start();

const client = new Client(provider);
process.on('message', async () => {
  const { due } = await client.schedules.trigger('bell');
  say({ type: 'rung', atMs: due.getTime() });
});
process.on('disconnect', () => process.exit());
say({ type: 'ready' });

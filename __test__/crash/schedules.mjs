// A worker of schedules.test.ts: it declares the schedule, and runs it. Runs in plain Node with the built package.

import { defineActivity, defineOrchestration, defineSchedule, Runtime } from 'perdure';

import { openStore, pause, say } from '../support/worker-parts.mjs';

const { store, name, everyMs } = JSON.parse(process.argv[2]);

const work = defineActivity('work', () => pause(20));

const tick = defineOrchestration('tick', function* (ctx) {
  yield* ctx.call(work, undefined);
});

const clock = defineSchedule('clock', { every: everyMs, overlap: 'allow', start: { definition: tick } });

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '1s' });
runtime.register(work, tick, clock);
runtime.on('error', () => undefined);
await runtime.start();
say({ type: 'ready' });

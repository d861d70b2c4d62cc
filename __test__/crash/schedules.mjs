// A worker of schedules.test.ts and set-clock.test.ts: it declares schedules, and runs them. Runs in plain Node with
// the built package.

import { Client, defineActivity, defineEntity, defineOrchestration, defineSchedule, Runtime } from 'perdure';

import { openStore, pause, say } from '../support/worker-parts.mjs';

const { store, name, everyMs, overlaps = [] } = JSON.parse(process.argv[2]);

const work = defineActivity('work', () => pause(20));

const tick = defineOrchestration('tick', function* (ctx) {
  yield* ctx.call(work, undefined);
});

/** The runs of a schedule that go on, and the most that did so at once. */
const room = defineEntity('room', {
  initial: () => ({ inside: [], most: 0 }),
  handlers: {
    *enter({ state }, run) {
      state.inside.push(run);
      state.most = Math.max(state.most, state.inside.length);
    },
    *leave({ state }, run) {
      state.inside = state.inside.filter((other) => other !== run);
    },
  },
  reads: { all: (state) => state },
});

/** Is in the room of its schedule while it runs, for a time that differs. */
const visit = defineOrchestration('visit', function* (ctx, { schedule, upToMs }) {
  const mine = ctx.entity(room, schedule);
  try {
    yield* mine.enter(ctx.instanceId);
    yield* ctx.call(work, undefined);
    yield* ctx.sleep(Math.floor(ctx.random() * upToMs));
  } finally {
    yield* mine.leave(ctx.instanceId);
  }
});

/** Run by hand, at the time of the worker's clock. */
const asked = defineOrchestration('asked', function* () {});

const schedules = [
  defineSchedule('clock', { every: everyMs, overlap: 'allow', start: { definition: tick } }),
  defineSchedule('bell', { cron: '0 0 1 1 *', overlap: 'allow', start: { definition: asked } }),
  ...overlaps.map(({ overlap, every, upToMs }) =>
    defineSchedule(overlap, { every, overlap, start: { definition: visit, input: { schedule: overlap, upToMs } } }),
  ),
];

const provider = await openStore(store);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '1s' });
runtime.register(work, tick, room, visit, asked, ...schedules);
runtime.on('error', () => undefined);
await runtime.start();

const client = new Client(provider);
process.on('message', async () => {
  const { due } = await client.schedules.trigger('bell');
  say({ type: 'rung', atMs: due.getTime() });
});
process.on('disconnect', () => process.exit());
say({ type: 'ready' });

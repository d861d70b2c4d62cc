// An instance with a long history that no process has in memory: the time until it goes on.

import { readFileSync } from 'node:fs';

import { assertCompleted, withRuntime } from '../lib/session.mjs';

const STEPS = 5_000;

export const replay = {
  name: 'replay',
  what:
    `an instance of ${STEPS} completed steps loaded cold, from the event that it waits for to its result; ` +
    'reference: reading those rows by a plain client and parsing their JSON in plain JS',
  stores: ['sqlite', 'postgres'],
  unit: 'ms',
  better: 'lower',
  atLeast: 3,
  aim: 1.5,

  async round(round) {
    const [place, rows] = [round.place(), round.file('rows')];
    await round.child('prepare', { place });
    const { readMs } = round.floor('read', place, { out: rows });
    const { parseMs } = await round.child('parse', { rows });
    const { ms, againMs } = await round.child('measure', { place });
    return { floor: readMs + parseMs, perdure: ms, notes: { readMs, parseMs, againMs } };
  },
  note: ({ readMs, parseMs, againMs }) =>
    `the reference is ${readMs.toFixed(1)} ms to read the rows and ${parseMs.toFixed(1)} ms to parse them; ` +
    `a second such instance in the same process took ${againMs.toFixed(1)} ms.`,

  roles: {
    /** Makes two instances that have done their steps and wait. */
    prepare: ({ place, instances = 2 }) =>
      withRuntime(place, register, async (client) => {
        const ids = Array.from({ length: instances }, (_, n) => `run-${n}`);
        for (const id of ids) {
          await client.startOrchestration(id, 'long', STEPS);
          await client.waitForStatusChange(id, 0);
        }
        return ids;
      }),

    /** The time that plain JS needs to turn the same rows into objects and values. */
    parse: ({ rows }) => {
      const text = readFileSync(rows, 'utf8');
      const began = performance.now();
      const events = [];
      for (const line of text.split('\n')) {
        if (line === '') continue;
        const [eventId, time, kind, refId, name, payload, meta] = JSON.parse(line);
        const value = payload === null ? undefined : JSON.parse(payload);
        events.push({ eventId, time, kind, refId, name, value, meta: meta === null ? undefined : JSON.parse(meta) });
      }
      const parseMs = performance.now() - began;
      if (events.length < 2 * STEPS) throw new Error(`there are ${events.length} rows`);
      return { parseMs };
    },

    measure: ({ place, instances = 2 }) =>
      withRuntime(place, register, async (client) => {
        const times = [];
        for (let n = 0; n < instances; n += 1) {
          const began = performance.now();
          await client.raiseEvent(`run-${n}`, 'go');
          const result = await client.waitForOrchestration(`run-${n}`);
          times.push(performance.now() - began);
          assertCompleted(result, STEPS);
        }
        return { ms: times[0], againMs: times[1] };
      }),
  },
  profile: { before: 'prepare', role: 'measure', job: { instances: 20 } },
};

function register(runtime) {
  runtime.registerActivity('next', async (_ctx, n) => n + 1);
  runtime.registerOrchestration('long', function* (ctx, steps) {
    let n = 0;
    for (let step = 0; step < steps; step += 1) n = yield* ctx.scheduleActivity('next', n);
    ctx.setCustomStatus('waits');
    yield* ctx.waitForEvent('go');
    return n;
  });
}

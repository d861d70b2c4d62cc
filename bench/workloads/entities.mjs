// Entities: the time of a call, the calls of many at once, and what they cost while they are idle.

import { setTimeout as sleep } from 'node:timers/promises';

import { quiet } from '../lib/cost.mjs';
import { assertIs, inWaves, startTimes, timed, withRuntime } from '../lib/session.mjs';
import { median, quantile } from '../lib/stats.mjs';
import { registerChain } from './chain.mjs';

const CALLS = 200;
/** Entities that are called at once, and calls of each, one after the other. */
const KEYS = 1_000;
const EACH = 10;
const IDLE = 10_000;
const WAVE = 250;
/** As for the workload `idle`, ms. */
const SETTLE_MS = 20_000;
const QUIET_MS = 20_000;

export const entities = {
  name: 'entities',
  what:
    `a call of an entity → answer, ${CALLS} times one at a time, p50; floor: p50 of start → result of one activity; ` +
    `calls of ${KEYS} entities at once; the processor of ${IDLE} idle ones`,
  stores: ['sqlite', 'postgres'],
  figures: [
    {
      name: 'entity call',
      unit: 'ms',
      better: 'lower',
      atLeast: 1.3,
      note: ({ p99, first, read }) =>
        `p99 ${p99.toFixed(3)} ms; the first call of a key ${first.toFixed(3)} ms; a read ${read.toFixed(3)} ms.`,
    },
    {
      name: 'entity calls at once',
      unit: 'per s',
      better: 'higher',
      of: 'perdure',
      on: { sqlite: { atLeast: 5_000 }, postgres: { atLeast: 2_500 } },
    },
    {
      name: 'idle entities',
      unit: '% of a core',
      better: 'lower',
      of: 'perdure',
      atLeast: 1,
    },
  ],

  async round(round) {
    const { start, call, perSecond } = await round.child('measure', { place: round.place() });
    const { percent } = await round.child('idle', { place: round.placeApart() });
    const { p50, ...notes } = call;
    return {
      'entity call': { floor: start, perdure: p50, notes },
      'entity calls at once': { perdure: perSecond },
      'idle entities': { perdure: percent },
    };
  },

  roles: {
    measure: ({ place, calls = CALLS }) =>
      withCounters(place, async (client, counter) => {
        await startTimes(client, 'before', CALLS);
        await callTimes(client, counter, 'before', CALLS);
        const start = median(await startTimes(client, 'run', CALLS));
        const call = await callTimes(client, counter, 'run', calls);
        await atOnce(client, counter, 'warm');
        return { start, call, perSecond: await atOnce(client, counter, 'run') };
      }),

    idle: ({ place }) =>
      withCounters(place, async (client, counter) => {
        await inWaves(IDLE, WAVE, async (n) => assertIs(await client.entity(counter, `idle-${n}`).add(1), 1));
        await sleep(SETTLE_MS);
        return quiet(QUIET_MS);
      }),
  },
  profile: { role: 'measure', job: { calls: 30 * CALLS } },
};

async function withCounters(place, work) {
  const { defineEntity } = await import('../../dist/index.js');
  const counter = defineEntity('counter', {
    initial: () => ({ sum: 0 }),
    handlers: {
      *add(ctx, by) {
        ctx.state.sum += by;
        return ctx.state.sum;
      },
    },
    reads: { sum: ({ sum }) => sum },
  });
  const register = (runtime) => {
    registerChain(runtime);
    runtime.register(counter);
  };
  return withRuntime(place, register, (client) => work(client, counter));
}

async function callTimes(client, counter, prefix, count) {
  const first = await timed(CALLS, async (n) => assertIs(await client.entity(counter, `${prefix}-${n}`).add(1), 1));
  const warm = client.entity(counter, `${prefix}-warm`);
  const times = await timed(count, async (n) => assertIs(await warm.add(1), n + 1));
  const read = await timed(CALLS, async () => assertIs(await warm.sum(), count));
  return { p50: median(times), p99: quantile(times, 0.99), first: median(first), read: median(read) };
}

/** Calls per second of many entities, one at a time for each. The entities are there already. */
async function atOnce(client, counter, prefix) {
  const keys = Array.from({ length: KEYS }, (_, n) => client.entity(counter, `${prefix}-at-once-${n}`));
  await Promise.all(keys.map((key) => key.add(0)));
  const [ms] = await timed(1, () =>
    Promise.all(
      keys.map(async (key) => {
        for (let n = 1; n <= EACH; n += 1) assertIs(await key.add(1), n);
      }),
    ),
  );
  return (KEYS * EACH * 1_000) / ms;
}

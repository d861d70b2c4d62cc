// Many instances that wait: their cost meanwhile, and the time until one of them goes on.

import { setTimeout as sleep } from 'node:timers/promises';

import { memory, quiet } from '../lib/cost.mjs';
import { assertCompleted, inWaves, withRuntime } from '../lib/session.mjs';
import { median, pairs, quantile } from '../lib/stats.mjs';

const INSTANCES = 10_000;
/** The time in which nothing happens, ms. */
const QUIET_MS = 20_000;
/**
 * The time before that in which earlier work comes to rest, ms. Postgres counts a transaction at the latest 10 s after
 * it, and V8 collects once more, about 16 s after a process has gone quiet.
 */
const SETTLE_MS = 20_000;
const BARE_QUIET_MS = 5_000;
const WAKES = 200;
/**
 * Instances that are started together. The waves are small, so that the memory that a start needs for a moment does not
 * count as that of an instance.
 */
const WAVE = 250;

export const idle = {
  name: 'idle',
  what:
    `${INSTANCES} instances that wait for an event or a timer, for ${QUIET_MS / 1_000} s: processor and memory; ` +
    'then p50 from an event to the end of its instance; ' +
    'floor: a bare process, suspended generators in one, two durable commits',
  stores: ['sqlite', 'postgres'],
  figures: [
    {
      name: 'idle processor',
      unit: '% of a core',
      better: 'lower',
      of: 'perdure',
      atLeast: 1,
      aim: 0.3,
    },
    {
      name: 'idle memory',
      unit: 'KB each',
      better: 'lower',
      of: 'perdure',
      atLeast: 2,
      note: ({ heapKb, heldKb, evictedKb }) =>
        `${heapKb.toFixed(2)} KB of it in the heap of JavaScript; ${heldKb.toFixed(2)} KB at the beginning, ` +
        `while it is cached; ${evictedKb.toFixed(2)} KB without a cache.`,
    },
    {
      name: 'idle wake',
      unit: 'ms',
      better: 'lower',
      note: ({ p99 }) => `p99 ${p99.toFixed(3)} ms.`,
    },
    { name: 'idle transactions', stores: ['postgres'], unit: 'per min', better: 'lower', of: 'perdure' },
  ],

  async round(round) {
    const bare = await round.child('bare', {});
    const { commitMs } = round.floor('commit', round.place(), { count: 2 * WAKES, warm: 2 * WAKES });
    const { kb, heapKb, heldKb, percent, perMinute, p50, p99 } = await round.child('measure', {
      place: round.placeApart(),
    });
    const shape = { instances: INSTANCES, wave: WAVE, settleMs: SETTLE_MS, quietMs: QUIET_MS, wakes: WAKES };
    const peer = await round.peer(shape, round.placeApart);
    const evicted = await round.child('evicted', { place: round.place() });
    return {
      'idle processor': { floor: bare.percent, perdure: percent, peer: peer?.percent },
      'idle memory': { floor: bare.kb, perdure: kb, peer: peer?.kb, notes: { heapKb, heldKb, evictedKb: evicted.kb } },
      'idle wake': { floor: median(pairs(commitMs)), perdure: p50, peer: peer?.p50, notes: { p99 } },
      'idle transactions': { perdure: perMinute, peer: peer?.perMinute },
    };
  },

  roles: {
    /** A process without Perdure. It does nothing, and it holds as many suspended generators. */
    bare: async () => {
      const { percent } = await quiet(BARE_QUIET_MS);
      const before = memory();
      const held = Array.from({ length: INSTANCES }, (_, n) => suspended(n));
      for (const generator of held) generator.next();
      const after = memory();
      return { percent, kb: (after.rss - before.rss) / held.length };
    },

    measure: ({ place, wakes = WAKES }) =>
      withRuntime(place, register, async (client) => {
        const before = await startAll(client);
        const held = since(before);
        await sleep(SETTLE_MS);
        const used = await quiet(QUIET_MS, place.database);
        const left = since(before);
        const times = await wake(client, wakes);
        return { ...left, ...used, heldKb: held.kb, p50: median(times), p99: quantile(times, 0.99) };
      }),

    /** The memory of an instance in a runtime that keeps none in memory. */
    evicted: ({ place }) =>
      withRuntime(place, register, async (client) => since(await startAll(client)), { cachedInstancesMax: 1 }),
  },
  profile: { role: 'measure', job: { wakes: INSTANCES } },
};

function register(runtime) {
  runtime.registerOrchestration('done', function* (ctx) {
    ctx.setCustomStatus('ends');
    return 'done';
  });
  runtime.registerOrchestration('wait', function* (ctx) {
    ctx.setCustomStatus('waits');
    const { value } = yield* ctx.race(ctx.waitForEvent('go'), ctx.scheduleTimer('24h'));
    return value;
  });
}

/** Starts instances until all of them wait. Returns the memory of this process before that. */
async function startAll(client) {
  // As many instances that end come first: code, caches and pages of the store are no cost of a waiting instance.
  await inWaves(INSTANCES, WAVE, async (n) => {
    await client.startOrchestration(`warm-${n}`, 'done');
    assertCompleted(await client.waitForOrchestration(`warm-${n}`), 'done');
  });
  const before = memory();
  await inWaves(INSTANCES, WAVE, async (n) => {
    await client.startOrchestration(`run-${n}`, 'wait');
    await client.waitForStatusChange(`run-${n}`, 0);
  });
  return before;
}

/** The memory of each instance, KB. */
function since(before) {
  const after = memory();
  return { kb: (after.rss - before.rss) / INSTANCES, heapKb: (after.heap - before.heap) / INSTANCES };
}

/** The time of each wake from the event to the end of its instance, one at a time, spread over all instances, ms. */
async function wake(client, count) {
  const apart = Math.floor(INSTANCES / count);
  const times = [];
  for (let n = 0; n < count; n += 1) {
    const id = `run-${n * apart}`;
    const began = performance.now();
    await client.raiseEvent(id, 'go', n);
    const result = await client.waitForOrchestration(id);
    times.push(performance.now() - began);
    assertCompleted(result, n);
  }
  return times;
}

function* suspended(n) {
  yield n;
  return n;
}

// Limits of queues over several workers: how soon a free slot is taken, how fair keys are, and how exact a rate is.

import { setTimeout as sleep } from 'node:timers/promises';

import { openProvider } from '../lib/stores.mjs';

const WORKERS = 3;
const CONCURRENCY = 20;
const INSTANCES = 1_000;
/** The time for which an instance has its slot, ms. */
const HELD_MS = 20;
/** Starts of each key. The first key has the most. */
const OF_KEYS = [190, 170, 150, 130, 110, 90, 70, 50, 40, 30];
const RATE = { limit: 50, per: '1s' };
const SPAN_S = 10;

export const limits = {
  name: 'limits',
  what:
    `instances in queues, run by ${WORKERS} workers with connections of their own: the longest time that one of ` +
    `${CONCURRENCY} slots is free while ${INSTANCES} wait; by how much the keys' shares differ, ` +
    `${INSTANCES} starts of ${OF_KEYS.length} keys that take turns; ` +
    `by how much ${RATE.limit} a second is missed over ${SPAN_S} s`,
  stores: ['sqlite', 'postgres'],
  figures: [
    {
      name: 'free slot',
      unit: 'ms',
      better: 'lower',
      of: 'perdure',
      atLeast: 100,
      note: ({ p50, p99 }) => `p50 ${p50.toFixed(1)} ms; p99 ${p99.toFixed(1)} ms.`,
    },
    { name: 'share of a key', unit: '% off', better: 'lower', of: 'perdure', atLeast: 20 },
    { name: 'rate', unit: '% off', better: 'lower', of: 'perdure', atLeast: 2 },
  ],

  async round(round) {
    const { free, share, rate } = await round.child('measure', { place: round.place() });
    return {
      'free slot': { perdure: free.longest, notes: { p50: free.p50, p99: free.p99 } },
      'share of a key': { perdure: share },
      rate: { perdure: rate },
    };
  },

  roles: {
    measure: async ({ place }) => {
      const { Client, defineActivity, defineOrchestration, Runtime } = await import('../../dist/index.js');
      const seen = [];
      const hold = defineActivity('hold', async (_, { key, ms }) => {
        const begin = performance.now();
        if (ms > 0) await sleep(ms);
        seen.push({ key, begin, end: performance.now() });
      });
      const held = defineOrchestration('held', function* (ctx, input) {
        yield* ctx.call(hold, input);
      });
      const providers = await Promise.all(Array.from({ length: WORKERS }, () => openProvider(place)));
      const workers = providers.map((provider) => new Runtime(provider));
      for (const worker of workers) {
        worker.register(hold, held);
        await worker.start();
      }
      const client = new Client(providers[0]);
      const run = async (queue, limits, inputs) => {
        await client.queues.set(queue, { ...limits, rate: { limit: 1, per: '1d' } });
        await client.startMany(inputs.map((input) => ({ definition: held, input, queue, key: input.key })));
        seen.length = 0;
        await client.queues.set(queue, limits);
        // One has had the only token of the day.
        while (seen.length < inputs.length - 1) await sleep(50);
        return seen.toSorted((a, b) => a.begin - b.begin);
      };
      await run('warm', { concurrency: CONCURRENCY }, inputsOf('warm', CONCURRENCY * 5, 0));
      const result = {
        free: freeSlots(await run('slots', { concurrency: CONCURRENCY }, inputsOf('a', INSTANCES, HELD_MS))),
        share: shares(await run('keys', { concurrency: CONCURRENCY, fairness: 'key' }, OF_KEYS.flatMap(ofKey))),
        rate: rateOf(await run('rate', { rate: RATE }, inputsOf('a', RATE.limit * (SPAN_S + 2), 0))),
      };
      for (const worker of workers) await worker.shutdown();
      for (const provider of providers) await provider.close();
      return result;
    },
  },
  profile: { role: 'measure', job: {} },
};

const inputsOf = (key, count, ms) => Array.from({ length: count }, () => ({ key, ms }));

const ofKey = (count, n) => inputsOf(`key ${n}`, count, 2);

/** The times from the end of each activity to the begin of the one that has its slot next, ms. */
function freeSlots(runs) {
  const ends = runs.map(({ end }) => end).toSorted((a, b) => a - b);
  const free = runs.slice(CONCURRENCY).map(({ begin }, n) => begin - ends[n]);
  free.sort((a, b) => a - b);
  const at = (share) => free[Math.floor(share * (free.length - 1))];
  return { longest: free.at(-1), p50: at(0.5), p99: at(0.99) };
}

/** By how many percent the share of a key differs most from that of the others, as long as all of them wait. */
function shares(runs) {
  const counts = new Map();
  const least = Math.min(...OF_KEYS);
  for (const { key } of runs) {
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    if (count === least) break;
  }
  const all = OF_KEYS.map((_, n) => counts.get(`key ${n}`) ?? 0);
  const fair = all.reduce((sum, count) => sum + count, 0) / all.length;
  return (100 * Math.max(...all.map((count) => Math.abs(count - fair)))) / fair;
}

/** By how many percent the rate of all begins after the first burst is missed. */
function rateOf(runs) {
  const count = RATE.limit * SPAN_S;
  const seconds = (runs[RATE.limit + count].begin - runs[RATE.limit].begin) / 1_000;
  return 100 * Math.abs(count / seconds / RATE.limit - 1);
}

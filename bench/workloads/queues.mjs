// Queues: what the way through a queue costs, and if a long line or many keys change that.

import { setTimeout as sleep } from 'node:timers/promises';

import { assertIs, measureRuns, runAll, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';
import { REPEAT, registerChain } from './chain.mjs';

const INSTANCES = 2_000;
const CONCURRENCY = 100;
/** Slots of a queue in which none of the instances waits. */
const SLOTS = 10_000;
/** Instances of the long line, and their keys. */
const LINE = 100_000;
const KEYS = 10_000;
/** Instances at the beginning of the line, and at its end, whose time is taken. */
const PART = 5_000;
const PER_CALL = 10_000;

export const queues = {
  name: 'queues',
  what:
    `${INSTANCES} instances of one activity in a queue of ${SLOTS} slots, and of ${CONCURRENCY} slots; ` +
    'floor: the same without a queue; ' +
    `the first ${PART} of ${LINE} in line, with ${KEYS} keys that take turns; floor: the last ${PART} of them`,
  stores: ['sqlite', 'postgres'],
  figures: [
    {
      name: 'with a free slot',
      unit: 'per s',
      better: 'higher',
      atLeast: 0.667,
      aim: 0.8,
    },
    {
      name: 'through a queue',
      unit: 'per s',
      better: 'higher',
      atLeast: 0.667,
      aim: 0.8,
    },
    {
      name: 'long line',
      unit: 'per s',
      better: 'higher',
      atLeast: 0.833,
      note: ({ started }) => `All ${LINE} were started in ${started.toFixed(1)} s.`,
    },
  ],

  async round(round) {
    const { direct, free, queued } = await round.child('measure', { place: round.place() });
    const peer = await round.peer({ instances: INSTANCES, repeat: REPEAT, concurrency: CONCURRENCY });
    const { first, last, started } = await round.child('line', { place: round.placeApart() });
    return {
      'with a free slot': { floor: INSTANCES / median(direct.seconds), perdure: INSTANCES / median(free.seconds) },
      'through a queue': {
        floor: INSTANCES / median(direct.seconds),
        perdure: INSTANCES / median(queued.seconds),
        peer: peer && INSTANCES / median(peer.seconds),
      },
      'long line': { floor: PART / last, perdure: PART / first, notes: { started } },
    };
  },

  roles: {
    measure: ({ place, repeat = REPEAT }) =>
      withRuntime(place, registerChain, async (client, runtime) => {
        await client.queues.set('free', { concurrency: SLOTS });
        await client.queues.set('slots', { concurrency: CONCURRENCY });
        const direct = await measureRuns(runtime, repeat, (prefix) =>
          runAll(client, `direct-${prefix}`, INSTANCES, 'chain', 1, 1),
        );
        const through = (queue) =>
          measureRuns(runtime, repeat, (prefix) => throughQueue(client, queue, `${queue}-${prefix}`));
        return { direct, free: await through('free'), queued: await through('slots') };
      }),

    line: ({ place }) => withRuntime(place, registerLine, drain),
  },
  profile: { role: 'measure', job: { repeat: 10 } },
};

async function throughQueue(client, queue, prefix) {
  const began = performance.now();
  const ends = Array.from({ length: INSTANCES }, async (_, n) => {
    const id = `${prefix}-${n}`;
    await client.startOrchestration(id, 'chain', 1, { queue });
    assertIs((await client.waitForOrchestration(id)).output, 1);
  });
  await Promise.all(ends);
  return (performance.now() - began) / 1_000;
}

let ended = [];

function registerLine(runtime) {
  runtime.registerActivity('note', async () => {
    ended.push(performance.now());
  });
  runtime.registerOrchestration('one', function* (ctx) {
    yield ctx.scheduleActivity('note');
  });
}

/**
 * Starts all instances of the line while the queue has one slot, and then lets them through. A part of as many as are
 * measured goes before, so that all of them meet compiled code.
 */
async function drain(client) {
  await client.queues.set('line', { concurrency: CONCURRENCY, fairness: 'key' });
  await startLine(client, 'warm', PART);
  while (ended.length < PART) await sleep(50);
  await client.queues.set('line', { concurrency: 1, fairness: 'key', rate: { limit: 1, per: '1d' } });
  const began = performance.now();
  await startLine(client, 'line', LINE);
  const started = (performance.now() - began) / 1_000;
  ended = [];
  await client.queues.set('line', { concurrency: CONCURRENCY, fairness: 'key' });
  while (ended.length < LINE - 1) await sleep(50);
  const part = (from, to) => (ended[to] - ended[from]) / 1_000;
  const all = ended.length - 1;
  return { first: part(0, PART), last: part(all - PART - CONCURRENCY, all - CONCURRENCY), started };
}

async function startLine(client, prefix, count) {
  for (let from = 0; from < count; from += PER_CALL) {
    const starts = Array.from({ length: Math.min(PER_CALL, count - from) }, (_, n) => ({
      id: `${prefix}-${from + n}`,
      name: 'one',
      queue: 'line',
      key: `key-${(from + n) % KEYS}`,
    }));
    assertIs((await client.startMany(starts)).filter(({ error }) => error !== undefined).length, 0);
  }
}

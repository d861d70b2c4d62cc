// An event that an instance waits for: the time from its request to the end of the instance.

import { setTimeout as sleep } from 'node:timers/promises';

import { assertCompleted, withRuntime } from '../lib/session.mjs';
import { median, pairs, quantile } from '../lib/stats.mjs';
import { openProvider } from '../lib/stores.mjs';

const WAKES = 200;
/** Wakes after idling, in a round. */
const IDLE_WAKES = 3;
const IDLE_MS = 15_000;

const goals = { unit: 'ms', better: 'lower', atLeast: 2, aim: 1.4 };
const note = ({ p99, sent }) =>
  `${p99 === undefined ? '' : `p99 ${p99.toFixed(3)} ms; `}the acknowledgement of the event ${sent.toFixed(3)} ms.`;

export const wake = {
  name: 'wake',
  what:
    `raiseEvent → end of an instance that waits for it, one at a time, p50: ${WAKES} warm, ` +
    `${IDLE_WAKES} after ${IDLE_MS / 1_000} s of idling, and from a process without a runtime; ` +
    'floor: p50 of two durable commits, after idling too',
  stores: ['sqlite', 'postgres'],
  figures: [
    { name: 'wake', ...goals, note },
    { name: 'wake after idling', ...goals, note },
    { name: 'wake elsewhere', ...goals, note },
  ],

  async round(round) {
    const commits = (count, options) => {
      const { commitMs } = round.floor('commit', round.place(), { count: 2 * count, warm: 4 * WAKES, ...options });
      return median(pairs(commitMs));
    };
    const floor = commits(WAKES);
    const idleFloor = commits(IDLE_WAKES, { pause: IDLE_MS });
    const { warm, idle } = await round.child('measure', { place: round.place() });
    const place = round.place();
    const [elsewhere] = await round.children('elsewhere', [
      { place, part: 'client' },
      { place, part: 'worker' },
    ]);
    const peer = await round.peer({ wakes: WAKES, idleWakes: IDLE_WAKES, idleMs: IDLE_MS });
    const figure = (floor, { p50, ...notes }, peer) => ({ floor, perdure: p50, peer, notes });
    return {
      wake: figure(floor, warm, peer?.warm),
      'wake after idling': figure(idleFloor, idle, peer?.idle),
      'wake elsewhere': figure(floor, elsewhere),
    };
  },

  roles: {
    measure: ({ place, wakes = WAKES, idleWakes = IDLE_WAKES }) =>
      withRuntime(place, register, async (client) => {
        await oneByOne(client, 'before', wakes);
        const warm = await oneByOne(client, 'warm', wakes);
        const idle = await oneByOne(client, 'idle', idleWakes, IDLE_MS);
        return { warm, idle };
      }),

    elsewhere: async ({ place, part }, meet) => {
      if (part === 'worker') {
        return withRuntime(place, register, async () => {
          await meet();
          await meet();
          return null;
        });
      }
      const { Client } = await import('../../dist/index.js');
      await meet();
      const provider = await openProvider(place);
      const client = new Client(provider);
      await oneByOne(client, 'before', WAKES);
      const result = await oneByOne(client, 'run', WAKES);
      await meet();
      await provider.close();
      return result;
    },
  },
  profile: { role: 'measure', job: { wakes: 30 * WAKES, idleWakes: 0 } },
};

function register(runtime) {
  runtime.registerOrchestration('waits', function* (ctx) {
    ctx.setCustomStatus('waits');
    return yield* ctx.waitForEvent('go');
  });
}

/** Starts instances that wait, and ends one after the other by an event, after `pause` ms without work. */
async function oneByOne(client, prefix, count, pause = 0) {
  const ids = Array.from({ length: count }, (_, n) => `${prefix}-${n}`);
  for (const id of ids) {
    await client.startOrchestration(id, 'waits');
    await client.waitForStatusChange(id, 0);
  }
  const [sent, ended] = [[], []];
  for (const [n, id] of ids.entries()) {
    if (pause > 0) await sleep(pause);
    const began = performance.now();
    await client.raiseEvent(id, 'go', n);
    sent.push(performance.now() - began);
    const result = await client.waitForOrchestration(id);
    ended.push(performance.now() - began);
    assertCompleted(result, n);
  }
  if (count === 0) return null;
  return { p50: median(ended), sent: median(sent), ...(pause > 0 ? {} : { p99: quantile(ended, 0.99) }) };
}

// One client that starts an instance, waits for its result, and starts the next.

import { assertCompleted, withRuntime } from '../lib/session.mjs';
import { median, pairs, quantile } from '../lib/stats.mjs';
import { registerChain } from './chain.mjs';

const STARTS = 1_000;

export const start = {
  name: 'start',
  what: `start → result of one activity, ${STARTS} times one at a time, p50; floor: p50 of two durable commits`,
  unit: 'ms',
  better: 'lower',
  atLeast: 2,
  aim: 1.4,

  async round(round) {
    const { commitMs } = round.floor('commit', { db: round.file(), count: 2 * STARTS, warm: 2 * STARTS });
    const { p50, p99, commitsPerStart } = await round.child('measure', { db: round.file() });
    return { floor: median(pairs(commitMs)), perdure: p50, notes: { p99, commitsPerStart } };
  },
  note: ({ p99, commitsPerStart }) => `p99 ${p99.toFixed(2)} ms; ${commitsPerStart.toFixed(2)} commits for each.`,

  roles: {
    measure: ({ db, repeat = 1 }) =>
      withRuntime(db, registerChain, async (client, runtime) => {
        await oneByOne(client, 'warm', STARTS);
        const before = runtime.metrics();
        const times = await oneByOne(client, 'run', STARTS * repeat);
        const commits = runtime.metrics().commitBatches - before.commitBatches;
        return { p50: median(times), p99: quantile(times, 0.99), commitsPerStart: commits / times.length };
      }),
  },
  profile: { role: 'measure', job: { repeat: 6 } },
};

/** How long each took from its start to its result, ms. */
async function oneByOne(client, prefix, count) {
  const times = [];
  for (let n = 0; n < count; n += 1) {
    const id = `${prefix}-${n}`;
    const began = performance.now();
    await client.startOrchestration(id, 'chain', 1);
    const result = await client.waitForOrchestration(id);
    times.push(performance.now() - began);
    assertCompleted(result, 1);
  }
  return times;
}

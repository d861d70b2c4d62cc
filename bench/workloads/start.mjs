// One client that starts an instance, waits for its result, and starts the next.

import { startTimes, withRuntime } from '../lib/session.mjs';
import { median, pairs, quantile } from '../lib/stats.mjs';
import { registerChain } from './chain.mjs';
import { steadyNote, steadyNotes } from './latency.mjs';

const STARTS = 200;
/** SQLite, as in latency. A start is three commits. */
const STEADY = 1_700;

export const start = {
  name: 'start',
  what: `start → result of one activity, ${STARTS} times one at a time, p50; floor: p50 of two durable commits`,
  stores: ['sqlite', 'postgres'],
  unit: 'ms',
  better: 'lower',
  atLeast: 2,
  aim: 1.4,

  async round(round) {
    const measure = async (warm) => {
      const { commitMs } = round.floor('commit', round.place(), { count: 2 * STARTS, warm: 3 * warm });
      const { p50, p99, commitsPerStart } = await round.child('measure', { place: round.place(), warm });
      return { floor: median(pairs(commitMs)), perdure: p50, p99, commitsPerStart };
    };
    const { floor, perdure, p99, commitsPerStart } = await measure(STARTS);
    const peer = await round.peer({ starts: STARTS });
    const steady = round.store === 'sqlite' ? steadyNotes(await measure(STEADY)) : {};
    return { floor, perdure, peer: peer?.p50, notes: { p99, commitsPerStart, ...steady } };
  },
  note: ({ p99, commitsPerStart, ...steady }) =>
    `p99 ${p99.toFixed(3)} ms; ${commitsPerStart.toFixed(2)} commits for each` +
    `${steadyNote(`${STEADY} starts`, steady)}.`,

  roles: {
    measure: ({ place, warm = STARTS, repeat = 1 }) =>
      withRuntime(place, registerChain, async (client, runtime) => {
        await startTimes(client, 'warm', warm);
        const before = runtime.metrics();
        const times = await startTimes(client, 'run', STARTS * repeat);
        const commits = runtime.metrics().commitBatches - before.commitBatches;
        return { p50: median(times), p99: quantile(times, 0.99), commitsPerStart: commits / times.length };
      }),
  },
  profile: { role: 'measure', job: { repeat: 30 } },
};

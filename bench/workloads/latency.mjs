// One instance alone: how long a step takes when there is nobody to share a commit with.

import { assertCompleted, withRuntime } from '../lib/session.mjs';
import { intervals, median, quantile } from '../lib/stats.mjs';

const STEPS = 500;
/** Steps before it counts: as many as chain has. */
const WARM = 5_000;

export const latency = {
  name: 'latency',
  what: `1 instance × ${STEPS} sequential trivial activities, p50 from one activity to the next; floor: p50 of one durable commit of one row`,
  unit: 'ms',
  better: 'lower',
  atLeast: 2,
  aim: 1.4,

  async round(round) {
    const { commitMs } = round.floor('commit', { db: round.file(), count: STEPS, warm: WARM });
    const { p50, p99 } = await round.child('measure', { db: round.file() });
    return { floor: median(commitMs), perdure: p50, notes: { p99, floorP99: quantile(commitMs, 0.99) } };
  },
  note: ({ p99, floorP99 }) => `p99 ${p99.toFixed(2)} ms, of one commit ${floorP99.toFixed(2)} ms.`,

  roles: {
    measure: async ({ db, repeat = 1 }) => {
      const steps = await stepTimes(db, WARM, STEPS * repeat);
      return { p50: median(steps), p99: quantile(steps, 0.99) };
    },
  },
  profile: { role: 'measure', job: { repeat: 30 } },
};

/** The time from each step of an instance to the next, ms, after an instance of `warm` steps. */
export async function stepTimes(db, warm, steps) {
  let times = [];
  const register = (runtime) => {
    runtime.registerActivity('next', async (_ctx, n) => {
      times.push(performance.now());
      return n + 1;
    });
    runtime.registerOrchestration('chain', function* (ctx, count) {
      let n = 0;
      for (let step = 0; step < count; step += 1) n = yield* ctx.scheduleActivity('next', n);
      return n;
    });
  };
  await withRuntime(db, register, async (client) => {
    for (const [id, count] of [['warm', warm], ['run', steps]]) {
      times = [];
      await client.startOrchestration(id, 'chain', count);
      assertCompleted(await client.waitForOrchestration(id), count);
    }
  });
  return intervals(times);
}

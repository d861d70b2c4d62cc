// One instance alone: the time of a step when there is no other instance to share a commit with.

import { assertCompleted, withRuntime } from '../lib/session.mjs';
import { intervals, median, quantile } from '../lib/stats.mjs';

const STEPS = 500;
/**
 * SQLite: commits after which the write-ahead log has its full size. From then on it is overwritten, which a disk does
 * faster.
 */
const STEADY = 5_000;

export const latency = {
  name: 'latency',
  what:
    `1 instance × ${STEPS} sequential trivial activities, p50 from one activity to the next; ` +
    'floor: p50 of one durable commit of one row',
  stores: ['sqlite', 'postgres'],
  unit: 'ms',
  better: 'lower',
  atLeast: 2,
  aim: 1.4,

  async round(round) {
    const measure = async (warm) => {
      const { commitMs } = round.floor('commit', round.place(), { count: STEPS, warm });
      const { p50, p99 } = await round.child('measure', { place: round.place(), warm });
      return { floor: median(commitMs), floorP99: quantile(commitMs, 0.99), perdure: p50, p99 };
    };
    const { floor, perdure, floorP99, p99 } = await measure(STEPS);
    const peer = await round.peer({ steps: STEPS });
    const steady = round.store === 'sqlite' ? steadyNotes(await measure(STEADY)) : {};
    return { floor, perdure, peer: peer?.p50, notes: { p99, floorP99, ...steady } };
  },
  note: ({ p99, floorP99, ...steady }) =>
    `p99 ${p99.toFixed(3)} ms, of one commit ${floorP99.toFixed(3)} ms${steadyNote(`${STEADY} steps`, steady)}.`,

  roles: {
    measure: async ({ place, warm = STEPS, repeat = 1 }) => {
      const steps = await stepTimes(place, warm, STEPS * repeat);
      return { p50: median(steps), p99: quantile(steps, 0.99) };
    },
  },
  profile: { role: 'measure', job: { repeat: 30 } },
};

/** The figures of an SQLite store once its write-ahead log has its full size, to be shown beside the main figure. */
export function steadyNotes({ floor, perdure }) {
  return { steadyFloor: floor, steady: perdure, ofSteady: perdure / floor };
}

export function steadyNote(after, { steadyFloor, steady, ofSteady }) {
  if (steady === undefined) return '';
  return (
    `; after ${after}, when the log has its full size, ` +
    `p50 ${steady.toFixed(3)} ms to ${steadyFloor.toFixed(3)} ms, ratio ${ofSteady.toFixed(2)}`
  );
}

/** The time from each step of an instance to the next, ms, after an instance of `warm` steps. */
export async function stepTimes(place, warm, steps) {
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
  await withRuntime(place, register, async (client) => {
    for (const [id, count] of [
      ['warm', warm],
      ['run', steps],
    ]) {
      times = [];
      await client.startOrchestration(id, 'chain', count);
      assertCompleted(await client.waitForOrchestration(id), count);
    }
  });
  return intervals(times);
}

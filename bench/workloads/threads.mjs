// Activities that compute, with and without worker threads.

import { measureRuns, runAll, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';
import { hash, outputOf } from './threads-work.mjs';

const INSTANCES = 20;
/** Activities of each instance. */
const ACTIVITIES = 20;
const HASHES = INSTANCES * ACTIVITIES;
/** The time of one activity on one thread. */
const MS = 5;
/** The number of runs. Each takes seconds. */
const REPEAT = 3;
/** Rounds of hashing that a process has done before their time is measured. */
const WARM_ROUNDS = 100_000;

export const threads = {
  name: 'threads',
  what:
    `${INSTANCES} instances × ${ACTIVITIES} activities in all() that compute for ${MS} ms, with 2 worker threads; ` +
    'reference: without',
  stores: ['sqlite'],
  unit: 'per s',
  better: 'higher',
  atLeast: 1.8,

  async round(round) {
    const { rounds } = await round.child('calibrate', {});
    const perSecond = async (threads) => {
      const { seconds } = await round.child('measure', { place: round.place(), threads, rounds });
      return HASHES / median(seconds);
    };
    const bare = async (processes) => {
      const share = { hashes: HASHES / processes, rounds };
      const results = await round.children('bare', Array(processes).fill(share));
      return HASHES / Math.max(...results.map(({ seconds }) => seconds));
    };
    const bareAlone = await bare(1);
    const without = await perSecond(0);
    const withTwo = await perSecond(2);
    const bareTwo = await bare(2);
    const withOne = await perSecond(1);
    return {
      floor: without,
      perdure: withTwo,
      notes: { ofOne: withOne / without, ofBare: bareTwo / bareAlone, ofCalibrated: without / (1_000 / MS) },
    };
  },
  note: ({ ofOne, ofBare, ofCalibrated }) =>
    `${ofOne.toFixed(2)} times with 1 worker thread. Two bare processes did the same work ${ofBare.toFixed(2)} times ` +
    `as fast as one. Without worker threads, ${ofCalibrated.toFixed(2)} of what one thread can do in that time.`,

  roles: {
    calibrate: () => ({ rounds: Math.round(MS / msPerRound()) }),
    measure: ({ place, threads, rounds = Math.round(MS / msPerRound()), repeat = REPEAT }) => {
      const output = outputOf(ACTIVITIES, hash(rounds));
      const input = { activities: ACTIVITIES, rounds };
      const options = { threads, modules: [new URL('./threads-work.mjs', import.meta.url)] };
      return withRuntime(
        place,
        () => {},
        (client, runtime) =>
          measureRuns(runtime, repeat, (prefix) => runAll(client, prefix, INSTANCES, 'hashes', input, output)),
        options,
      );
    },
    bare: async ({ hashes, rounds }, meet) => {
      hash(WARM_ROUNDS);
      await meet();
      const began = performance.now();
      for (let n = 0; n < hashes; n += 1) hash(rounds);
      return { seconds: (performance.now() - began) / 1_000 };
    },
  },
  profile: { role: 'measure', job: { threads: 0, repeat: 5 } },
};

/** The median time of a round over parts of a second, on this thread alone. */
function msPerRound() {
  hash(WARM_ROUNDS);
  const rounds = WARM_ROUNDS / 20;
  const times = Array.from({ length: 101 }, () => {
    const began = performance.now();
    hash(rounds);
    return performance.now() - began;
  });
  return median(times) / rounds;
}

// The cost of a step as the history grows.

import { median } from '../lib/stats.mjs';
import { stepTimes } from './latency.mjs';

const STEPS = 10_000;
const PART = 1_000;

export const flatness = {
  name: 'flatness',
  what: `one instance of ${STEPS} steps: p50 of the last ${PART} over p50 of the first ${PART}`,
  stores: ['sqlite', 'postgres'],
  unit: 'ms',
  better: 'lower',
  atLeast: 1.15,
  aim: 1.05,

  async round(round) {
    const { first, last, firstMean, lastMean } = await round.child('measure', { place: round.place() });
    return { floor: first, perdure: last, notes: { means: lastMean / firstMean } };
  },
  note: ({ means }) => `ratio of the mean step times: ${means.toFixed(2)}.`,

  roles: {
    measure: async ({ place }) => {
      const steps = await stepTimes(place, PART, STEPS);
      const [first, last] = [steps.slice(0, PART), steps.slice(-PART)];
      return { first: median(first), last: median(last), firstMean: mean(first), lastMean: mean(last) };
    },
  },
  profile: { role: 'measure', job: {} },
};

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

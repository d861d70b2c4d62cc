// One instance that does a thousand things at once.

import { measureRuns, runAll, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';
import { chain, INSTANCES, REPEAT, STEPS } from './chain.mjs';

const BRANCHES = 1_000;

export const fanOut = {
  name: 'fan-out',
  what: `1 instance, ${BRANCHES} activities in all(); reference: ${BRANCHES} steps of chain, by Perdure`,
  stores: ['sqlite', 'postgres'],
  unit: 's',
  better: 'lower',
  atLeast: 1,
  aim: 0.5,

  async round(round) {
    const { seconds } = await round.child('measure', { place: round.place() }, chain);
    const perStep = median(seconds) / (INSTANCES * STEPS);
    const perdure = await round.child('measure', { place: round.place() });
    const peer = await round.peer({ branches: BRANCHES, repeat: REPEAT });
    return {
      floor: BRANCHES * perStep,
      perdure: median(perdure.seconds),
      peer: peer && median(peer.seconds),
      notes: perdure.batches,
    };
  },
  note: ({ commits, writesPerCommit }) => `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes.`,

  roles: {
    measure: ({ place, repeat = REPEAT }) =>
      withRuntime(place, register, async (client, runtime) => {
        for (let n = 1; n < WARM; n += 1) await runAll(client, `early${n}`, 1, 'fan-out', BRANCHES, SUM);
        return measureRuns(runtime, repeat, (prefix) => runAll(client, prefix, 1, 'fan-out', BRANCHES, SUM));
      }),
  },
  profile: { role: 'measure', job: { repeat: 50 } },
};

/** The warm-up has as many steps as that of chain, because chain is the reference. */
const WARM = (INSTANCES * STEPS) / BRANCHES;
const SUM = (BRANCHES * (BRANCHES + 1)) / 2;

function register(runtime) {
  runtime.registerActivity('next', async (_ctx, n) => n + 1);
  runtime.registerOrchestration('fan-out', function* (ctx, branches) {
    const values = yield* ctx.all(Array.from({ length: branches }, (_, n) => ctx.scheduleActivity('next', n)));
    return values.reduce((sum, value) => sum + value, 0);
  });
}

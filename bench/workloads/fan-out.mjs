// One instance that does a thousand things at once.

import { batches, runAll, withRuntime } from '../lib/session.mjs';
import { chain, INSTANCES, STEPS } from './chain.mjs';

const BRANCHES = 1_000;

export const fanOut = {
  name: 'fan-out',
  what: `1 instance, ${BRANCHES} activities in all(); reference: ${BRANCHES} steps of chain, by Perdure`,
  unit: 's',
  better: 'lower',
  atLeast: 1,
  aim: 0.5,

  async round(round) {
    const { seconds } = await round.child('measure', { db: round.file() }, chain);
    const perdure = await round.child('measure', { db: round.file() });
    const perStep = seconds / (INSTANCES * STEPS);
    return { floor: BRANCHES * perStep, perdure: perdure.seconds, notes: perdure.batches };
  },
  note: ({ commits, writesPerCommit }) => `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes.`,

  roles: {
    measure: ({ db, repeat = 1 }) =>
      withRuntime(db, register, async (client, runtime) => {
        for (let n = 0; n < WARM; n += 1) await runAll(client, `warm${n}`, 1, 'fan-out', BRANCHES, SUM);
        const before = runtime.metrics();
        let seconds = 0;
        for (let n = 0; n < repeat; n += 1) seconds += await runAll(client, `run${n}`, 1, 'fan-out', BRANCHES, SUM);
        return { seconds: seconds / repeat, batches: batches(before, runtime.metrics()) };
      }),
  },
  profile: { role: 'measure', job: { repeat: 50 } },
};

/** As many steps before it counts as chain has, because that is what it is compared with. */
const WARM = (INSTANCES * STEPS) / BRANCHES;
const SUM = (BRANCHES * (BRANCHES + 1)) / 2;

function register(runtime) {
  runtime.registerActivity('next', async (_ctx, n) => n + 1);
  runtime.registerOrchestration('fan-out', function* (ctx, branches) {
    const values = yield* ctx.all(Array.from({ length: branches }, (_, n) => ctx.scheduleActivity('next', n)));
    return values.reduce((sum, value) => sum + value, 0);
  });
}

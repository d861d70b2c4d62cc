// Many instances side by side, each a chain of steps: what group commit, the turn and the driver can do together.

import { measureRuns, runAll, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';

export const INSTANCES = 100;
export const STEPS = 50;

/** How often a process does the workload after its warm-up; the median counts. */
export const REPEAT = 5;

/** What is written in one transaction by the floor. */
export const BATCH = 64;

export const chain = {
  name: 'chain',
  what:
    `${INSTANCES} instances × ${STEPS} sequential trivial activities; ` +
    `floor: the same rows by rusqlite, ${BATCH} turns a commit`,
  unit: 'steps/s',
  better: 'higher',
  atLeast: 0.35,
  aim: 0.6,

  async round(round) {
    const files = [round.file(), round.file(), round.file()];
    const floor = floorSeconds(round, files[0], 'all');
    const perdure = await round.child('measure', { db: files[1] });
    const seconds = median(perdure.seconds);
    const appended = floorSeconds(round, files[2], 'appended');
    round.assertSameRows(files[0], files[1]);
    const steps = INSTANCES * STEPS;
    return {
      floor: steps / floor,
      perdure: steps / seconds,
      notes: { ...perdure.batches, ofAppended: appended / seconds },
    };
  },
  note: ({ commits, writesPerCommit, ofAppended }) =>
    `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes; ratio ${ofAppended.toFixed(2)} to a floor ` +
    'that leaves the row of an instance alone between its start and its end.',

  roles: {
    measure: ({ db, repeat = REPEAT }) =>
      withRuntime(db, registerChain, (client, runtime) =>
        measureRuns(runtime, repeat, (prefix) => runAll(client, prefix, INSTANCES, 'chain', STEPS, STEPS)),
      ),
  },
  profile: { role: 'measure', job: { repeat: 20 } },
};

function floorSeconds(round, db, rows) {
  const shape = { instances: INSTANCES, steps: STEPS, batch: BATCH, rows };
  return median(round.floor('write', { db, ...shape, warm: 1, repeat: REPEAT }).seconds);
}

export function registerChain(runtime) {
  runtime.registerActivity('next', async (_ctx, n) => n + 1);
  runtime.registerOrchestration('chain', function* (ctx, steps) {
    let n = 0;
    for (let step = 0; step < steps; step += 1) n = yield* ctx.scheduleActivity('next', n);
    return n;
  });
}

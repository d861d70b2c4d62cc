// Many instances side by side, each a chain of steps: what group commit, the turn and the driver can do together.

import { batches, runAll, withRuntime } from '../lib/session.mjs';

export const INSTANCES = 100;
export const STEPS = 50;

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
    const appended = floorSeconds(round, files[2], 'appended');
    round.assertSameRows(files[0], files[1]);
    const steps = INSTANCES * STEPS;
    return {
      floor: steps / floor,
      perdure: steps / perdure.seconds,
      notes: { ...perdure.batches, ofAppended: appended / perdure.seconds },
    };
  },
  note: ({ commits, writesPerCommit, ofAppended }) =>
    `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes; ratio ${ofAppended.toFixed(2)} to a floor ` +
    'that leaves the row of an instance alone between its start and its end.',

  roles: {
    measure: ({ db, repeat = 1 }) => measureChain(db, repeat),
  },
  profile: { role: 'measure', job: { repeat: 20 } },
};

function floorSeconds(round, db, rows) {
  return round.floor('write', { db, instances: INSTANCES, steps: STEPS, batch: BATCH, rows, warm: 1 }).seconds;
}

export function registerChain(runtime) {
  runtime.registerActivity('next', async (_ctx, n) => n + 1);
  runtime.registerOrchestration('chain', function* (ctx, steps) {
    let n = 0;
    for (let step = 0; step < steps; step += 1) n = yield* ctx.scheduleActivity('next', n);
    return n;
  });
}

/** Seconds for the whole, and how commits were shared. */
export function measureChain(db, repeat = 1) {
  return withRuntime(db, registerChain, async (client, runtime) => {
    await runAll(client, 'warm', INSTANCES, 'chain', STEPS, STEPS);
    const before = runtime.metrics();
    let seconds = 0;
    for (let n = 0; n < repeat; n += 1) seconds += await runAll(client, `run${n}`, INSTANCES, 'chain', STEPS, STEPS);
    return { seconds: seconds / repeat, batches: batches(before, runtime.metrics()) };
  });
}

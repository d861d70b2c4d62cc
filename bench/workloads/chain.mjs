// Many instances side by side, each a chain of steps: the speed of group commit, the turn and the driver together.

import { measureRuns, runAll, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';

export const INSTANCES = 100;
export const STEPS = 50;

/** The number of times that a process does the workload after its warm-up. The median counts. */
export const REPEAT = 5;

/** The number of writes that the floor puts into one transaction. */
export const BATCH = 64;

export const chain = {
  name: 'chain',
  what:
    `${INSTANCES} instances × ${STEPS} sequential trivial activities; ` +
    `floor: the same rows by a raw writer, ${BATCH} turns a commit`,
  stores: ['sqlite', 'postgres'],
  unit: 'steps/s',
  better: 'higher',
  aim: 0.6,
  on: { sqlite: { atLeast: 0.35 }, postgres: { atLeast: 0.25, atLeastOfPeer: 10 } },

  async round(round) {
    const places = [round.place(), round.place()];
    const floor = floorSeconds(round, places[0], 'all');
    const perdure = await round.child('measure', { place: places[1] });
    const seconds = median(perdure.seconds);
    const peer = await round.peer({ instances: INSTANCES, steps: STEPS, repeat: REPEAT });
    const appended = floorSeconds(round, round.place(), 'appended');
    round.assertSameRows(...places);
    const steps = INSTANCES * STEPS;
    return {
      floor: steps / floor,
      perdure: steps / seconds,
      peer: peer && steps / median(peer.seconds),
      notes: { ...perdure.batches, ofAppended: appended / seconds },
    };
  },
  note: ({ commits, writesPerCommit, ofAppended }) =>
    `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes; ratio ${ofAppended.toFixed(2)} ` +
    'to a floor that leaves the row of an instance alone between its start and its end.',

  roles: {
    measure: ({ place, repeat = REPEAT }) =>
      withRuntime(place, registerChain, (client, runtime) =>
        measureRuns(runtime, repeat, (prefix) => runAll(client, prefix, INSTANCES, 'chain', STEPS, STEPS)),
      ),
  },
  profile: { role: 'measure', job: { repeat: 20 } },
};

function floorSeconds(round, place, rows) {
  const shape = { instances: INSTANCES, steps: STEPS, batch: BATCH, rows };
  return median(round.floor('write', place, { ...shape, warm: 1, repeat: REPEAT }).seconds);
}

export function registerChain(runtime) {
  runtime.registerActivity('next', async (_ctx, n) => n + 1);
  runtime.registerOrchestration('chain', function* (ctx, steps) {
    let n = 0;
    for (let step = 0; step < steps; step += 1) n = yield* ctx.scheduleActivity('next', n);
    return n;
  });
}

// Many small instances at once: what a start and an end cost beside the one step between them.

import { batches, runAll, withRuntime } from '../lib/session.mjs';
import { BATCH, registerChain } from './chain.mjs';

const INSTANCES = 2_000;

export const hello = {
  name: 'hello',
  what: `${INSTANCES} instances of one activity, started at once, until all are done; floor: the same rows by rusqlite`,
  unit: 'per s',
  better: 'higher',
  atLeast: 0.3,
  aim: 0.5,

  async round(round) {
    const files = [round.file(), round.file()];
    const floor = round.floor('write', { db: files[0], instances: INSTANCES, steps: 1, batch: BATCH, warm: 1 });
    const perdure = await round.child('measure', { db: files[1] });
    round.assertSameRows(files[0], files[1]);
    return { floor: INSTANCES / floor.seconds, perdure: INSTANCES / perdure.seconds, notes: perdure.batches };
  },
  note: ({ commits, writesPerCommit }) => `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes.`,

  roles: {
    measure: ({ db, repeat = 1 }) =>
      withRuntime(db, registerChain, async (client, runtime) => {
        await runAll(client, 'warm', INSTANCES, 'chain', 1, 1);
        const before = runtime.metrics();
        let seconds = 0;
        for (let n = 0; n < repeat; n += 1) seconds += await runAll(client, `run${n}`, INSTANCES, 'chain', 1, 1);
        return { seconds: seconds / repeat, batches: batches(before, runtime.metrics()) };
      }),
  },
  profile: { role: 'measure', job: { repeat: 10 } },
};

// Many small instances at once: what a start and an end cost beside the one step between them.

import { measureRuns, runAll, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';
import { BATCH, registerChain, REPEAT } from './chain.mjs';

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
    const shape = { instances: INSTANCES, steps: 1, batch: BATCH };
    const floor = round.floor('write', { db: files[0], ...shape, warm: 1, repeat: REPEAT });
    const perdure = await round.child('measure', { db: files[1] });
    round.assertSameRows(files[0], files[1]);
    return {
      floor: INSTANCES / median(floor.seconds),
      perdure: INSTANCES / median(perdure.seconds),
      notes: perdure.batches,
    };
  },
  note: ({ commits, writesPerCommit }) => `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes.`,

  roles: {
    measure: ({ db, repeat = REPEAT }) =>
      withRuntime(db, registerChain, (client, runtime) =>
        measureRuns(runtime, repeat, (prefix) => runAll(client, prefix, INSTANCES, 'chain', 1, 1)),
      ),
  },
  profile: { role: 'measure', job: { repeat: 10 } },
};

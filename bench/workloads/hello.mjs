// Many small instances at once: the cost of a start and an end beside the one step between them.

import { measureRuns, runAll, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';
import { BATCH, REPEAT, registerChain } from './chain.mjs';

const INSTANCES = 2_000;

export const hello = {
  name: 'hello',
  what:
    `${INSTANCES} instances of one activity, started at once, until all are done; ` +
    'floor: the same rows by a raw writer',
  stores: ['sqlite', 'postgres'],
  unit: 'per s',
  better: 'higher',
  aim: 0.5,
  on: { sqlite: { atLeast: 0.3 }, postgres: { atLeast: 0.2 } },

  async round(round) {
    const places = [round.place(), round.place()];
    const shape = { instances: INSTANCES, steps: 1, batch: BATCH };
    const floor = round.floor('write', places[0], { ...shape, warm: 1, repeat: REPEAT });
    const perdure = await round.child('measure', { place: places[1] });
    const peer = await round.peer({ instances: INSTANCES, repeat: REPEAT });
    round.assertSameRows(...places);
    return {
      floor: INSTANCES / median(floor.seconds),
      perdure: INSTANCES / median(perdure.seconds),
      peer: peer && INSTANCES / median(peer.seconds),
      notes: perdure.batches,
    };
  },
  note: ({ commits, writesPerCommit }) => `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes.`,

  roles: {
    measure: ({ place, repeat = REPEAT }) =>
      withRuntime(place, registerChain, (client, runtime) =>
        measureRuns(runtime, repeat, (prefix) => runAll(client, prefix, INSTANCES, 'chain', 1, 1)),
      ),
  },
  profile: { role: 'measure', job: { repeat: 10 } },
};

// The chain, shared by several processes on the same tables.

import { runAll, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';
import { REPEAT, registerChain, STEPS } from './chain.mjs';

/**
 * The number of instances, the same for each number of processes, so that only the sharing counts. Four processes have
 * 100 each.
 */
const INSTANCES = 400;
const PROCESSES = [2, 4];
/** The peer is slow, so it runs once. */
const PEER_REPEAT = 1;

const figure = (processes, goals) => ({
  name: `scale ${processes}`,
  unit: 'steps/s',
  better: 'higher',
  ...goals,
  note: ({ commits, writesPerCommit }) =>
    `${Math.round(commits)} commits of ${writesPerCommit.toFixed(1)} writes, of all processes together.`,
});

export const scale = {
  name: 'scale',
  what: `${INSTANCES} instances × ${STEPS} steps by ${PROCESSES.join(' and ')} processes; reference: by one process`,
  stores: ['postgres'],
  figures: [figure(2, {}), figure(4, { atLeast: 1 })],

  async round(round) {
    const alone = await together(1, round.place(), (jobs) => round.children('measure', jobs));
    const figures = {};
    for (const processes of PROCESSES) {
      const { perSecond, notes } = await together(processes, round.place(), (jobs) => round.children('measure', jobs));
      const peer = await together(processes, round.place(), (jobs) => round.peers(jobs), PEER_REPEAT);
      figures[`scale ${processes}`] = { floor: alone.perSecond, perdure: perSecond, peer: peer?.perSecond, notes };
    }
    return figures;
  },

  roles: {
    measure: ({ place, process, instances, repeat }, meet) =>
      withRuntime(place, registerChain, async (client, runtime) => {
        const work = (prefix) => runAll(client, `${prefix}-${process}`, instances, 'chain', STEPS, STEPS);
        await meet?.();
        await work('warm');
        const before = runtime.metrics();
        const seconds = [];
        for (let n = 0; n < repeat; n += 1) {
          await meet?.();
          seconds.push(await work(`run${n}`));
        }
        // No process leaves while others work, because a runtime that stops hands over its instances.
        await meet?.();
        const { commitBatches, commitWrites } = runtime.metrics();
        return { seconds, commits: commitBatches - before.commitBatches, writes: commitWrites - before.commitWrites };
      }),
  },
  profile: { role: 'measure', job: { process: 0, instances: INSTANCES, repeat: 10 } },
};

/** Lets processes begin together. The time ends with the last of them. Returns `null` if there is no peer to do it. */
async function together(processes, place, run, repeat = REPEAT) {
  const share = { place, instances: INSTANCES / processes, steps: STEPS, repeat };
  const results = await run(Array.from({ length: processes }, (_, process) => ({ ...share, process })));
  if (results === null) return null;
  const seconds = Array.from({ length: repeat }, (_, n) => Math.max(...results.map((result) => result.seconds[n])));
  const sum = (key) => results.reduce((all, result) => all + result[key], 0);
  return {
    perSecond: (INSTANCES * STEPS) / median(seconds),
    notes: { commits: sum('commits') / repeat, writesPerCommit: sum('writes') / sum('commits') },
  };
}

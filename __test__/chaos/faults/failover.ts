// What can happen to a primary and its synchronous standby, and what an operator does then: what was acknowledged is there, whichever of the two is left.

import { pause } from '../../support/worker-parts.mjs';
import { type Cluster, noCluster } from '../../support/cluster.ts';
import type { Arena } from '../arena.ts';
import { PairSite } from '../pair.ts';
import type { Fault } from './fault.ts';

const common = { providers: ['postgres'], ground: 'pair', missing: noCluster } as const;

function siteOf(arena: Arena): PairSite {
  if (!(arena.site instanceof PairSite)) throw new Error('there is no standby here');
  return arena.site;
}

/** Promote the standby, see that work goes on there, and put another one in its place. `then` is done to the former primary at once. */
async function failOver(arena: Arena, then: (former: Cluster) => void = () => {}): Promise<void> {
  const site = siteOf(arena);
  const former = await site.promote();
  const promoted = Date.now();
  then(former);
  const before = await events(site.primary);
  await arena.until('something is committed on the new primary', async () => (await events(site.primary)) > before);
  arena.promotions.push(Date.now() - promoted);
  await arena.progress(20);
  await site.rebuild(former);
}

async function events(cluster: Cluster): Promise<number> {
  const [row] = await cluster.ask('SELECT count(*)::int AS count FROM chaos.history');
  return Number(row?.['count']);
}

export const primaryKilled: Fault = {
  ...common,
  name: 'primary-killed',
  what: 'the primary dies, and its standby is promoted',
  async strike(arena, dice) {
    siteOf(arena).primary.kill();
    await pause(dice.pick([0, 500, 3_000]));
    await failOver(arena);
    arena.count('primaries killed');
  },
};

export const primaryFrozen: Fault = {
  ...common,
  name: 'primary-frozen',
  what: 'the primary accepts connections and is silent while its standby is promoted, and never wakes up',
  async strike(arena, dice) {
    siteOf(arena).primary.freeze();
    await pause(dice.pick([0, 500, 3_000]));
    await failOver(arena);
    arena.count('primaries frozen');
  },
};

export const primaryThawed: Fault = {
  ...common,
  name: 'primary-thawed',
  what: 'the primary is silent while its standby is promoted, and wakes up without knowing of that, before anybody has left it',
  async strike(arena) {
    siteOf(arena).primary.freeze();
    await failOver(arena, (former) => former.thaw());
    arena.count('primaries frozen that woke up');
  },
};

/** Longer than a statement may take: a commit is not given up because of that. */
const AWAY_MS = 17_000;

/** What a process has open at most: its pool and the connection that listens. */
const CONNECTIONS_OF_ONE = 4 + 1;

export const standbyAway: Fault = {
  ...common,
  name: 'standby-away',
  what: 'the standby is gone for longer than a statement may take, and what is committed waits for it',
  async strike(arena) {
    const { primary, standby } = siteOf(arena);
    await standby.stop('immediate');
    const until = Date.now() + AWAY_MS;
    let most = 0;
    await arena.until('the standby has been away for long', async () => {
      const [row] = await primary.ask("SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'perdure'");
      most = Math.max(most, Number(row?.['count']));
      return Date.now() > until;
    });
    const allowed = CONNECTIONS_OF_ONE * (arena.workers.length + 1);
    if (most > allowed) arena.complaints.push(`${most} backends piled up while the standby was away, and ${allowed} connections may be open`);
    await standby.start();
    arena.count('standbys away');
  },
};

export const switchover: Fault = {
  ...common,
  name: 'switchover',
  what: 'the primary is shut down in good order, and its standby is promoted',
  async strike(arena) {
    await siteOf(arena).primary.stop('fast');
    await failOver(arena);
    arena.count('switchovers');
  },
};

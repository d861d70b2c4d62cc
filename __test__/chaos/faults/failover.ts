// Faults of a primary and its synchronous standby, each with the reaction of an operator. Every acknowledged change is
// on both servers, so it survives the loss of either one.

import { type Cluster, noCluster } from '../../support/cluster.ts';
import { pause } from '../../support/worker-parts.mjs';
import { type Arena, LEASE_MS } from '../arena.ts';
import { PairSite, POOL_SIZE } from '../pair.ts';
import type { Fault } from './fault.ts';

const common = { providers: ['postgres'], ground: 'pair', missing: noCluster } as const;

function siteOf(arena: Arena): PairSite {
  if (!(arena.site instanceof PairSite)) throw new Error('there is no standby here');
  return arena.site;
}

/**
 * Promotes the standby, waits until every process continues there, and puts a new standby in the place of the former
 * primary, which frees the connections that still hang on it. `then` is applied to the former primary at once. The
 * clock starts before the call of `pg_ctl promote`, because that returns some time after the new primary takes writes.
 * A client that only reads does not leave a former primary that woke up, so the client is given something to write.
 */
async function failOver(arena: Arena, then: (former: Cluster) => void = () => {}): Promise<void> {
  const site = siteOf(arena);
  const from = Date.now();
  const former = await site.promote();
  then(former);
  arena.client.tell({ type: 'another' });
  for (const { name } of arena.workers) {
    await arena.until(`${name} writes its lease on the new primary`, async () =>
      (await leasesSince(site.primary, from)).has(name),
    );
  }
  const workersMs = Date.now() - from;
  await arena.until('the client starts a program on the new primary', () => arena.hasStartedSince(from));
  arena.promotions.push({ workersMs, clientMs: Date.now() - from });
  await arena.progressOfEach();
  if (former.log.includes(CANCELLED))
    arena.complaints.push(
      'a commit that waited for the standby was cancelled, which shows it to whoever still reads the former primary',
    );
  await site.rebuild(former);
}

/** The warning of a server when it shows a commit that no standby has. */
const CANCELLED = 'canceling wait for synchronous replication due to user request';

/**
 * Returns the names of the workers that have written a lease on this server since `time`. A lease that the former
 * primary knew ends earlier.
 */
async function leasesSince(cluster: Cluster, time: number): Promise<Set<unknown>> {
  const rows = await cluster.ask(`SELECT name FROM chaos.workers WHERE lease_until > ${time + LEASE_MS}`);
  return new Set(rows.map((row) => row.name));
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
  what:
    'the primary is silent while its standby is promoted, ' +
    'and wakes up unaware of it, while clients are still connected',
  async strike(arena) {
    siteOf(arena).primary.freeze();
    await failOver(arena, (former) => former.thaw());
    arena.count('primaries frozen that woke up');
  },
};

/** Longer than the timeout of one statement, and of two in a row: a commit is not given up because of that. */
const AWAY_MS = 35_000;

/** The same for a short round: longer than the timeout of one statement. */
const AWAY_SHORT_MS = 17_000;

/**
 * The most connections that a process may have open: its pool, and the connection that listens. A commit that is given
 * up leaves its backend behind, which continues to wait.
 */
const OPEN_MAX = POOL_SIZE + 1;

export const standbyAway: Fault = {
  ...common,
  name: 'standby-away',
  what: 'the standby is gone for longer than a statement may take, and what is committed waits for it',
  async strike(arena) {
    const site = siteOf(arena);
    const { standby } = site;
    await standby.stop('immediate');
    const until = Date.now() + (arena.isShort ? AWAY_SHORT_MS : AWAY_MS);
    const most = new Map<string, number>();
    let waited = 0;
    await arena.until('the standby has been away for long', async () => {
      for (const { process, open, waiting } of await site.backends()) {
        most.set(process, Math.max(open, most.get(process) ?? 0));
        waited = Math.max(waited, waiting);
      }
      return Date.now() > until;
    });
    for (const [process, open] of most) {
      if (open > OPEN_MAX)
        arena.complaints.push(
          `${process} had ${open} backends while the standby was away, and may have ${OPEN_MAX} connections`,
        );
    }
    if (waited === 0) arena.complaints.push('nothing waited for the standby that was away');
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

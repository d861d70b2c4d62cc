// Faults of a Postgres server and of the network on the way to it.

import { noCluster, type StopMode } from '../../support/cluster.ts';
import { pause } from '../../support/worker-parts.mjs';
import type { Arena } from '../arena.ts';
import type { Dice } from '../dice.ts';
import { PostgresSite } from '../sites.ts';
import type { Fault } from './fault.ts';
import { registered, takenOver } from './lease.ts';

/** Returns the site of the round, which has a server. */
function siteOf(arena: Arena): PostgresSite {
  if (!(arena.site instanceof PostgresSite)) throw new Error('there is no server here');
  return arena.site;
}

const common = { providers: ['postgres'], missing: noCluster } as const;

async function bounce(arena: Arena, dice: Dice, mode: StopMode): Promise<void> {
  const { cluster } = siteOf(arena);
  await cluster.stop(mode);
  // In some cases the server is away for longer than a lease.
  await pause(dice.pick([0, 0, 500, 3_000]));
  await cluster.start();
  arena.count(mode === 'fast' ? 'restarts' : 'crashes');
}

export const restart: Fault = {
  ...common,
  name: 'restart',
  what: 'restart of the server',
  strike: (arena, dice) => bounce(arena, dice, 'fast'),
};

export const crash: Fault = {
  ...common,
  name: 'crash',
  what: 'immediate stop of the server',
  strike: (arena, dice) => bounce(arena, dice, 'immediate'),
};

const BREAK =
  'SELECT pg_terminate_backend(pid) FROM pg_stat_activity ' +
  "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

export const terminate: Fault = {
  ...common,
  name: 'terminate',
  what: 'all connections broken off, then one in the middle of a commit',
  async strike(arena) {
    const site = siteOf(arena);
    const broken = (sql: string) => async () => {
      const rows = await site.cluster.ask(sql);
      arena.count('connections broken', rows.length);
      return rows.length > 0;
    };
    await arena.until('connections are broken off', broken(BREAK));
    await arena.until(
      'a connection is broken off in a commit',
      broken(`${BREAK} AND state = 'active' AND query = 'COMMIT'`),
    );
  },
};

export const stall: Fault = {
  ...common,
  name: 'stall',
  what: 'the way to the server stops to take anything, beyond the lease of a worker',
  async strike(arena, dice) {
    const place = dice.between(0, arena.workers.length - 1);
    const { proxy } = siteOf(arena).way(place);
    const victim = arena.workers[place]!;
    const lost = await registered(arena, victim);
    const from = Date.now();
    proxy.block();
    await takenOver(arena, victim, lost, from, async () => proxy.free());
    arena.count('stalls');
  },
};

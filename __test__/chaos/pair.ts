// A primary and its synchronous standby: every acknowledged change is on the disks of both. Clients know both hosts and
// find the one that takes writes.

import { eventually } from '../support/async.ts';
import { Cluster } from '../support/cluster.ts';
import type { PostgresAddress, StoreAddress } from '../support/providers.ts';
import { PASSWORD, type Site } from './sites.ts';

const SCHEMA = 'chaos';

/**
 * A commit is slowed down, so that a fault may come in the middle of one. A standby that finds no primary sleeps for 5
 * s by default, and at times it does not hear of its promotion before it wakes.
 */
const SETTINGS = {
  commit_delay: 5_000,
  commit_siblings: 0,
  min_wal_size: '2MB',
  max_wal_size: '32MB',
  max_connections: 100,
  wal_retrieve_retry_interval: '100ms',
};

/** Connections of each process, besides the one that listens. */
export const POOL_SIZE = 4;

/** Limit for a standby to catch up, on a machine however slow. */
const FOLLOWS_MS = 30_000;

/** Returns the application name of connections of the worker in a place, or of the client. */
function nameOf(place: number | string = 'client'): string {
  return `chaos-${place}`;
}

interface Backends {
  readonly process: string;
  readonly open: number;
  readonly waiting: number;
}

export class PairSite implements Site {
  readonly provider = 'postgres';
  readonly holdsUpOthers = false;
  readonly mount = undefined;
  primary: Cluster;
  standby: Cluster;

  private constructor(primary: Cluster, standby: Cluster) {
    this.primary = primary;
    this.standby = standby;
  }

  static async create(): Promise<PairSite> {
    const primary = await Cluster.create(SETTINGS);
    const site = new PairSite(primary, await Cluster.standbyOf(primary));
    await site.demand();
    return site;
  }

  /**
   * Makes replication synchronous: from now on a commit waits for the standby's disk, too. Resolves when the standby
   * has everything that was written before.
   */
  async demand(): Promise<void> {
    await this.primary.set('synchronous_standby_names', '*');
    const isSynchronous = async () =>
      (await this.primary.ask("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")).length > 0;
    await eventually(FOLLOWS_MS, 'the standby is synchronous', isSynchronous);
    await this.primary.ask("SELECT pg_logical_emit_message(true, 'chaos', '')");
  }

  /**
   * Promotes the standby to primary. No other party decides on failovers here, and none may. The returned former
   * primary is not told.
   */
  async promote(): Promise<Cluster> {
    await this.standby.promote();
    [this.primary, this.standby] = [this.standby, this.primary];
    return this.standby;
  }

  /** Removes the former primary, and starts a new standby on its port from a copy of the new primary. */
  async rebuild(former: Cluster): Promise<void> {
    // The former primary must not wake up now.
    former.kill();
    await former.remove();
    this.standby = await Cluster.standbyOf(this.primary, former.port);
    await this.demand();
  }

  /** The address of the primary. */
  get address(): PostgresAddress {
    return { kind: 'postgres', url: this.primary.url, schema: SCHEMA };
  }

  /**
   * Returns an address with both hosts, always in the same order: at times the first one is the primary. The
   * application name tells the server which process a connection belongs to.
   */
  addressOf(place?: number): StoreAddress {
    const [one, other] = [this.primary.port, this.standby.port].sort((a, b) => a - b);
    const settings = `target_session_attrs=read-write&sslmode=disable&application_name=${nameOf(place)}`;
    return {
      ...this.address,
      url: `postgres://postgres:${PASSWORD}@127.0.0.1:${one},127.0.0.1:${other}/postgres?${settings}`,
      poolSize: POOL_SIZE,
    };
  }

  /** Returns the backends of the primary by process: the number of all, and of those that wait for the standby. */
  async backends(): Promise<Backends[]> {
    const rows = await this.primary.ask(
      `SELECT application_name AS process, count(*)::int AS open,
         (count(*) FILTER (WHERE wait_event = 'SyncRep'))::int AS waiting
       FROM pg_stat_activity WHERE application_name LIKE '${nameOf('%')}' GROUP BY 1`,
    );
    return rows as unknown as Backends[];
  }

  async holdWrites(): Promise<() => Promise<void>> {
    throw new Error('nothing is between workers and these servers');
  }

  async remove(): Promise<void> {
    await Promise.all([this.primary, this.standby].map((cluster) => cluster.remove()));
  }
}

// A primary and its synchronous standby: what is acknowledged is on the disks of both. Clients are told of both hosts and find the one that takes writes.

import { eventually } from '../support/async.ts';
import { Cluster } from '../support/cluster.ts';
import type { PostgresAddress, StoreAddress } from '../support/providers.ts';
import { PASSWORD, type Site } from './sites.ts';

const SCHEMA = 'chaos';

/**
 * A commit takes its time, so that a fault may come in the middle of one. A standby that looks for a primary in vain sleeps for 5 s by default, and at times
 * does not hear of its promotion before.
 */
const SETTINGS = {
  commit_delay: 5_000,
  commit_siblings: 0,
  min_wal_size: '2MB',
  max_wal_size: '32MB',
  max_connections: 100,
  wal_retrieve_retry_interval: '100ms',
};

/** Of each process, besides the connection that listens. */
export const POOL_SIZE = 4;

/** However slow the machine is, a standby follows by then. */
const FOLLOWS_MS = 30_000;

/** What a connection of the worker in a place is called, or one of the client. */
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

  /** From now on the standby's disk counts, too. Resolves when it has all that was written before. */
  async demand(): Promise<void> {
    await this.primary.set('synchronous_standby_names', '*');
    const isSynchronous = async () =>
      (await this.primary.ask("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")).length > 0;
    await eventually(FOLLOWS_MS, 'the standby is synchronous', isSynchronous);
    await this.primary.ask("SELECT pg_logical_emit_message(true, 'chaos', '')");
  }

  /** The standby becomes the primary. Nobody else decides that here, so nobody else may: the former one, which is returned, is told no more. */
  async promote(): Promise<Cluster> {
    await this.standby.promote();
    [this.primary, this.standby] = [this.standby, this.primary];
    return this.standby;
  }

  /** The former primary is no more: a new standby stands on its port, from a copy of the new primary. */
  async rebuild(former: Cluster): Promise<void> {
    // It must not wake up now.
    former.kill();
    await former.remove();
    this.standby = await Cluster.standbyOf(this.primary, former.port);
    await this.demand();
  }

  /** Where the primary is. */
  get address(): PostgresAddress {
    return { kind: 'postgres', url: this.primary.url, schema: SCHEMA };
  }

  /** Both hosts, always in the same order: at times the first one is the primary. The server is told whose connection it is. */
  addressOf(place?: number): StoreAddress {
    const [one, other] = [this.primary.port, this.standby.port].sort((a, b) => a - b);
    const settings = `target_session_attrs=read-write&sslmode=disable&application_name=${nameOf(place)}`;
    return {
      ...this.address,
      url: `postgres://postgres:${PASSWORD}@127.0.0.1:${one},127.0.0.1:${other}/postgres?${settings}`,
      poolSize: POOL_SIZE,
    };
  }

  /** Backends of the primary, by process: all of them, and those that wait for the standby. */
  async backends(): Promise<Backends[]> {
    const rows = await this.primary.ask(
      `SELECT application_name AS process, count(*)::int AS open, (count(*) FILTER (WHERE wait_event = 'SyncRep'))::int AS waiting
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

// The site of a round: a store, and the file system or servers below it.

import { rmSync } from 'node:fs';
import { join } from 'node:path';

import { Cluster } from '../support/cluster.ts';
import { Mount } from '../support/mounts.ts';
import { Process, root } from '../support/process.ts';
import { type StoreAddress, temporaryFolder } from '../support/providers.ts';
import { Proxy } from '../support/proxy.ts';
import { PairSite } from './pair.ts';

export type ProviderName = 'sqlite' | 'postgres';

/**
 * The ground below a store: the kind of file system that holds its files or, for a server, that it has a synchronous
 * standby.
 */
export type Ground = 'disk' | 'tmpfs' | 'ext4' | 'pair';

/** Part of every connection URL. It must appear in no output. A server that trusts every connection ignores it. */
export const PASSWORD = 'canary-password';

/** Small enough to be filled up, large enough for a round. */
const MOUNT_BYTES: Readonly<Record<ProviderName, number>> = { sqlite: 64 * 1024 * 1024, postgres: 192 * 1024 * 1024 };

export interface Site {
  readonly provider: ProviderName;
  /** The file system of the store, if it can be filled up or cut off. */
  readonly mount: Mount | undefined;
  /** The current address of the store. */
  readonly address: StoreAddress;
  /** Returns the address of the store for the worker in a place, or for a client. */
  addressOf(place?: number): StoreAddress;
  /**
   * Delays the writes of the worker in a place until the returned function is called. They are not lost meanwhile, even
   * if the worker stands still.
   */
  holdWrites(place: number): Promise<() => Promise<void>>;
  /** True if that delays the writes of all other processes as well. */
  readonly holdsUpOthers: boolean;
  remove(): Promise<void>;
}

export async function makeSite(provider: ProviderName, ground: Ground, places: number): Promise<Site> {
  if (ground === 'pair') return PairSite.create();
  const bytes = MOUNT_BYTES[provider];
  const mount = ground === 'tmpfs' ? await Mount.tmpfs(bytes) : ground === 'ext4' ? await Mount.ext4(bytes) : undefined;
  return provider === 'sqlite' ? new SqliteSite(mount) : PostgresSite.create(mount, places);
}

class SqliteSite implements Site {
  readonly provider = 'sqlite';
  readonly holdsUpOthers = true;
  readonly mount: Mount | undefined;
  readonly address: StoreAddress & { kind: 'sqlite' };
  readonly #folder: string;

  constructor(mount: Mount | undefined) {
    this.mount = mount;
    this.#folder = mount?.folder ?? temporaryFolder();
    this.address = { kind: 'sqlite', path: join(this.#folder, 'store.db') };
  }

  addressOf(): StoreAddress {
    return this.address;
  }

  /** SQLite allows one writer at a time: the holder takes the write lock, writes nothing, and keeps the lock. */
  async holdWrites(): Promise<() => Promise<void>> {
    const holder = new Process<{ type: 'holds' }, object>('holder', [
      process.execPath,
      join(root, '__test__/chaos/holder.mjs'),
      this.address.path,
    ]);
    await holder.said('holds');
    return () => holder.kill();
  }

  async remove(): Promise<void> {
    if (this.mount === undefined) rmSync(this.#folder, { recursive: true });
    else await this.mount.remove();
  }
}

export class PostgresSite implements Site {
  readonly provider = 'postgres';
  readonly holdsUpOthers = false;
  readonly mount: Mount | undefined;
  readonly cluster: Cluster;
  readonly address: StoreAddress & { kind: 'postgres' };
  /** A proxy to the server for each place. */
  readonly ways: readonly { readonly proxy: Proxy; readonly url: string }[];

  private constructor(
    mount: Mount | undefined,
    cluster: Cluster,
    address: StoreAddress & { kind: 'postgres' },
    ways: PostgresSite['ways'],
  ) {
    this.mount = mount;
    this.cluster = cluster;
    this.address = address;
    this.ways = ways;
  }

  static async create(mount: Mount | undefined, places: number): Promise<PostgresSite> {
    // A commit is slowed down, so that a fault may come in the middle of one. The log is small, so that it fits on
    // every ground.
    const settings = {
      commit_delay: 5_000,
      commit_siblings: 0,
      min_wal_size: '2MB',
      max_wal_size: '32MB',
      max_connections: 60,
    };
    const cluster = await Cluster.create(settings, mount === undefined ? undefined : mount.subfolder('server'));
    await mount?.sync();
    const url = new URL(cluster.url);
    url.password = PASSWORD;
    const ways = await Promise.all(Array.from({ length: places }, () => Proxy.to(url.href)));
    return new PostgresSite(mount, cluster, { kind: 'postgres', url: url.href, schema: 'chaos' }, ways);
  }

  addressOf(place?: number): StoreAddress {
    return place === undefined ? this.address : { ...this.address, url: this.way(place).url };
  }

  way(place: number): { readonly proxy: Proxy; readonly url: string } {
    const way = this.ways[place];
    if (way === undefined) throw new Error(`there is no place ${place}`);
    return way;
  }

  async holdWrites(place: number): Promise<() => Promise<void>> {
    const { proxy } = this.way(place);
    proxy.block();
    return async () => proxy.free();
  }

  async remove(): Promise<void> {
    await Promise.all(this.ways.map(({ proxy }) => proxy.close()));
    await this.cluster.remove();
    await this.mount?.remove();
  }
}

// A real PgBouncer in transaction mode: each transaction of a client may have another connection of the server.

import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client as PgClient } from 'pg';

import { eventually } from './async.ts';
import { Cluster, freePort, noCluster, user } from './cluster.ts';
import { temporaryFolder } from './providers.ts';

/** See scripts/with-programs.mjs. */
const program =
  process.env.PERDURE_TEST_PGBOUNCER ||
  ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/opt/homebrew/bin/pgbouncer'].find(existsSync);

/** The reason for which a test cannot have a pooler here. `undefined` if it can. */
export const noPooler = noCluster ?? (program === undefined ? "the program 'pgbouncer' is not here" : undefined);

/** A pooler before a server of its own. */
export class Pooler {
  /** Leads to the database through the pooler. */
  readonly url: string;
  readonly #cluster: Cluster;
  readonly #process: ChildProcess;
  readonly #folder: string;

  private constructor(url: string, cluster: Cluster, process: ChildProcess, folder: string) {
    this.url = url;
    this.#cluster = cluster;
    this.#process = process;
    this.#folder = folder;
  }

  /** Starts a pooler that holds up to `connections` connections of its server. */
  static async create(connections: number): Promise<Pooler> {
    const cluster = await Cluster.create();
    const port = await freePort();
    const folder = temporaryFolder();
    const ini = join(folder, 'pgbouncer.ini');
    writeFileSync(
      ini,
      `[databases]\n* = host=127.0.0.1 port=${cluster.port} user=postgres\n` +
        `[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\n` +
        `unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = ${connections}\n`,
    );
    for (const path of [folder, ini])
      if (user?.uid !== undefined && user.gid !== undefined) chownSync(path, user.uid, user.gid);
    const pooler = spawn(program ?? '', [ini], { ...user, stdio: 'ignore' });
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
    await eventually(20_000, 'it answers', async () => {
      const client = new PgClient({ connectionString: url });
      return client.connect().then(
        () => client.end().then(() => true),
        () => false,
      );
    });
    return new Pooler(url, cluster, pooler, folder);
  }

  async remove(): Promise<void> {
    this.#process.kill();
    await this.#cluster.remove();
    rmSync(this.#folder, { recursive: true });
  }
}

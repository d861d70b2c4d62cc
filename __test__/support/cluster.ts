// A Postgres server of a test's own: one that may be stopped, restarted and filled up.

import { execFile, spawnSync } from 'node:child_process';
import { appendFileSync, chownSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { temporaryFolder } from './providers.ts';

const run = promisify(execFile);

/** Where the server's programs may be, the newest of each place first. */
const PROGRAMS = ['/usr/lib/postgresql', '/opt/homebrew/opt', '/usr/local/opt'].flatMap((place) => {
  const names = existsSync(place) ? readdirSync(place) : [];
  const versions = names.filter((name) => /^(postgresql@)?\d+$/.test(name)).sort().reverse();
  return versions.map((name) => join(place, name, 'bin'));
});

const programs = PROGRAMS.find((folder) => existsSync(join(folder, 'initdb')));

/** Postgres does not run as root: root lends it another user's id. */
const user: User | undefined = process.getuid?.() === 0 ? idsOf('postgres') : {};

/** Why a test cannot have a server of its own here; `undefined`: it can. */
export const noCluster: string | undefined =
  programs === undefined
    ? 'the programs of a Postgres server are not here'
    : user === undefined
      ? "Postgres does not run as root, and there is no user 'postgres'"
      : undefined;

interface User {
  readonly uid?: number;
  readonly gid?: number;
}

function idsOf(name: string): User | undefined {
  const [uid, gid] = ['-u', '-g'].map((which) => spawnSync('id', [which, name], { encoding: 'utf8' }));
  return uid?.status === 0 && gid?.status === 0 ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined;
}

/** How `pg_ctl` stops a server: it breaks connections off in good order, or dies as in a crash. */
export type StopMode = 'fast' | 'immediate';

export class Cluster {
  readonly url: string;
  readonly #folder: string;

  private constructor(folder: string, url: string) {
    this.#folder = folder;
    this.url = url;
  }

  /** A new server with some settings. Whoever asks calls {@link remove}. */
  static async create(settings: Readonly<Record<string, string | number>> = {}): Promise<Cluster> {
    const folder = temporaryFolder();
    if (user?.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
    const port = await freePort();
    const cluster = new Cluster(folder, `postgres://postgres@127.0.0.1:${port}/postgres`);
    await cluster.#do('initdb', '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync');
    const all = { port, listen_addresses: '127.0.0.1', unix_socket_directories: '', shared_buffers: '32MB', ...settings };
    const lines = Object.entries(all).map(([name, value]) => `${name} = '${value}'\n`);
    appendFileSync(join(folder, 'data', 'postgresql.conf'), lines.join(''));
    await cluster.start();
    return cluster;
  }

  /** Resolves when it takes connections. */
  async start(): Promise<void> {
    await this.#do('pg_ctl', 'start', '-w', '-l', join(this.#folder, 'log'));
  }

  async stop(mode: StopMode): Promise<void> {
    await this.#do('pg_ctl', 'stop', '-w', '-m', mode);
  }

  /** Stop it and take its files away. */
  async remove(): Promise<void> {
    await this.stop('immediate').catch(() => {});
    rmSync(this.#folder, { recursive: true });
  }

  async #do(program: string, ...args: string[]): Promise<void> {
    const data = join(this.#folder, 'data');
    await run(join(programs ?? '', program), ['-D', data, ...args], { cwd: this.#folder, ...user });
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}

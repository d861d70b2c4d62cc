// A Postgres server of a test's own, which may be stopped, restarted and filled up.

import { execFile, spawnSync } from 'node:child_process';
import { appendFileSync, chownSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client as PgClient } from 'pg';

import { temporaryFolder } from './providers.ts';

const run = promisify(execFile);

/** Places where the server's programs may be, the newest of each place first. */
const PROGRAMS = ['/usr/lib/postgresql', '/opt/homebrew/opt', '/usr/local/opt'].flatMap((place) => {
  const names = existsSync(place) ? readdirSync(place) : [];
  const versions = names
    .filter((name) => /^(postgresql@)?\d+$/.test(name))
    .sort()
    .reverse();
  return versions.map((name) => join(place, name, 'bin'));
});

const programs = PROGRAMS.find((folder) => existsSync(join(folder, 'initdb')));

/** Postgres does not run as root, so root runs it as another user. */
export const user: User | undefined = process.getuid?.() === 0 ? idsOf('postgres') : {};

/** The reason for which a test cannot have a server of its own here. `undefined` if it can. */
export const noCluster: string | undefined =
  programs === undefined
    ? 'the programs of a Postgres server are not here'
    : user === undefined
      ? "Postgres does not run as root, and there is no user 'postgres'"
      : undefined;

export interface User {
  readonly uid?: number;
  readonly gid?: number;
}

function idsOf(name: string): User | undefined {
  const [uid, gid] = ['-u', '-g'].map((which) => spawnSync('id', [which, name], { encoding: 'utf8' }));
  return uid?.status === 0 && gid?.status === 0 ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined;
}

/** Ways in which `pg_ctl` stops a server: it closes connections in good order, or dies as in a crash. */
export type StopMode = 'fast' | 'immediate';

export class Cluster {
  readonly url: string;
  readonly port: number;
  readonly #folder: string;
  /** The process id of the server's first process, from which all others come. */
  #pid = 0;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.port = port;
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  }

  /** Creates and starts a server with some settings, in an empty folder. The caller calls {@link remove}. */
  static async create(
    settings: Readonly<Record<string, string | number>> = {},
    folder = temporaryFolder(),
  ): Promise<Cluster> {
    if (user?.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
    const port = await freePort();
    const cluster = new Cluster(folder, port);
    await cluster.#do(
      'initdb',
      '-U',
      'postgres',
      '-A',
      'trust',
      '-E',
      'UTF8',
      '--locale=C',
      '--no-sync',
      '--wal-segsize=1',
    );
    const all = {
      port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      shared_buffers: '32MB',
      ...settings,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name} = '${value}'\n`);
    appendFileSync(join(folder, 'data', 'postgresql.conf'), lines.join(''));
    await cluster.start();
    return cluster;
  }

  /**
   * Creates and starts a standby of another server, on a port of its own unless one is given. The standby has the
   * received data on its disk. The caller calls {@link remove}.
   */
  static async standbyOf(primary: Cluster, port?: number): Promise<Cluster> {
    const folder = temporaryFolder();
    if (user?.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
    const standby = new Cluster(folder, port ?? (await freePort()));
    await standby.#do('pg_basebackup', '-d', primary.url, '-R', '-X', 'stream', '-c', 'fast', '--no-sync');
    appendFileSync(join(folder, 'data', 'postgresql.conf'), `port = '${standby.port}'\n`);
    await standby.start();
    return standby;
  }

  /**
   * Makes a base backup of a server. The backup is not started, and has the server's port. The caller calls {@link
   * remove}.
   */
  static async backupOf(primary: Cluster): Promise<Cluster> {
    const folder = temporaryFolder();
    if (user?.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
    const backup = new Cluster(folder, primary.port);
    await backup.#do('pg_basebackup', '-d', primary.url, '-X', 'stream', '-c', 'fast', '--no-sync');
    return backup;
  }

  /** Changes a setting that needs no restart. */
  async set(name: string, value: string): Promise<void> {
    await this.ask(`ALTER SYSTEM SET ${name} = '${value}'`);
    await this.ask('SELECT pg_reload_conf()');
  }

  /** Adds a line at the head of `pg_hba.conf`, where it takes precedence over the others. */
  async admit(line: string): Promise<void> {
    const file = join(this.#folder, 'data', 'pg_hba.conf');
    writeFileSync(file, `${line}\n${readFileSync(file, 'utf8')}`);
    await this.ask('SELECT pg_reload_conf()');
  }

  /** Runs a query on a connection of its own, and returns the rows. */
  async ask(sql: string): Promise<readonly Record<string, unknown>[]> {
    const client = new PgClient({ connectionString: this.url });
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  }

  /** The log of the server. */
  get log(): string {
    return readFileSync(join(this.#folder, 'log'), 'utf8');
  }

  /** Starts the server. Resolves when it takes connections. */
  async start(): Promise<void> {
    const log = join(this.#folder, 'log');
    try {
      await this.#do('pg_ctl', 'start', '-w', '-l', log);
    } catch (error) {
      throw new Error(`the server does not start:\n${readFileSync(log, 'utf8').slice(-2_000)}`, { cause: error });
    }
    this.#pid = Number.parseInt(readFileSync(join(this.#folder, 'data', 'postmaster.pid'), 'utf8'), 10);
  }

  async stop(mode: StopMode): Promise<void> {
    await this.#do('pg_ctl', 'stop', '-w', '-m', mode);
    this.#pid = 0;
  }

  /** Starts the server after {@link kill}. */
  async startAgain(): Promise<void> {
    // The process id in this file is still in use until the parent has reaped the killed process. After a real crash of
    // the machine it would not be in use.
    rmSync(join(this.#folder, 'data', 'postmaster.pid'), { force: true });
    await this.start();
  }

  /** Restarts the server as a standby: it takes connections, and no writes. */
  async demote(): Promise<void> {
    await this.stop('fast');
    const signal = join(this.#folder, 'data', 'standby.signal');
    writeFileSync(signal, '');
    if (user?.uid !== undefined && user.gid !== undefined) chownSync(signal, user.uid, user.gid);
    await this.start();
  }

  /** Promotes a standby. Resolves when it takes writes. */
  async promote(): Promise<void> {
    await this.#do('pg_ctl', 'promote', '-w');
  }

  /** Starts the server unless it runs: it may have given up by itself. */
  async revive(): Promise<void> {
    const runs = await this.#do('pg_ctl', 'status').then(
      () => true,
      () => false,
    );
    if (!runs) await this.start();
  }

  /** Sends SIGKILL to all its processes, as if the machine had gone down: nothing is written to its files. */
  kill(): void {
    this.#signal('SIGKILL');
    this.#pid = 0;
  }

  /** Sends SIGSTOP to all its processes. The system still accepts connections, and the server answers nothing. */
  freeze(): void {
    this.#signal('SIGSTOP');
  }

  /** Sends SIGCONT to all its processes. */
  thaw(): void {
    this.#signal('SIGCONT');
  }

  #signal(signal: NodeJS.Signals): void {
    // The process id may belong to another process by now.
    if (this.#pid === 0) return;
    const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(this.#pid)], { encoding: 'utf8' });
    for (const pid of [this.#pid, ...stdout.split('\n').filter(Boolean).map(Number)]) {
      try {
        process.kill(pid, signal);
      } catch (error) {
        if ((error as { code?: string }).code !== 'ESRCH') throw error;
      }
    }
  }

  /** Stops the server and removes its files. */
  async remove(): Promise<void> {
    this.thaw();
    await this.stop('immediate').catch(() => {});
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #do(program: string, ...args: string[]): Promise<void> {
    const data = join(this.#folder, 'data');
    await run(join(programs ?? '', program), ['-D', data, ...args], { cwd: this.#folder, ...user });
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}

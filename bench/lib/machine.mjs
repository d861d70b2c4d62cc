// The machine that the figures were measured on, and the reasons to doubt them.

import { statfsSync } from 'node:fs';
import os from 'node:os';

const TMPFS = 0x01021994;

/** @param {object | null} server the answer of a Postgres server to `ping` */
export function machine(directory, server) {
  const cpus = os.cpus();
  return {
    cpu: cpus[0]?.model ?? 'unknown processor',
    cpus: cpus.length,
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    nodeEnv: process.env.NODE_ENV ?? null,
    load: Math.round((os.loadavg()[0] ?? 0) * 100) / 100,
    postgres: server,
    inMemory: process.platform === 'linux' && statfsSync(directory).type === TMPFS,
  };
}

export function warnings(before, after) {
  const found = [];
  if (before.inMemory) {
    found.push('the files are on a tmpfs, where a commit costs nothing: name a folder on a disk with --dir.');
  }
  const { postgres } = before;
  if (postgres !== null && (postgres.fsync !== 'on' || postgres.synchronousCommit === 'off')) {
    const { fsync, synchronousCommit } = postgres;
    found.push(`Postgres does not sync its commits (fsync ${fsync}, synchronous_commit ${synchronousCommit}).`);
  }
  // The measurement itself makes a load of about one per core.
  if (before.load > before.cpus / 2 || after.load > before.cpus * 1.5) {
    found.push('the machine did other work meanwhile: these figures are worth little.');
  }
  return found;
}

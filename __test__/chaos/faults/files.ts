// Faults of the files of a store.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { noPowerCut, noTmpfs } from '../../support/mounts.ts';
import { pause } from '../../support/worker-parts.mjs';
import type { Arena } from '../arena.ts';
import { PostgresSite } from '../sites.ts';
import type { Fault } from './fault.ts';

function mountOf(arena: Arena) {
  if (arena.site.mount === undefined) throw new Error('the store is on no file system of its own');
  return arena.site.mount;
}

/** Fills the file system until a process has met the error. */
export const full: Fault = {
  name: 'full',
  what: 'disk full',
  providers: ['sqlite', 'postgres'],
  ground: 'tmpfs',
  missing: noTmpfs,
  async strike(arena, dice) {
    const retries = arena.sum('commitRetries');
    const filler = mountOf(arena).fill();
    try {
      await arena.until('a write fails for want of room', () => arena.sum('commitRetries') > retries);
      await pause(dice.between(0, 1_000));
    } finally {
      rmSync(filler);
    }
    if (arena.site instanceof PostgresSite) await arena.site.cluster.revive();
    arena.count('disks full');
  },
};

/** Cuts the power: all unsynced writes are lost, and so are all processes. */
export const power: Fault = {
  name: 'power',
  what: 'power cut',
  providers: ['sqlite', 'postgres'],
  ground: 'ext4',
  missing: noPowerCut,
  async strike(arena) {
    const { site, workers } = arena;
    const mount = mountOf(arena);
    await arena.cutPower(await mount.powerSwitch());
    if (site instanceof PostgresSite) site.cluster.kill();
    await mount.restorePower();
    if (site instanceof PostgresSite) await site.cluster.startAgain();
    await arena.open(workers.length);
    arena.count('power cuts');
  },
};

/**
 * Returns the command that makes the n-th of these system calls fail. The tracer is the grandchild, so that the child
 * is the traced process itself.
 */
function straceOf(calls: string, n: number, log: string): string[] {
  return [
    'strace',
    '-D',
    '-f',
    '--seccomp-bpf',
    '-e',
    `trace=${calls}`,
    '-e',
    `inject=${calls}:error=EIO:when=${n}`,
    '-o',
    log,
  ];
}

function refusalOfStrace(): string | undefined {
  if (process.platform !== 'linux') return 'only Linux has strace';
  const [program = '', ...args] = [...straceOf('fsync', 1, '/dev/null'), 'true'];
  return spawnSync(program, args).status === 0 ? undefined : "the program 'strace' is not here, or may not trace";
}

/** Makes the n-th write or sync of a worker fail. */
export const eio: Fault = {
  name: 'eio',
  what: 'EIO on the n-th write or sync of a worker',
  providers: ['sqlite'],
  missing: refusalOfStrace(),
  async strike(arena, dice) {
    const place = dice.between(0, arena.workers.length - 1);
    const [call, n] = dice.oneIn(2)
      ? (['pwrite64', dice.between(30, 150)] as const)
      : (['fsync,fdatasync', dice.between(5, 60)] as const);
    const log = join(arena.folder, `strace ${Date.now()}`);
    await arena.kill(arena.workers[place]!);
    const worker = await arena.startWorker(place, straceOf(call, n, log));
    await arena.until(
      `${call} ${n} fails`,
      () => existsSync(log) && readFileSync(log, 'latin1').includes('(INJECTED)'),
    );
    // The worker continues to run, and reports its counters.
    await arena.moment(dice);
    await arena.inTime(`${worker.name} goes on`, worker.said('counts', worker.all('counts').length + 2));
    await arena.kill(arena.workers[place]!);
    await arena.startWorker(place);
    arena.count('failed writes and syncs');
  },
};

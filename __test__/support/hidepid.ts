// Processes of different users that cannot see each other: each has a /proc of its own that is mounted with `hidepid`,
// as systemd's `ProtectProc=invisible` mounts it. This requires Linux and root.

import { spawnSync } from 'node:child_process';

import { root } from './process.ts';

/** Returns the command prefix that runs a command as this user behind such a /proc. */
export function behindHidepid(user: number): string[] {
  const mount = 'mount -t proc -o hidepid=2 proc /proc';
  const script = `${mount} && exec setpriv --reuid=${user} --regid=${user} --clear-groups -- "$@"`;
  return ['unshare', '-m', 'sh', '-c', script, 'sh'];
}

/** Returns true if a user behind such a /proc can see the process. */
export function isShownTo(user: number, pid: number): boolean {
  return runs(user, `process.exit(require('node:fs').existsSync('/proc/${pid}') ? 0 : 1)`);
}

function runs(user: number, code: string): boolean {
  const [program = '', ...args] = [...behindHidepid(user), process.execPath, '-e', code];
  return spawnSync(program, args, { cwd: root }).status === 0;
}

/** The reason for which there can be no such processes here. `undefined` if there can. */
export const noHidepid: string | undefined =
  process.platform !== 'linux'
    ? 'only Linux hides processes'
    : process.getuid?.() !== 0
      ? 'only root mounts a /proc'
      : runs(65_533, "require.resolve('perdure')")
        ? undefined
        : 'this machine refuses to mount a /proc, or its other users cannot read this folder';

// Installs the peers: other engines that do the same workloads. That is done when one is first asked for.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { bench } from './paths.mjs';

/** Folders with a package-lock.json of their own. */
const FOLDERS = [bench, ...['dbos-datasource', 'job-queues'].map((name) => join(bench, 'peers', name))];

/** Installs the packages of the peers, unless they are there. Returns true if they are there now. */
export function install() {
  return FOLDERS.every((folder) => installIn(folder));
}

function installIn(folder) {
  const stamp = join(folder, 'node_modules', '.perdure-stamp');
  const now = createHash('sha256')
    .update(readFileSync(join(folder, 'package-lock.json')))
    .digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === now) return true;
  const words = ['--prefix', folder, 'ci', '--loglevel=error'];
  const npm = process.env.npm_execpath;
  const line = npm?.endsWith('.js') ? [process.execPath, npm, ...words] : ['npm', ...words];
  const options = { stdio: ['ignore', 'ignore', 'inherit'], shell: line[0] === 'npm' && process.platform === 'win32' };
  const { status } = spawnSync(line[0], line.slice(1), options);
  if (status !== 0) return false;
  writeFileSync(stamp, now);
  return true;
}

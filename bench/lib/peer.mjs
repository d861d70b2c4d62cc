// The peer: another engine that does the same workloads in the same run. It is installed when it is first asked for.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { dbos } from '../peers/dbos.mjs';
import { bench } from './paths.mjs';

export const PEERS = [dbos];

const lock = join(bench, 'package-lock.json');
const stamp = join(bench, 'node_modules', '.perdure-stamp');

/** Installs the packages of bench/package-lock.json, unless they are there. Returns true if they are there now. */
export function install() {
  const now = createHash('sha256').update(readFileSync(lock)).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === now) return true;
  const words = ['--prefix', bench, 'ci', '--loglevel=error'];
  const npm = process.env.npm_execpath;
  const line = npm?.endsWith('.js') ? [process.execPath, npm, ...words] : ['npm', ...words];
  const options = { stdio: ['ignore', 'ignore', 'inherit'], shell: line[0] === 'npm' && process.platform === 'win32' };
  const { status } = spawnSync(line[0], line.slice(1), options);
  if (status !== 0) return false;
  writeFileSync(stamp, now);
  return true;
}

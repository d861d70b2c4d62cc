// The raw writer (floor/, Rust): built once, run as a process of its own for every measurement.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { bench, root } from './paths.mjs';
import { floorOptions, POSTGRES_URL } from './stores.mjs';

const target = join(root, 'target', 'bench');
const program = join(target, 'release', `perdure-bench-floor${process.platform === 'win32' ? '.exe' : ''}`);

export function buildFloor() {
  const where = ['--manifest-path', join(bench, 'floor', 'Cargo.toml'), '--target-dir', target];
  const { status, error } = spawnSync('cargo', ['build', '--quiet', '--release', '--locked', ...where], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (error !== undefined || status !== 0) throw new Error('the floor (bench/floor) could not be built');
}

/**
 * Runs a command of the floor in a place and returns the JSON that it printed.
 *
 * @param {'write' | 'commit' | 'read' | 'count'} command
 * @param {import('./stores.mjs').Place} place
 * @param {Record<string, string | number>} options
 */
export function runFloor(command, place, options = {}) {
  return run(command, { ...floorOptions(place), ...options });
}

/**
 * Runs a command for the Postgres server. `name` is that of a schema or database, or the beginning of one.
 *
 * @param {'ping' | 'create-database' | 'drop' | 'transactions'} command
 * @param {string} [name]
 */
export function runOnServer(command, name) {
  return run(command, { url: POSTGRES_URL, ...(name === undefined ? {} : { schema: name }) });
}

function run(command, options) {
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const { status, stdout, stderr, error } = spawnSync(program, [command, ...words], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (error !== undefined || status !== 0) throw new Error(`${command}: ${stderr?.trim() || error}`);
  return JSON.parse(stdout);
}

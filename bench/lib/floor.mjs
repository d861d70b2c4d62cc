// The raw writer (floor/, Rust): built once, run as a process of its own for every measurement.

import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { bench, root } from './paths.mjs';

const target = join(root, 'target', 'bench');
const program = join(target, 'release', `perdure-bench-floor${process.platform === 'win32' ? '.exe' : ''}`);
const schema = join(root, 'crates', 'provider-sqlite', 'src', 'migrations');

export function buildFloor() {
  const where = ['--manifest-path', join(bench, 'floor', 'Cargo.toml'), '--target-dir', target];
  const { status, error } = spawnSync('cargo', ['build', '--quiet', '--release', '--locked', ...where], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (error !== undefined || status !== 0) throw new Error('the floor (bench/floor) could not be built');
}

/**
 * Run a command of the floor and return what it printed.
 *
 * @param {'write' | 'commit' | 'read' | 'count'} command
 * @param {Record<string, string | number>} options
 */
export function runFloor(command, options) {
  const words = Object.entries({ schema, ...options }).flatMap(([name, value]) => [`--${name}`, String(value)]);
  return JSON.parse(execFileSync(program, [command, ...words], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }));
}

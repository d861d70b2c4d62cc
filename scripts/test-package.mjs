// Tests the package on other runtimes than this one. Each is an npm package that brings its program, fetched on first
// use.
//
//   node scripts/test-package.mjs [runtime…]
//
// A runtime is `node@22` or `bun@1`. Default: the newest of each line of Node that we support, the oldest release, and
// Bun.

import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';

import { npm } from './npm.mjs';

const DEFAULT = ['node@20.19.0', 'node@20', 'node@22', 'node@24', 'node@26', 'bun@1'];

const wanted = process.argv.slice(2);
const commands = (wanted.length > 0 ? wanted : DEFAULT).map(commandOf);
const { status, error } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '__test__/package/package.test.ts'],
  {
    stdio: 'inherit',
    env: { ...process.env, PERDURE_TEST_RUNTIMES: JSON.stringify(commands) },
  },
);
if (error) throw error;
process.exitCode = status ?? 1;

/**
 * Returns the path of a runtime's program. The package `node` would fetch the program by a script, so the package of
 * the platform is asked for directly.
 */
function commandOf(runtime) {
  const [name, version] = runtime.split('@');
  const platform = process.platform === 'win32' ? 'win' : process.platform;
  const source = name === 'node' ? `node-${platform}-${process.arch}@${version}` : runtime;
  return npm(['exec', '--yes', `--package=${source}`, '--', name, '-p', 'process.execPath'], tmpdir()).trim();
}

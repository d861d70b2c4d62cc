// Runs a command of the tests with programs that npm does not bring. The command finds their paths in variables:
//
//   node scripts/with-programs.mjs chromium,pgbouncer vitest run
//
// Each program is the one that its variable names already. Otherwise it is one on the PATH. Otherwise, for root on a
// Debian, it is that of the distribution, which is installed. Otherwise it is a substitute on the PATH. If a program is
// missing the command runs none the less, and the tests that need it say so.

import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import { run } from './running.mjs';

/**
 * The programs: the name of the file, which is that of the Debian package, the names of substitutes, the variable that
 * holds the path, and whether Debian runs it as a service.
 */
const PROGRAMS = {
  // A Chromium with windows also works without a screen, but takes twice the processor time for the same pages.
  chromium: {
    file: 'chromium-headless-shell',
    substitutes: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
    variable: 'PERDURE_TEST_CHROMIUM',
    isService: false,
    missing: 'There is no Chromium without windows here to test the dashboard in',
  },
  pgbouncer: {
    file: 'pgbouncer',
    substitutes: [],
    variable: 'PERDURE_TEST_PGBOUNCER',
    isService: true,
    missing: 'There is no PgBouncer here to put before a test server',
  },
};

const [names, command, ...args] = process.argv.slice(2);
const env = { ...process.env };
let isUpdated = false;
for (const name of names.split(',')) {
  const { file, substitutes, variable } = PROGRAMS[name];
  const path = env[variable] || onPath([file]) || installed(PROGRAMS[name]) || onPath(substitutes);
  if (path !== undefined) env[variable] = path;
}
process.exitCode = await run(command, args, env);

function onPath(files) {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.flatMap((folder) => files.map((name) => join(folder, name))).find(isProgram);
}

function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function installed({ file, isService, missing }) {
  if (process.platform !== 'linux' || process.getuid() !== 0 || !existsSync('/usr/bin/apt-get')) return undefined;
  console.error(`${missing}: installing the one of the distribution.`);
  isUpdated ||= does('apt-get', 'update', '-qq');
  if (!isUpdated || !does('apt-get', 'install', '-y', '-qq', '--no-install-recommends', file)) return undefined;
  if (isService) {
    // Debian starts the service at once, and whenever the machine starts. The tests start their own.
    does('service', file, 'stop');
    does('update-rc.d', file, 'disable');
  }
  return onPath([file]);
}

function does(program, ...words) {
  return (
    spawnSync(program, words, {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    }).status === 0
  );
}

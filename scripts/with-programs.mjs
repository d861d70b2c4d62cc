// Runs a command of the tests with programs that npm does not bring. The command finds their paths in variables:
//
//   node scripts/with-programs.mjs chromium,pgbouncer vitest run
//
// Each program is the one that its variable names already. Otherwise it is one on the PATH. Otherwise, for root on a
// Debian, it is that of the distribution, which is installed. If a program is missing the command runs none the less,
// and the tests that need it say so.

import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import { run } from './running.mjs';

/**
 * The programs, by their Debian package: the names that the file may have, the variable that holds its path, and
 * whether Debian runs it as a service.
 */
const PROGRAMS = {
  chromium: {
    files: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
    variable: 'PERDURE_TEST_CHROMIUM',
    isService: false,
    missing: 'There is no Chromium here to test the dashboard in',
  },
  pgbouncer: {
    files: ['pgbouncer'],
    variable: 'PERDURE_TEST_PGBOUNCER',
    isService: true,
    missing: 'There is no PgBouncer here to put before a test server',
  },
};

const [names, command, ...args] = process.argv.slice(2);
const env = { ...process.env };
let isUpdated = false;
for (const name of names.split(',')) {
  const { files, variable } = PROGRAMS[name];
  const path = env[variable] || onPath(files) || installed(name);
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

function installed(name) {
  if (process.platform !== 'linux' || process.getuid() !== 0 || !existsSync('/usr/bin/apt-get')) return undefined;
  const { files, isService, missing } = PROGRAMS[name];
  console.error(`${missing}: installing the one of the distribution.`);
  isUpdated ||= does('apt-get', 'update', '-qq');
  if (!isUpdated || !does('apt-get', 'install', '-y', '-qq', '--no-install-recommends', name)) return undefined;
  if (isService) {
    // Debian starts the service at once, and whenever the machine starts. The tests start their own.
    does('service', name, 'stop');
    does('update-rc.d', name, 'disable');
  }
  return onPath(files);
}

function does(program, ...words) {
  return (
    spawnSync(program, words, {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    }).status === 0
  );
}

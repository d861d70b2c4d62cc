// Runs a command of the tests with a Chromium to test the dashboard's page in, whose path it finds in PERDURE_TEST_CHROMIUM:
//
//   node npm/with-chromium.mjs vitest run
//
// It is the one that the variable names already, else one on the PATH, else, for root on a Debian, that of the distribution, which is installed.
// Without any the command runs none the less, and the tests that need it say so.

import { spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

const [command, ...args] = process.argv.slice(2);
const path = process.env.PERDURE_TEST_CHROMIUM || onPath() || installed();
const env = path === undefined ? process.env : { ...process.env, PERDURE_TEST_CHROMIUM: path };
spawn(command, args, { stdio: 'inherit', env, shell: process.platform === 'win32' })
  .on('error', (error) => {
    console.error(`${command} does not run: ${error.message}`);
    process.exitCode = 1;
  })
  .on('close', (code) => (process.exitCode ||= code ?? 1));

function onPath() {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isProgram);
}

function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function installed() {
  if (process.platform !== 'linux' || process.getuid() !== 0 || !existsSync('/usr/bin/apt-get')) return undefined;
  console.error('There is no Chromium here to test the dashboard in: installing the one of the distribution.');
  const aptGet = (...words) => spawnSync('apt-get', words, { stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } }).status === 0;
  return aptGet('update', '-qq') && aptGet('install', '-y', '-qq', '--no-install-recommends', 'chromium') ? onPath() : undefined;
}

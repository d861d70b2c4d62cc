// Runs npm from scripts and tests: the npm that started this process, if there is one.

import { spawnSync } from 'node:child_process';

/**
 * Runs npm in a folder and returns its output.
 *
 * @param {readonly string[]} args
 * @param {string} folder
 * @returns {string}
 */
export function npm(args, folder) {
  const cli = process.env.npm_execpath;
  const [command, first] = cli?.endsWith('npm-cli.js') ? [process.execPath, [cli]] : ['npm', []];
  const { status, error, stdout, stderr } = spawnSync(command, [...first, ...args], {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    shell: command === 'npm' && process.platform === 'win32',
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`npm ${args.join(' ')} ended with ${status} in ${folder}:\n${stdout}${stderr}`);
  return stdout;
}

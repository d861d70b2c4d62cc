// Compares Perdure's dependencies with the public lists of advisories. This needs a network, so `npm test` does
// without.
//
//   node scripts/audit.mjs

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));

const isWindows = process.platform === 'win32';
const wrong = [
  // Packages that users install fail at any level. Packages that only build and test fail at level high.
  run('npm', ['audit', '--omit', 'dev']),
  run('npm', ['audit', '--audit-level', 'high']),
  run('cargo', ['deny', '--all-features', 'check']),
].flat();
for (const sentence of wrong) console.error(sentence);
if (wrong.length > 0) process.exitCode = 1;

/** Runs a command. Returns its problems, each as a sentence. */
function run(command, args) {
  const said = [command, ...args].join(' ');
  console.log(`\n$ ${said}`);
  if (command === 'cargo' && spawnSync('cargo', ['deny', '--version']).status !== 0)
    return ['cargo deny is not here: cargo install cargo-deny --locked'];
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', shell: command === 'npm' && isWindows });
  if (error) return [`${said}: ${error.message}`];
  return status === 0 ? [] : [`${said} ended with ${status}`];
}

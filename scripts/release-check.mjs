// Checks everything before a release that one machine can check, step by step, to the end even if one fails. See
// RELEASING.md.
//
//   node scripts/release-check.mjs [step…]

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
process.chdir(root);

/** The steps. Each returns its problems, a sentence each. */
const STEPS = {
  facts,
  lint: () => run('npm', ['run', '--silent', 'lint']),
  audit: () => run('npm', ['run', '--silent', 'audit']),
  // The tests run on the addon that is published.
  build: () => run('npm', ['run', '--silent', 'build', '--', '--release']),
  test: () => run('npm', ['test']),
  package: () => run('npm', ['run', '--silent', 'test:package']),
  'start-up': () => run(process.execPath, ['bench/start-up.mjs', '--check']),
  packages: () => run(process.execPath, ['scripts/pack.mjs', '--all']),
  sbom: () => run(process.execPath, ['scripts/sbom.mjs']),
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((step) => !Object.hasOwn(STEPS, step));
if (unknown.length > 0) throw new TypeError(`there is no step ${unknown.join(', ')}: ${Object.keys(STEPS).join(', ')}`);
const results = (wanted.length > 0 ? wanted : Object.keys(STEPS)).map((step) => [step, STEPS[step]()]);
console.log();
for (const [step, wrong] of results)
  console.log(
    [`${wrong.length === 0 ? 'ok   ' : 'wrong'} ${step}`, ...wrong.map((line) => `        ${line}`)].join('\n'),
  );
if (results.some(([, wrong]) => wrong.length > 0)) process.exitCode = 1;

/** Checks facts that stand in several places and must agree, and that nothing is left open. */
function facts() {
  const manifest = JSON.parse(read('package.json'));
  const { version } = manifest;
  const wrong = [];
  const cargo = /^\[workspace\.package\]\nversion = "(.+)"$/m.exec(read('Cargo.toml'))?.[1];
  if (cargo !== version) wrong.push(`Cargo.toml says version ${cargo}, package.json ${version}`);
  for (const { name } of readdirSync('npm', { withFileTypes: true }).filter((entry) =>
    existsSync(join('npm', entry.name, 'package.json')),
  )) {
    const platform = JSON.parse(read(join('npm', name, 'package.json')));
    if (platform.version !== version) wrong.push(`npm/${name} has version ${platform.version}: npx napi version`);
  }
  const plugin = JSON.parse(read('eslint-plugin/package.json'));
  if (plugin.version !== version) wrong.push(`eslint-plugin/package.json has version ${plugin.version}`);
  const lock = JSON.parse(read('package-lock.json'));
  if (lock.version !== version)
    wrong.push(`package-lock.json says version ${lock.version}: npm install --package-lock-only`);
  if (
    !new RegExp(`^## \\[${version.replaceAll('.', '\\.')}\\] - \\d{4}-\\d\\d-\\d\\d$`, 'm').test(read('CHANGELOG.md'))
  )
    wrong.push(`CHANGELOG.md has no section "## [${version}] - date"`);
  for (const field of ['repository', 'homepage', 'bugs'])
    if (manifest[field] === undefined) wrong.push(`package.json has no ${field}`);
  const { stdout } = spawnSync('git', ['status', '--porcelain'], { encoding: 'utf8' });
  if (stdout !== '') wrong.push(`there are changes that are not committed:\n${stdout.trimEnd()}`);
  return wrong;
}

function run(command, args) {
  const said = [command === process.execPath ? 'node' : command, ...args].join(' ');
  console.log(`\n$ ${said}`);
  const { status, error } = spawnSync(command, args, {
    stdio: 'inherit',
    shell: command === 'npm' && process.platform === 'win32',
  });
  if (error) return [`${said}: ${error.message}`];
  return status === 0 ? [] : [`${said} ended with ${status}`];
}

function read(file) {
  return readFileSync(file, 'utf8');
}

// Prepares a clone to run its commands. It installs, builds the addon and compiles the TypeScript, each only if
// something it depends on has changed. Then it runs the npm scripts that it was given, all of them even if one fails.
// Arguments that are no script go to the last one:
//
//   node scripts/setup.mjs [--demo | --release] [script…] [argument…]
//
// The addon is built for development, from the same parts as `cargo test`. With --demo, it is built without
// optimisation, which takes half as long. With --release, it is the optimised addon that is published and measured,
// whose build takes the longest. A better addon of the same sources serves as well.
//
// Plain Node without dependencies, because it runs before anything is installed.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
process.chdir(root);
const manifest = JSON.parse(readFileSync('package.json', 'utf8'));

requireNode();
const rust = requireRust();
const host = /^host: (\S+)$/m.exec(rust)?.[1];
// napi names the target to cargo, which has a folder for each named target. With the same name in every command, the
// addon and the tests are built from the same parts.
if (host !== undefined) process.env.CARGO_BUILD_TARGET ??= host;
onChange('node_modules/.perdure-stamp', ['package-lock.json'], [process.version], () =>
  // No script of a package runs: a package that has one is for tests alone.
  npm(['ci', '--include=dev', '--ignore-scripts', '--loglevel=error']),
);
/** The kinds of addons, the best first, with the script that builds each. */
const ADDONS = { release: 'build:native', development: 'build:native:development', demo: 'build:native:demo' };
const kinds = Object.keys(ADDONS);
const kind = kinds.find((kind) => process.argv.includes(`--${kind}`)) ?? 'development';
const good = kinds.slice(0, kinds.indexOf(kind) + 1).reverse();
onChange(
  'js/native/.stamp',
  nativeInputs(),
  good.map((kind) => `${kind} ${rust}`),
  () => npm(['run', '--silent', ADDONS[kind]]),
  ['index.cjs', 'index.d.cts', '.node'],
);
must(npm(['run', '--silent', 'build:js']));

const words = process.argv.slice(2).filter((word) => word !== `--${kind}`);
if (
  ['test:rust', 'test:js', 'test:js:quick', 'typecheck', 'chaos:run', 'soak:run'].some((script) =>
    words.includes(script),
  )
) {
  // Readers of stored rows and a server to test on. One of them may have to be compiled, and only tests need to wait
  // for that.
  onChange('node_modules/.perdure-test-stamp', ['package-lock.json'], [process.version], () =>
    npm(['rebuild', '--loglevel=error']),
  );
}
const scripts = words.filter((word) => Object.hasOwn(manifest.scripts, word));
const rest = words.filter((word) => !scripts.includes(word));
for (const script of scripts) {
  const more = script === scripts.at(-1) && rest.length > 0 ? ['--', ...rest] : [];
  const status = npm(['run', '--silent', script, ...more]);
  process.exitCode ||= status;
}

function requireNode() {
  const needed = manifest.engines.node.replace('>=', '');
  if (isOlder(process.versions.node, needed)) {
    fail(`Perdure needs Node ${needed} or newer, this is ${process.versions.node} (${process.execPath}).`);
  }
}

/** Returns the output of `rustc -vV`: a new compiler or another host is a reason to build again. */
function requireRust() {
  const needed = /^rust-version = "(.+)"$/m.exec(readFileSync('Cargo.toml', 'utf8'))?.[1] ?? '0';
  const cargo = spawnSync('cargo', ['--version'], { encoding: 'utf8' });
  const rustc = spawnSync('rustc', ['-vV'], { encoding: 'utf8' });
  if (cargo.status !== 0 || rustc.status !== 0) {
    fail(
      `Perdure's engine is built from Rust source, and ${cargo.status === 0 ? 'rustc' : 'cargo'} does not run here.\n` +
        `Install Rust ${needed} or newer (https://rustup.rs), open a new shell and run this command again.`,
    );
  }
  const found = /^release: (\S+)$/m.exec(rustc.stdout)?.[1] ?? '0';
  if (isOlder(found, needed)) fail(`Perdure needs Rust ${needed} or newer, this is ${found}: run \`rustup update\`.`);
  return rustc.stdout;
}

/** Everything that the addon is made of. Tests are in it too: a build too many is cheap, one too few is a riddle. */
function nativeInputs() {
  const sources = readdirSync('crates', { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return ['Cargo.toml', 'Cargo.lock', 'build.rs', 'package.json', 'package-lock.json', ...sources].sort();
}

/**
 * Runs `build` unless `stamp` holds the hash of the same inputs and files ending in `outputs` are beside it. The build
 * is made for the first of `environments`, and one for any other of them serves as well. The stamp is removed first and
 * written last, so a build that was interrupted starts over. It is made from the inputs as they were before, so an edit
 * during the build is built next time.
 */
function onChange(stamp, inputs, environments, build, outputs = []) {
  const accepted = environments.map((environment) => hash(inputs, environment));
  if (existsSync(stamp) && accepted.includes(readFileSync(stamp, 'utf8'))) {
    const built = readdirSync(dirname(stamp));
    if (outputs.every((end) => built.some((name) => name.endsWith(end)))) return;
  }
  rmSync(stamp, { force: true });
  must(build());
  writeFileSync(stamp, accepted[0]);
}

function hash(files, environment) {
  const all = createHash('sha256').update(environment);
  for (const file of files) {
    all.update(`\0${file}\0`).update(existsSync(file) ? readFileSync(file) : 'absent');
  }
  return all.digest('hex');
}

/** Runs npm, the one that started this script if there is one, and returns its exit code. */
function npm(args) {
  const cli = process.env.npm_execpath;
  const result = cli?.endsWith('npm-cli.js')
    ? spawnSync(process.execPath, [cli, ...args], { stdio: 'inherit' })
    : spawnSync('npm', args, { stdio: 'inherit', shell: process.platform === 'win32' });
  if (result.error) fail(`npm does not run: ${result.error.message}`);
  return result.status ?? 1;
}

function must(status) {
  if (status !== 0) process.exit(status);
}

function isOlder(version, needed) {
  const [a, b] = [version, needed].map((text) => text.split('.').map((part) => Number.parseInt(part, 10)));
  const at = [0, 1, 2].find((i) => (a[i] ?? 0) !== (b[i] ?? 0));
  return at !== undefined && (a[at] ?? 0) < (b[at] ?? 0);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}

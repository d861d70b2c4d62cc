// Packs the packages that are published: the root package, the ESLint plugin, and the package of each platform that has
// its addon here.
// Tests install these tarballs, and `npm publish` is given them file by file.
//
//   node scripts/pack.mjs [folder] [--all]
//
// `--all` fails unless every platform has its addon, and each tarball is of a limited size. Prints the paths of the
// tarballs. The root package's comes last, because it is published last.

import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { npm } from './npm.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
/** The limit of the size of a tarball. An addon that was built without optimisation is larger. */
const PACKED_MAX_BYTES = 8_000_000;
const args = process.argv.slice(2);
const isAll = args.includes('--all');
const folder = resolve(args.find((arg) => !arg.startsWith('--')) ?? join(root, 'target/packages'));
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const platforms = readdirSync(join(root, 'npm'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && existsSync(join(root, 'npm', entry.name, 'package.json')))
  .map(({ name }) => name);

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const staging = mkdtempSync(join(tmpdir(), 'perdure-pack-'));
try {
  const missing = [];
  for (const platform of platforms) {
    const addon = addonOf(platform);
    if (addon === undefined) missing.push(platform);
    else console.log(packPlatform(platform, addon));
  }
  if (isAll && missing.length > 0) {
    console.error(`There is no addon for ${missing.join(', ')}: see RELEASING.md.`);
    process.exitCode = 1;
  }
  console.log(packPlugin());
  console.log(packRoot());
} finally {
  rmSync(staging, { recursive: true });
}

/** The addon that `napi artifacts` has put there, or else the one that was built here. */
function addonOf(platform) {
  const name = `perdure.${platform}.node`;
  return [join(root, 'npm', platform, name), join(root, 'js/native', name)].find((file) => existsSync(file));
}

function packPlatform(platform, addon) {
  const to = join(staging, platform);
  for (const name of ['package.json', 'README.md']) cpSync(join(root, 'npm', platform, name), join(to, name));
  for (const name of ['LICENSE', 'THIRD-PARTY.md']) cpSync(join(root, name), join(to, name));
  cpSync(addon, join(to, `perdure.${platform}.node`));
  return pack(to);
}

function packPlugin() {
  const to = join(staging, 'eslint-plugin');
  for (const name of ['package.json', 'README.md', 'index.d.ts', 'dist'])
    cpSync(join(root, 'eslint-plugin', name), join(to, name), { recursive: true });
  cpSync(join(root, 'LICENSE'), join(to, 'LICENSE'));
  return pack(to);
}

/**
 * Packs the root package. Its package.json differs from that of a clone: it has nothing to build with, and every
 * platform as an optional dependency.
 */
function packRoot() {
  const to = join(staging, 'perdure');
  const { files } = JSON.parse(npm(['pack', '--dry-run', '--json', '--ignore-scripts'], root))[0];
  for (const { path } of files) {
    mkdirSync(dirname(join(to, path)), { recursive: true });
    cpSync(join(root, path), join(to, path));
  }
  const { scripts: _, devDependencies: __, overrides: ___, napi: ____, ...published } = manifest;
  published.optionalDependencies = Object.fromEntries(
    platforms.map((platform) => [`perdure-${platform}`, manifest.version]),
  );
  writeFileSync(join(to, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
  return pack(to);
}

function pack(from) {
  const [{ filename }] = JSON.parse(npm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], from));
  const file = join(folder, filename);
  const { size } = statSync(file);
  if (isAll && size > PACKED_MAX_BYTES) {
    console.error(`${file} has ${size} bytes, and at most ${PACKED_MAX_BYTES} are expected.`);
    process.exitCode = 1;
  }
  return file;
}

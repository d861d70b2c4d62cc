// Writes the lists of parts (SBOM, CycloneDX) that come with a release: the packages that npm installs with ours, and
// the code that is compiled into the addon.
//
//   node scripts/sbom.mjs [folder]

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { bundledCrates, licenceOf } from './licences.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * The packages that npm installs with ours, by its lock file.
 *
 * @returns {{ bomFormat: string, components: { name: string, version: string, purl: string }[] }}
 */
export function packagesBom() {
  const args = [
    'sbom',
    '--sbom-format',
    'cyclonedx',
    '--sbom-type',
    'library',
    '--omit',
    'dev',
    '--omit',
    'peer',
    '--package-lock-only',
  ];
  const text = execFileSync('npm', args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    shell: process.platform === 'win32',
    maxBuffer: 64 * 1024 * 1024,
  });
  const bom = JSON.parse(text);
  // npm names the package after its folder.
  bom.metadata.component.name = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).name;
  return bom;
}

/**
 * The code that is compiled into the addon on any platform. SQLite is C, which its crate brings.
 *
 * @returns {{ bomFormat: string, components: { name: string, version: string, purl: string }[] }}
 */
export function addonBom() {
  const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const crates = bundledCrates();
  const sqlite = crates.find((crate) => crate.name === 'libsqlite3-sys');
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      timestamp: new Date().toISOString(),
      component: { type: 'library', 'bom-ref': `${name}-addon@${version}`, name: `${name}-addon`, version },
    },
    components: [...crates.map(crateComponent), ...(sqlite === undefined ? [] : [sqliteComponent(sqlite)])],
  };
}

function crateComponent({ name, version, license }) {
  const purl = `pkg:cargo/${name}@${version}`;
  const licence = licenceOf(license);
  return {
    type: 'library',
    'bom-ref': purl,
    name,
    version,
    purl,
    ...(licence === undefined ? {} : { licenses: [{ expression: licence }] }),
  };
}

function sqliteComponent({ manifest_path: path }) {
  const header = readFileSync(join(dirname(path), 'sqlite3', 'sqlite3.h'), 'utf8');
  const version = /^#define SQLITE_VERSION\s+"([\d.]+)"/m.exec(header)?.[1];
  if (version === undefined) throw new Error(`no version of SQLite is in ${path}`);
  const purl = `pkg:generic/sqlite@${version}`;
  return {
    type: 'library',
    'bom-ref': purl,
    name: 'sqlite',
    version,
    purl,
    cpe: `cpe:2.3:a:sqlite:sqlite:${version}:*:*:*:*:*:*:*`,
    licenses: [{ license: { name: 'Public Domain' } }],
  };
}

/**
 * @param {string} folder
 * @returns {string[]} the files
 */
export function writeBoms(folder) {
  const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  mkdirSync(folder, { recursive: true });
  const boms = { [`${name}-${version}.cdx.json`]: packagesBom(), [`${name}-addon-${version}.cdx.json`]: addonBom() };
  return Object.entries(boms).map(([file, bom]) => {
    const path = join(folder, file);
    writeFileSync(path, `${JSON.stringify(bom, null, 2)}\n`);
    return path;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const path of writeBoms(process.argv[2] ?? join(root, 'target/packages'))) console.log(path);
}

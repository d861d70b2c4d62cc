// The package as users get it: packed as it is published, and installed into an empty folder.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';

import { npm } from '../../scripts/npm.mjs';
import { root } from '../support/process.ts';

/** The part of a package.json that is read. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly napi?: { readonly targets: readonly string[] };
}

export function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}

/**
 * Packs anew the files that `npm publish` would be given, and returns those of the package of this platform and of the
 * root package.
 */
export function pack(folder: string): string[] {
  const packed = execFileSync(process.execPath, [join(root, 'scripts/pack.mjs'), folder], { encoding: 'utf8' });
  // The plugin belongs to ESLint, which is not installed beside the package.
  return packed
    .trim()
    .split('\n')
    .filter((file) => !basename(file).startsWith('eslint-plugin-'));
}

/**
 * Installs packages into a new folder. Their dependencies come from this clone, so nothing is fetched. npm cannot find
 * the packages of other platforms in this way and leaves them out, as it leaves out packages that are not for a
 * machine.
 */
export function install(folder: string, tarballs: readonly string[]): void {
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const vendor = join(folder, 'vendor');
  mkdirSync(vendor);
  const needed = dependenciesOf(root).map((from) =>
    join(vendor, npm(['pack', from, '--ignore-scripts', '--pack-destination', vendor], root).trim()),
  );
  npm(['install', '--offline', '--no-audit', '--no-fund', ...tarballs, ...needed], folder);
}

/** Returns the folders of all packages that a package needs to run, including indirect dependencies. */
function dependenciesOf(folder: string): string[] {
  const { resolve } = createRequire(join(folder, 'package.json'));
  const own = Object.keys(manifestOf(folder).dependencies ?? {}).map((name) => {
    const found = resolve
      .paths(name)
      ?.map((path) => join(path, name))
      .find((path) => isPackage(path));
    if (found === undefined) throw new Error(`${name}, which ${folder} needs, is not installed`);
    return found;
  });
  return [...new Set([...own, ...own.flatMap(dependenciesOf)])];
}

function isPackage(folder: string): boolean {
  try {
    return manifestOf(folder).name !== undefined;
  } catch {
    return false;
  }
}

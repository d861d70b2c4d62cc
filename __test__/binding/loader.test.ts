import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { PLATFORMS } from '../../js/binding/addon-error.ts';

// The search for the addon, and the error if it is not found. The tests use the layout of an installed package: a
// folder with the package and its dependencies, and beside them the package of the platform or other files that a test
// puts there.

const root = fileURLToPath(new URL('../..', import.meta.url));
const native = join(root, 'dist/native');
const addon = readdirSync(native).find((name) => name.endsWith('.node')) ?? '';
const platform = addon.replace(/^perdure\.|\.node$/g, '');

/** The dependencies that the entry of the package imports. */
const DEPENDENCIES = ['croner', 'devalue'];

let modules: string;
beforeEach(() => {
  modules = join(mkdtempSync(join(tmpdir(), 'perdure-loader-')), 'node_modules');
  const home = join(modules, 'perdure');
  cpSync(join(root, 'dist'), join(home, 'dist'), { recursive: true, filter: (file) => !file.endsWith('.node') });
  cpSync(join(root, 'package.json'), join(home, 'package.json'));
  for (const name of DEPENDENCIES) symlinkSync(join(root, 'node_modules', name), join(modules, name), 'junction');
});
afterEach(() => rmSync(join(modules, '..'), { recursive: true }));

/** Adds the package of a platform, with a file in the place of its addon. */
function putPlatform(name: string, file: string | Buffer): void {
  const home = join(modules, `perdure-${name}`);
  mkdirSync(home);
  cpSync(join(root, 'npm', name, 'package.json'), join(home, 'package.json'));
  writeFileSync(join(home, `perdure.${name}.node`), file);
}

interface Outcome {
  readonly exports?: readonly string[];
  readonly error?: {
    readonly name: string;
    readonly code: string;
    readonly message: string;
    readonly causes: readonly string[];
  };
}

/**
 * Imports the package in a process of its own. Returns its exports or its error. `first` is code that runs before the
 * import.
 */
function load({
  first = '',
  environment = {},
}: {
  first?: string;
  environment?: Record<string, string>;
} = {}): Outcome {
  const script = `
    ${first}
    try { console.log(JSON.stringify({ exports: Object.keys(await import('perdure')) })); }
    catch (error) {
      const causes = [];
      for (let at = error.cause; at; at = at.cause) causes.push(at.message);
      console.log(JSON.stringify({ error: { name: error.name, code: error.code, message: error.message, causes } }));
    }`;
  const file = join(modules, '../load.mjs');
  writeFileSync(file, script);
  const env = { ...process.env, NODE_OPTIONS: '', NAPI_RS_NATIVE_LIBRARY_PATH: '', ...environment };
  return JSON.parse(execFileSync(process.execPath, [file], { encoding: 'utf8', env })) as Outcome;
}

describe('the addon', () => {
  it('is taken from beside the loader first', () => {
    cpSync(join(native, addon), join(modules, 'perdure/dist/native', addon));
    putPlatform(platform, 'this is no shared library');
    expect(load().exports).toContain('Runtime');
  });

  it('is taken from the package of the platform otherwise', () => {
    putPlatform(platform, readFileSync(join(native, addon)));
    expect(load().exports).toContain('Runtime');
  });
});

describe('the error without an addon', () => {
  /** Returns the message of an import that fails, after checking the error's name and code. */
  function said(how?: Parameters<typeof load>[0]): string {
    const { error } = load(how);
    expect(error).toMatchObject({ name: 'PerdureError', code: 'ADDON_NOT_LOADED' });
    return error?.message ?? '';
  }

  it('names the package that is not installed, and the options that leave it out', () => {
    expect(said()).toContain(`the package perdure-${platform} is not installed`);
    expect(said()).toContain('--omit=optional');
    expect(said()).toContain(`npm install perdure-${platform}`);
    expect(load().error?.causes.join('\n')).toContain(addon);
  });

  it('tells that node_modules is of another platform', () => {
    const other = PLATFORMS.find((name) => !name.startsWith(platform.split('-')[0] ?? '')) ?? '';
    putPlatform(other, '');
    expect(said()).toContain(
      `perdure-${platform} is not installed, but perdure-${other} is: node_modules was made on another platform.`,
    );
    expect(said()).toContain('Delete node_modules');
  });

  it.runIf(process.platform === 'linux')('tells glibc from musl', () => {
    const other = platform.endsWith('gnu') ? platform.replace('gnu', 'musl') : platform.replace('musl', 'gnu');
    putPlatform(other, '');
    expect(said()).toContain('gnu is for glibc, as on Debian; musl for Alpine');
  });

  it('keeps the words of a system that does not take the file', () => {
    putPlatform(platform, 'this is no shared library');
    expect(said()).toMatch(new RegExp(`the system cannot load the file: .*${addon}`));
    expect(said()).toContain('The file is damaged or of another platform.');
  });

  it('names the variable that leads elsewhere', () => {
    const elsewhere = join(modules, 'elsewhere.node');
    writeFileSync(elsewhere, '');
    expect(said({ environment: { NAPI_RS_NATIVE_LIBRARY_PATH: elsewhere } })).toContain(
      `NAPI_RS_NATIVE_LIBRARY_PATH names ${elsewhere}`,
    );
  });

  it('lists the supported platforms on another platform', () => {
    const first = "Object.defineProperty(process, 'platform', { value: 'sunos' });";
    expect(said({ first })).toContain(
      `sunos-${process.arch} (Node ${process.version}) could not be loaded: this platform is not supported.`,
    );
    expect(said({ first })).toContain(PLATFORMS.join(', '));
  });

  it('names both versions, when the addon is of another one than the package', () => {
    const manifest = join(modules, 'perdure/package.json');
    const { version, ...rest } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    writeFileSync(manifest, JSON.stringify({ ...rest, version: '9.8.7' }));
    putPlatform(platform, readFileSync(join(native, addon)));
    expect(said()).toContain(
      `Perdure's addon for ${platform} is of version ${version}, ` +
        'but the package perdure that loads it is of version 9.8.7.',
    );
    expect(said()).toContain('Delete node_modules and install again');
  });

  it('names the bundler that has taken the code out of its package', () => {
    rmSync(join(modules, 'perdure/dist/native'), { recursive: true });
    expect(said()).toContain('serverExternalPackages');
  });
});

it('has a package for each platform, of the version of this one', () => {
  const { version, napi } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string;
    napi: { targets: string[] };
  };
  const platforms = readdirSync(join(root, 'npm'), { withFileTypes: true }).filter(({ name }) =>
    existsSync(join(root, 'npm', name, 'package.json')),
  );
  expect(platforms.map(({ name }) => name).sort()).toEqual([...PLATFORMS].sort());
  expect(platforms).toHaveLength(napi.targets.length);
  for (const { name } of platforms) {
    const manifest = JSON.parse(readFileSync(join(root, 'npm', name, 'package.json'), 'utf8')) as object;
    expect(manifest).toMatchObject({ name: `perdure-${name}`, version, main: `perdure.${name}.node` });
  }
});

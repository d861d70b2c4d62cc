import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';

// The generated loader, as an installed package has it: beside it no addon but, somewhere above it in node_modules, the
// package of the platform.

const root = fileURLToPath(new URL('..', import.meta.url));
const native = join(root, 'dist/native');
const addon = readdirSync(native).find((name) => name.endsWith('.node')) ?? '';
const platform = addon.replace(/^perdure\.|\.node$/g, '');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-loader-'));
  copyFileSync(join(native, 'index.cjs'), join(folder, 'index.cjs'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Loads the loader's copy in a process of its own: what it exports, or the messages of its error and causes. */
function load(): { exports?: string[]; messages?: string[] } {
  const loader = JSON.stringify(join(folder, 'index.cjs'));
  const script = `
    try { console.log(JSON.stringify({ exports: Object.keys(require(${loader})) })); }
    catch (error) {
      const messages = [];
      for (let at = error; at; at = at.cause) messages.push(at.message);
      console.log(JSON.stringify({ messages }));
    }`;
  const environment = { ...process.env, NAPI_RS_NATIVE_LIBRARY_PATH: '' };
  return JSON.parse(execFileSync(process.execPath, ['-e', script], { encoding: 'utf8', env: environment })) as object;
}

it('takes the addon beside it first', () => {
  copyFileSync(join(native, addon), join(folder, addon));
  expect(load().exports?.length).toBeGreaterThan(0);
});

it('falls back to the package of the platform', () => {
  const home = join(folder, 'node_modules', `perdure-${platform}`);
  mkdirSync(home, { recursive: true });
  copyFileSync(join(root, 'npm', platform, 'package.json'), join(home, 'package.json'));
  copyFileSync(join(native, addon), join(home, addon));
  expect(load().exports?.length).toBeGreaterThan(0);
});

it('says what is missing and what to do where there is neither', () => {
  const { messages } = load();
  expect(messages?.[0]).toMatch(/Cannot find native binding.*npm i/);
  expect(messages?.join('\n')).toContain(`perdure-${platform}`);
});

it('keeps the cause when an addon is there and cannot be loaded', () => {
  writeFileSync(join(folder, addon), 'this is no shared library');
  expect(load().messages?.join('\n')).toContain(addon);
});

it('has a package for each platform, of the version of this one', () => {
  const { version, napi } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string;
    napi: { targets: string[] };
  };
  const platforms = readdirSync(join(root, 'npm'), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(platforms).toHaveLength(napi.targets.length);
  for (const { name } of platforms) {
    const manifest = JSON.parse(readFileSync(join(root, 'npm', name, 'package.json'), 'utf8')) as object;
    expect(manifest).toMatchObject({ name: `perdure-${name}`, version, main: `perdure.${name}.node` });
  }
});

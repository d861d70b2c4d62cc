// TypeScript modules of a command.

import { rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { temporaryFolder } from '../support/providers.ts';
import { launch, perdure } from './perdure.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

const db = join(folder, 'store.db');
const erasable = join(folder, 'codec.ts');
const withEnum = join(folder, 'enum.ts');
const strips = Boolean((process.features as { typescript?: unknown }).typescript);

beforeAll(async () => {
  writeFileSync(
    erasable,
    `type Text = string;
     export const codec = { encode: (text: Text): Text => text, decode: (text: Text): Text => text };`,
  );
  writeFileSync(
    withEnum,
    `enum Shift { none = 0 }
     export const codec = {
       encode: (text: string): string => text.slice(Shift.none),
       decode: (text: string): string => text.slice(Shift.none),
     };`,
  );
  expect((await perdure('--db', db, 'migrate')).code).toBe(0);
});

it('a TypeScript module is loaded where this Node can, and else named with the way out', async () => {
  const loaded = await perdure('--db', db, '--codec', erasable, 'list');
  if (strips) expect(loaded).toMatchObject({ code: 0 });
  else
    expect(loaded).toMatchObject({
      code: 2,
      err: expect.stringMatching(
        /codec\.ts cannot be loaded: Unknown file extension[^]*does not run TypeScript: Node 22\.18[^]*--import tsx/,
      ),
    });
  expect(await perdure('--db', db, '--codec', withEnum, 'list')).toMatchObject({
    code: 2,
    err: expect.stringMatching(/enum\.ts cannot be loaded: [^]*Compile the module[^]*NODE_OPTIONS='--import tsx'/),
  });
  const absent = await perdure('--db', db, '--codec', join(folder, 'absent.mjs'), 'list');
  expect(absent).toMatchObject({ code: 2, err: expect.stringContaining('absent.mjs cannot be loaded') });
  expect(absent.err).not.toContain('--import');
});

it('a loader of the user compiles TypeScript modules', async () => {
  const typescript = pathToFileURL(createRequire(import.meta.url).resolve('typescript')).href;
  const hooks = join(folder, 'hooks.mjs');
  const loader = join(folder, 'loader.mjs');
  writeFileSync(
    hooks,
    `import { readFileSync } from 'node:fs';
     import ts from '${typescript}';
     export async function load(url, context, next) {
       if (!url.endsWith('.ts')) return next(url, context);
       const { outputText } = ts.transpileModule(readFileSync(new URL(url), 'utf8'), {
         compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 },
       });
       return { format: 'module', source: outputText, shortCircuit: true };
     }`,
  );
  writeFileSync(
    loader,
    `import { register } from 'node:module';
     register(${JSON.stringify(pathToFileURL(hooks).href)});`,
  );
  const env = { NODE_OPTIONS: `--import ${pathToFileURL(loader).href}` };
  expect(await launch(['--db', db, '--codec', withEnum, 'list'], { env }).ended).toMatchObject({ code: 0 });
});

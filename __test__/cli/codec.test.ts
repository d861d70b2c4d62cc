// Commands on a store with a codec, each in a process of its own.

import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, expect, it } from 'vitest';

import { temporaryFolder } from '../support/providers.ts';
import { launch, perdure, valuesOf } from './perdure.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

it('a store with a codec is read through --codec', async () => {
  const db = join(folder, 'codec.db');
  const module = join(folder, 'codec.mjs');
  writeFileSync(
    module,
    `export const codec = {
       encode: (text) => Buffer.from(text).toString('base64'),
       decode: (text) => Buffer.from(text, 'base64').toString(),
     };`,
  );
  const { codec } = (await import(pathToFileURL(module).href)) as {
    codec: { encode(text: string): string; decode(text: string): string };
  };
  expect(codec.decode(codec.encode('a'))).toBe('a');
  expect(await perdure('--db', db, 'migrate')).toMatchObject({ code: 0, out: expect.stringContaining('was created') });
  expect(await perdure('--db', db, '--codec', module, 'start', 'order', '{"secret":1}', '--id', 'a')).toMatchObject({
    code: 0,
  });
  expect(readFileSync(db).includes('secret')).toBe(false);
  expect(valuesOf(await perdure('--db', db, '--codec', module, 'show', 'a', '--json'))).toEqual([
    expect.objectContaining({ input: { secret: 1 } }),
  ]);
  expect((await launch(['show', 'a'], { env: { PERDURE_DB: db, PERDURE_CODEC: module } }).ended).out).toContain(
    '{ secret: 1 }',
  );
  const other = join(folder, 'no-codec.mjs');
  writeFileSync(other, 'export const codec = 1;');
  expect(await perdure('--db', db, '--codec', other, 'list')).toMatchObject({
    code: 2,
    err: expect.stringContaining('exports no codec'),
  });
});

it('a store is re-encoded with another key, and unreadable values are named', async () => {
  const db = join(folder, 'recode.db');
  const ring = new URL('../support/keys.mjs', import.meta.url).href;
  const module = (...keys: string[]): string => {
    const path = join(folder, `${keys.join('-')}.mjs`);
    writeFileSync(path, `import { keyRing } from '${ring}'; export const codec = keyRing(...${JSON.stringify(keys)});`);
    return path;
  };
  await perdure('--db', db, 'migrate');
  for (const id of ['a', 'b'])
    expect(await perdure('--db', db, '--codec', module('old'), 'start', 'order', '1', '--id', id)).toMatchObject({
      code: 0,
    });
  expect(await perdure('--db', db, 'recode')).toMatchObject({ code: 2, err: expect.stringContaining('--to') });
  expect(await perdure('--db', db, 'recode', '--to', module('new', 'old'), '--dry-run')).toMatchObject({
    code: 0,
    out: 'KEY  TEXTS\nold      2\n',
  });
  expect(await perdure('--db', db, 'recode', '--to', module('new'))).toMatchObject({
    code: 4,
    err: expect.stringContaining(
      '2 texts cannot be read by this codec and are unchanged:\n' +
        "  instance a, input: input cannot be read: the codec's decode threw",
    ),
  });
  expect(await perdure('--db', db, 'recode', '--to', module('new', 'old'))).toMatchObject({
    code: 0,
    out: '2 texts re-encoded with key new\n',
  });
  expect(valuesOf(await perdure('--db', db, '--codec', module('new'), 'recode', '--json'))).toEqual([
    { keyId: 'new', recoded: 0, unreadable: 0, failures: [] },
  ]);
  expect(valuesOf(await perdure('--db', db, '--codec', module('new'), 'show', 'a', '--json'))).toEqual([
    expect.objectContaining({ input: 1 }),
  ]);
});

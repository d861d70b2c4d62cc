// `perdure datasource`: the tables of datasources that modules export.

import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { root } from '../support/process.ts';
import { temporaryFolder } from '../support/providers.ts';
import { perdure } from './perdure.ts';

const folder = temporaryFolder();
const file = join(folder, 'bank.db');
const module = join(folder, 'bank.mjs');

beforeAll(() => {
  mkdirSync(join(folder, 'node_modules'));
  for (const name of ['better-sqlite3', 'bindings', 'file-uri-to-path'])
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  symlinkSync(root, join(folder, 'node_modules', 'perdure'));
  writeFileSync(
    module,
    `import Database from 'better-sqlite3';
import { betterSqlite3Datasource } from 'perdure/better-sqlite3';
export const bank = betterSqlite3Datasource(new Database(${JSON.stringify(file)}), { table: 'steps' });
export const other = 1;
`,
  );
});
afterAll(() => rmSync(folder, { recursive: true }));

it('prints the statements and changes nothing', async () => {
  const { code, out } = await perdure('datasource', 'sql', module);
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(/^CREATE TABLE IF NOT EXISTS "steps" \([^]*\) WITHOUT ROWID;\n$/),
  ]);
  expect(new Database(file).prepare(`select name from sqlite_schema where name = 'steps'`).all()).toEqual([]);
});

it('makes the tables, as often as it is called', async () => {
  for (let n = 0; n < 2; n += 1) {
    const { code, out } = await perdure('datasource', 'install', module);
    expect([code, out]).toEqual([0, 'the table of bank is installed\n']);
  }
  expect(new Database(file).prepare('select * from steps').all()).toEqual([]);
});

it.each([
  [['remove', module], "the action must be 'install' or 'sql', not 'remove'"],
  [['install', join(root, 'scripts/typescript.mjs')], 'exports no datasource: export what pgDatasource'],
])('names a wrong argument: %j', async (args, message) => {
  const { code, err } = await perdure('datasource', ...args);
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
});

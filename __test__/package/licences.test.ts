// The crates that are compiled into the addon may be passed on, and THIRD-PARTY.md names their owners.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { bundledCrates, licenceOf, thirdParty } from '../../scripts/licences.mjs';
import { root } from '../support/process.ts';

it('every crate in the addon has a licence that asks for no more than to be named', () => {
  const crates = bundledCrates();
  expect(crates.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['libsqlite3-sys', 'rustls', 'tokio', 'windows-sys']),
  );
  // Crates that only build or test are not in the list, and neither are our own.
  expect(
    crates.map(({ name }) => name).filter((name) => /^perdure|^(syn|napi-build|proptest|loom)$/.test(name)),
  ).toEqual([]);
  expect(crates.filter(({ license }) => licenceOf(license) === undefined)).toEqual([]);
});

it.each([
  ['MIT/Apache-2.0', 'MIT'],
  ['Apache-2.0 OR ISC OR MIT', 'MIT'],
  ['Apache-2.0 AND ISC', 'Apache-2.0 AND ISC'],
  ['GPL-3.0-only', undefined],
  ['MIT AND LGPL-2.1-or-later', undefined],
  ['GPL-2.0-only OR Zlib', 'Zlib'],
  ['MPL-2.0', undefined],
  [null, undefined],
])('%s is used as %s', (expression, licence) => {
  expect(licenceOf(expression)).toBe(licence);
});

it('THIRD-PARTY.md matches the lock file', () => {
  expect(readFileSync(join(root, 'THIRD-PARTY.md'), 'utf8') === thirdParty(), 'npm run licences writes it').toBe(true);
});

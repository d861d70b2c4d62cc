// The lists of parts that come with a release name the installed packages and the compiled crates.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { bundledCrates } from '../../scripts/licences.mjs';
import { writeBoms } from '../../scripts/sbom.mjs';
import { root } from '../support/process.ts';

it('a release has one of the packages and one of the addon', () => {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-sbom-'));
  const [packages, addon] = writeBoms(folder).map((path) => JSON.parse(readFileSync(path, 'utf8')));
  rmSync(folder, { recursive: true });
  const { name, version, dependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const { bomFormat, specVersion, metadata } of [packages, addon]) {
    expect({ bomFormat, specVersion, version: metadata.component.version }).toEqual({
      bomFormat: 'CycloneDX',
      specVersion: '1.5',
      version,
    });
    expect(metadata.component.name).toMatch(new RegExp(`^${name}(-addon)?$`));
  }
  const installed: string[] = packages.components.map((part: { name: string }) => part.name);
  expect(installed).toEqual(expect.arrayContaining(Object.keys(dependencies)));
  expect(installed.filter((part) => part in devDependencies)).toEqual([]);
  const compiled: string[] = addon.components.map((part: { purl: string }) => part.purl);
  expect(compiled).toEqual(
    expect.arrayContaining(bundledCrates().map((crate) => `pkg:cargo/${crate.name}@${crate.version}`)),
  );
  expect(compiled).toContainEqual(expect.stringMatching(/^pkg:generic\/sqlite@3\.\d+\.\d+$/));
  expect(addon.components.filter((part: { licenses?: unknown }) => part.licenses === undefined)).toEqual([]);
}, 180_000);

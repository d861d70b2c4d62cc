// A release is tested on those runtimes that the guide names. The newest 20 was missing from them.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { root } from '../support/process.ts';

it('the package is tried on each Node that the guide names', () => {
  const guide = readFileSync(join(root, 'docs/installing.md'), 'utf8');
  const [, oldest, newest = ''] = /run on ([\d.]+) and on the newest ([\d, and]+) there/.exec(guide) ?? [];
  const [, list = ''] =
    /^const DEFAULT = \[(.+)\];$/m.exec(readFileSync(join(root, 'scripts/test-package.mjs'), 'utf8')) ?? [];
  const wanted = [`node@${oldest}.0`, ...(newest.match(/\d+/g) ?? []).map((major) => `node@${major}`), 'bun@1'];
  expect(list.split(', ').map((runtime) => runtime.replaceAll("'", ''))).toEqual(wanted);
});

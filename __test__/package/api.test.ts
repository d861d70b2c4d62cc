// The public types are those that were reviewed: a change of them shows as a change of npm/api/.

import { expect, it } from 'vitest';

import { reports } from '../../npm/api.mjs';

it('the reports in npm/api/ are what the entries declare', () => {
  expect(reports({ write: false })).toEqual([]);
}, 90_000);

// The public types are those that were reviewed: a change of them shows as a change of api/.

import { expect, it } from 'vitest';

import { reports } from '../../scripts/api.mjs';

it('the reports in api/ match the declarations of the entries', () => {
  expect(reports({ write: false })).toEqual([]);
}, 300_000);

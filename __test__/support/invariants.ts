// The rules of violations.ts, for a test to expect.

import { expect } from 'vitest';

import type { StoreAddress } from './providers.ts';
import { isIntact } from './rows.ts';
import { leftViolations, readRows, rowViolations } from './violations.ts';

/** At any moment. */
export function expectInvariants(address: StoreAddress): void {
  expect(rowViolations(readRows(address))).toEqual([]);
  expect(isIntact(address), 'the file is sound').toBe(true);
}

/** When all instances have ended and all workers were shut down: besides their rows and histories nothing is left. */
export function expectAllOver(address: StoreAddress): void {
  const rows = readRows(address);
  expect(rowViolations(rows)).toEqual([]);
  expect(leftViolations(rows)).toEqual([]);
  expect(isIntact(address), 'the file is sound').toBe(true);
}

// The rules of violations.ts, as expectations for tests.

import { expect } from 'vitest';

import type { StoreAddress } from './providers.ts';
import { isIntact } from './rows.ts';
import { leftViolations, readRows, rowViolations } from './violations.ts';

/** Expects the invariants that hold at any moment. */
export function expectInvariants(address: StoreAddress): void {
  expect(rowViolations(readRows(address))).toEqual([]);
  expect(isIntact(address), 'the file is sound').toBe(true);
}

/**
 * Expects that nothing is left besides rows and histories of instances, when all instances have ended and all workers
 * were shut down.
 */
export function expectAllOver(address: StoreAddress): void {
  const rows = readRows(address);
  expect(rowViolations(rows)).toEqual([]);
  expect(leftViolations(rows)).toEqual([]);
  expect(isIntact(address), 'the file is sound').toBe(true);
}

// Stores in memory with a clock of their own, for tests.

import { addon } from './addon.ts';
import type { NativeTestStore } from './native-classes.ts';

export function createTestStore(nowMs: number, seed: number): NativeTestStore {
  return new addon.TestStore(nowMs, seed);
}

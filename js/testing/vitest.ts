/**
 * Matchers for vitest: `import 'perdure/testing/vitest'` adds them to `expect`, in a test file or in one of
 * `setupFiles`.
 *
 * @example
 * ```ts
 * import 'perdure/testing/vitest';
 *
 * await expect(handle).toHaveCompleted('late');
 * await expect(handle).toHaveScheduled(charge, { total: 12 });
 * ```
 */

import { expect } from 'vitest';

import { matchers, type PerdureMatchers } from './matchers.ts';

export type { ExpectedError, PerdureMatchers } from './matchers.ts';

declare module 'vitest' {
  interface Matchers<T = any> extends PerdureMatchers {}
}

expect.extend(matchers as unknown as Parameters<typeof expect.extend>[0]);

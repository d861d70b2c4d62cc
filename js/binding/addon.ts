// The native addon. This is the only file that imports it.

import { createRequire } from 'node:module';

import { PerdureError } from '../errors/errors.ts';
import { addonError, checkVersion } from './addon-error.ts';
import type { RawLane, RawReplay } from './calls.ts';
import type { NativeRuntime, NativeStore, NativeStoreClass, NativeTestStore } from './native-classes.ts';

interface NativeModule {
  readonly ADDON_VERSION?: string;
  readonly Store: NativeStoreClass;
  readonly TestStore: new (nowMs: number, seed: number) => NativeTestStore;
  readonly NativeRuntime: new (store: NativeStore, options: string) => NativeRuntime;
  readonly NativeLane: new (runtime: number, lane: number, numbers: Float64Array) => RawLane;
  readonly NativeReplay: new (
    instanceId: string,
    executionId: number,
    events: string,
    numbers: Float64Array,
  ) => RawReplay;
}

export const addon = load();

/** Uses `require`: a failed static import would leave no place to explain the failure. */
function load(): NativeModule {
  const require = createRequire(import.meta.url);
  try {
    const native = require('../native/index.cjs') as NativeModule;
    checkVersion(native.ADDON_VERSION, (require('../../package.json') as { version: string }).version);
    return native;
  } catch (error) {
    if (error instanceof PerdureError) throw error;
    throw addonError(error, (specifier) => {
      try {
        return require.resolve(specifier) !== '';
      } catch {
        return false;
      }
    });
  }
}

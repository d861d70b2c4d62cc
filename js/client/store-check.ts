// Findings of a store check.

import { type OptionTable, whole } from '../util/options.ts';

/** A broken rule of the store. */
export interface StoreFinding {
  /**
   * The broken rule:
   * - `file`: the SQLite file is damaged.
   * - `history`: the events of an execution are not 1..n, do not end as they must, or refer to an operation that is not
   *   open.
   * - `status`: the row of an instance contradicts itself, its history or its messages.
   * - `owner`: a row has an owner and must not have one, or its owner is not a worker of the store.
   * - `orphan`: a row belongs to nothing that exists.
   * - `stuck`: an instance has not ended and nothing can ever wake it.
   */
  readonly rule: 'file' | 'history' | 'status' | 'owner' | 'orphan' | 'stuck';
  /** Id of the instance; `null` when the finding concerns no existing instance. */
  readonly instanceId: string | null;
  /** A sentence for people. It contains no user values. */
  readonly detail: string;
}

/** The result of one step of a check. */
export interface StoreCheck {
  readonly findings: readonly StoreFinding[];
  /** Number of instances that the step checked. */
  readonly instances: number;
  /** Number of their events. */
  readonly events: number;
  /** Cursor of the next step; `null` when the check is complete. */
  readonly cursor: string | null;
}

/** Options of {@link Client.checkStore}. */
export interface CheckStoreOptions {
  /** `cursor` of the previous step. Default: the first step, which also reads a SQLite file as a whole. */
  cursor?: string;
  /** Most instances of the step, 1 to 500. Default: 500. A step with many events has fewer. */
  limit?: number;
}

/** Most instances of one step, as in `crates/provider/src/integrity.rs`. */
const STEP_MAX = 500;

/** @internal */
export const CHECK_STORE_OPTIONS: OptionTable = {
  limit: whole(1, STEP_MAX),
  cursor(value, path) {
    if (typeof value !== 'string' || !/^-?\d{1,19}$/.test(value))
      throw new TypeError(`${path} must be the cursor of a step`);
  },
};

/** @internal */
export function stepLimit({ limit = STEP_MAX }: CheckStoreOptions): number {
  return limit;
}

// What the check of a store finds.

import { type OptionTable, whole } from '../util/options.ts';

/** Something in a store that is not as it must be. */
export interface StoreFinding {
  /**
   * Which rule is broken: `file`, the SQLite file is damaged; `history`, the events of an execution are not 1..n, do not end as they must, or refer to what is not
   * open; `status`, the row of an instance contradicts itself, its history or its messages; `owner`, somebody owns what nobody may own, or is no worker of
   * the store; `orphan`, a row belongs to nothing that is there; `stuck`, an instance has not ended and nothing can ever wake it.
   */
  readonly rule: 'file' | 'history' | 'status' | 'owner' | 'orphan' | 'stuck';
  /** The instance; `null` where the finding concerns none that is there. */
  readonly instanceId: string | null;
  /** A sentence for people. It holds no values of users. */
  readonly detail: string;
}

/** What a step of a check came to. */
export interface StoreCheck {
  readonly findings: readonly StoreFinding[];
  /** How many instances the step looked at. */
  readonly instances: number;
  /** How many events of theirs. */
  readonly events: number;
  /** For the next step; `null`: all was seen. */
  readonly cursor: string | null;
}

/** Options of {@link Client.checkStore}. */
export interface CheckStoreOptions {
  /** `cursor` of the step before. Default: the first step, which also reads a SQLite file as a whole. */
  cursor?: string;
  /** Look at no more than so many instances, 1 to 500. Default: 500. A step with many events has fewer. */
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

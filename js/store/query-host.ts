// The code that answers queries in this process.

import type { QueryAnswer } from '../driver/queries.ts';

/** One execution as the store has it, with decoded values. */
export interface StoredExecution {
  readonly instanceId: string;
  readonly executionId: number;
  /** Name of its orchestration. */
  readonly name: string;
  /** Version of its orchestration. Empty: no code has run yet, and any version may. */
  readonly version: string;
  /** JSON of all its events. */
  readonly events: string;
}

/** A runtime of this process, started or not. */
export interface QueryHost {
  /**
   * Answers a query of an execution by its code.
   *
   * @returns `undefined` when the code is not registered
   * @throws NondeterminismError, LimitError, PayloadError when the code does not fit the history
   */
  answer(execution: StoredExecution, query: string, input: unknown): QueryAnswer | undefined;
}

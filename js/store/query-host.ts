// The code that answers queries in this process.

import type { QueryAnswer } from '../driver/queries.ts';

/** A place in the history of an execution. */
export interface HistoryPlace {
  /** The store's key of the instance. */
  readonly key: number;
  readonly executionId: number;
  /** Id of the next event. */
  readonly next: number;
}

/** The end of the history of a current execution: its events from some event on, with decoded values. */
export interface ReadHistory extends HistoryPlace {
  readonly events: readonly { readonly eventId: number }[];
}

/** Reads the history of an instance after a place, or all of it: if the place is of another execution, or `null`. */
export type ReadAfter = (place: HistoryPlace | null) => Promise<ReadHistory>;

/** Code that is not registered. */
export interface MissingCode {
  readonly name: string;
  /** Empty: no code has run yet, and any version may. */
  readonly version: string;
}

/** A runtime of this process, started or not. */
export interface QueryHost {
  /**
   * Answers a query of an instance by its code.
   *
   * @throws NondeterminismError, LimitError, PayloadError when the code does not fit the history
   */
  answer(id: string, query: string, input: unknown, read: ReadAfter): Promise<QueryAnswer | MissingCode>;
  /** Drops the code that is kept for further queries. */
  forgetReplays(): void;
}

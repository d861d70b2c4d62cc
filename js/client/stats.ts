// How much a store holds.

import type { InstanceState } from './instance-status.ts';

/** What {@link Client.stats} counts, all at one moment. */
export interface StoreStats {
  /** Instances by status. */
  readonly instances: Readonly<Record<InstanceState, number>>;
  /** Events, messages and other news that wait for instances. */
  readonly messages: number;
  /** Attempts of activities that any runtime may take that serves their queue. */
  readonly tasks: {
    /** Nobody has taken them, or they wait for their next attempt. */
    readonly waiting: number;
    readonly running: number;
  };
  /** Started runtimes, of all processes, whose lease has not ended. */
  readonly workers: number;
  /** Instances that have something to do and that no runtime has taken: it may be that none has registered what they run. */
  readonly due: {
    readonly instances: number;
    /** Those of them that have been due for more than 10 s. */
    readonly overdue: number;
    /** For how long the first of them has been due, ms; 0 when there is none. */
    readonly oldestMs: number;
  };
}

/** Instances of one version of one orchestration that could go on, and that nobody has taken for 10 s and more. */
export interface OverdueInstances {
  /** Name of the orchestration. */
  readonly name: string;
  /** Its version. */
  readonly version: string;
  /** How many they are. */
  readonly instances: number;
  /** How long the first of them has waited, ms. */
  readonly oldestMs: number;
  /** The id of that one. */
  readonly oldestId: string;
}

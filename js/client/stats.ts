// Counts of the contents of a store.

import type { StoreRequest } from '../binding/store.ts';
import type { StorePort } from '../store/providers.ts';
import type { InstanceState } from './instance-status.ts';

/** The attempts of one activity queue. */
export interface QueueDepth {
  /** Name of the queue. */
  readonly name: string;
  /** Attempts that wait for a worker, or for their retry time. */
  readonly waiting: number;
  readonly running: number;
}

/** The return value of {@link Client.stats}: counts of one moment. */
export interface StoreStats {
  /** Instances by status. */
  readonly instances: Readonly<Record<InstanceState, number>>;
  /** Events, queue messages and other messages that wait for instances. */
  readonly messages: number;
  /** Activity attempts that any runtime may take that serves their queue. */
  readonly tasks: {
    /** Attempts that wait for a worker, or for their retry time. */
    readonly waiting: number;
    readonly running: number;
    /** Attempts by queue, the fullest queues first, at most 100. Queues without attempts are left out. */
    readonly queues: readonly QueueDepth[];
  };
  /** Started runtimes, of all processes, whose lease has not ended. */
  readonly workers: number;
  /**
   * Instances that have something to do and that no runtime has taken. Perhaps no runtime has registered their
   * orchestration.
   */
  readonly due: {
    readonly instances: number;
    /** Instances that have been due for more than 10 s. */
    readonly overdue: number;
    /** Time for which the first of them has been due, ms; 0 when there is none. */
    readonly oldestMs: number;
  };
}

/** Instances of one version of one orchestration that could go on and that no worker has taken for 10 s or more. */
export interface OverdueInstances {
  /** Name of the orchestration. */
  readonly name: string;
  /** Version of the orchestration. */
  readonly version: string;
  /** Number of instances. */
  readonly instances: number;
  /** Time for which the longest waiting instance has waited, ms. */
  readonly oldestMs: number;
  /** Id of the longest waiting instance. */
  readonly oldestId: string;
}

/** Attempts of one activity in one queue that are due and that no worker has taken. */
export interface OverdueAttempts {
  readonly queue: string;
  /** Name of the activity. */
  readonly name: string;
  /** Number of attempts. */
  readonly attempts: number;
  /** Time for which the longest waiting attempt has waited, ms. */
  readonly oldestMs: number;
  /** Id of the instance of the longest waiting attempt. */
  readonly oldestId: string;
}

/** Time for which the instances of {@link Client.overdue} have been due, ms. */
export const OVERDUE_MS = 10_000;

/** Reads the work that has been due for longer than a time. Some work is left out. */
export async function overdueWork(
  port: StorePort,
  request: Omit<StoreRequest & { readonly kind: 'overdue' }, 'kind'>,
): Promise<{ instances: OverdueInstances[]; attempts: OverdueAttempts[] }> {
  return JSON.parse((await port.request({ kind: 'overdue', ...request })) as string);
}

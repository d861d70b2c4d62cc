// How a store is set up, and who works on it, as clients are told.

import type { LaneMetrics } from '../tracing/metrics.ts';

/** What {@link Client.describeStore} tells. */
export interface StoreDescription {
  readonly kind: 'sqlite' | 'postgres';
  /** The file, or the URL without its password; `:memory:` for one in memory. */
  readonly location: string;
  /** What the store's clock shows: leases and due times are by it. */
  readonly clock: Date;
  /** Version of its tables. */
  readonly schemaVersion: number;
  /** What it takes on the disk with its indexes, bytes. */
  readonly bytes: number;
  /**
   * How it is set up, by the names that the store itself has for it, such as `synchronous` (of this connection) or `server_version`: for
   * people to read, and not the same for each kind and release.
   */
  readonly settings: Readonly<Record<string, string>>;
}

/**
 * What a started runtime tells of itself. It does so when it is started and with each renewal of its lease, every third part of `lease` (5 s unless its
 * options say otherwise), so that what is told here may be as old as that.
 */
export interface WorkerAbout {
  /** What its machine is called; empty where that cannot be told. */
  readonly hostName: string;
  /** Version of Node that it runs in. */
  readonly nodeVersion: string;
  /** Version of Perdure that it runs with. */
  readonly perdureVersion: string;
  /** `threads` of the runtime: those besides the main thread. */
  readonly threads: number;
  /** `activityConcurrency` of the runtime. */
  readonly activityConcurrency: number;
  /** Attempts of activities that have a slot. */
  readonly runningActivities: number;
  /** Instances in its memory: those that it has, and others whose generator it keeps. */
  readonly loadedInstances: number;
  /**
   * Of each thread, the main one first, and of no more than 64. `busyShare` is that of the third part of a lease which was over last when the runtime told
   * it, to a hundredth; of a main thread that is held up, that from before.
   */
  readonly lanes: readonly LaneMetrics[];
}

/** How busy its threads are together, 0 to 1. */
export function busyShareOf({ lanes }: WorkerAbout): number {
  return lanes.reduce((sum, { busyShare }) => sum + busyShare, 0) / Math.max(1, lanes.length);
}

/** A started runtime, of whichever process. */
export interface WorkerInfo {
  /** Another one for each start. */
  readonly id: string;
  /** `workerName` of the runtime. */
  readonly name: string;
  /** The machine, told apart from itself before it was started anew. */
  readonly host: string;
  readonly pid: number;
  /** When its lease ends, by the store's clock, unless it renews it. */
  readonly leaseUntil: Date;
  /** Whether that is still to come. One whose lease has ended is taken over by any other worker. */
  readonly isAlive: boolean;
  /** Instances that it has now. */
  readonly instances: number;
  /** Attempts of activities that it runs for instances of others. */
  readonly tasks: number;
  /** What it tells of itself; absent where it tells nothing, as those of an older Perdure. */
  readonly about?: WorkerAbout;
}

/** What the store says. */
export interface InspectionData extends Omit<StoreDescription, 'clock' | 'settings'> {
  readonly clock: number;
  readonly settings: readonly (readonly [string, string])[];
  readonly workers: readonly (Omit<WorkerInfo, 'leaseUntil' | 'about'> & {
    readonly leaseUntil: number;
    readonly about: WorkerAbout | null;
  })[];
}

export function descriptionOf({
  kind,
  location,
  clock,
  schemaVersion,
  bytes,
  settings,
}: InspectionData): StoreDescription {
  return { kind, location, clock: new Date(clock), schemaVersion, bytes, settings: Object.fromEntries(settings) };
}

export function workersOf({ workers }: InspectionData): WorkerInfo[] {
  return workers.map(({ about, ...worker }) => ({
    ...worker,
    leaseUntil: new Date(worker.leaseUntil),
    ...(about === null ? {} : { about }),
  }));
}

// The setup of a store and its workers, as clients see them.

import { isBuiltIn } from '../orchestration/definition.ts';
import type { StorePort } from '../store/providers.ts';
import type { LaneMetrics } from '../tracing/metrics.ts';

/** The return value of {@link Client.describeStore}. */
export interface StoreDescription {
  readonly kind: 'sqlite' | 'postgres';
  /** The file, or the URL without its password; `:memory:` for a store in memory. */
  readonly location: string;
  /** Time of the store's clock, which decides when leases end and instances are due. */
  readonly clock: Date;
  /** Version of its tables. */
  readonly schemaVersion: number;
  /** Size on disk with indexes, in bytes. */
  readonly bytes: number;
  /**
   * Settings by the names that the store uses for them, such as `synchronous` (of this connection) or `server_version`.
   * They are for people to read, and differ between kinds and releases of stores.
   */
  readonly settings: Readonly<Record<string, string>>;
}

/**
 * A started runtime's report on itself. The runtime reports when it is started and at each renewal of its lease, every
 * third part of `lease` (5 s by default). The report may be as old as that.
 */
export interface WorkerDescription {
  /** Name of the machine; empty when it cannot be determined. */
  readonly hostName: string;
  /** Version of Node that the runtime runs in. */
  readonly nodeVersion: string;
  /** Version of Perdure that the runtime runs with. */
  readonly perdureVersion: string;
  /** `threads` of the runtime: its threads besides the main thread. */
  readonly threads: number;
  /** `activityConcurrency` of the runtime. */
  readonly activityConcurrency: number;
  /** `orchestrationConcurrency` of the runtime. */
  readonly orchestrationConcurrency: number;
  /** Activity attempts that have a slot. */
  readonly runningActivities: number;
  /** Instances in the runtime's memory: those that it owns, and others whose generator it keeps. */
  readonly loadedInstances: number;
  /**
   * Metrics of each thread, the main thread first, at most 64. `busyShare` covers the last third of a lease that was
   * complete when the runtime reported, to a hundredth. A main thread that is blocked shows its previous value.
   */
  readonly lanes: readonly LaneMetrics[];
  /** The work that the runtime can run; absent when its version of Perdure does not report this. */
  readonly registered?: RegisteredNames;
}

/** The orchestrations, activities and queues that a runtime has registered. */
export interface RegisteredNames {
  /** In order of their names. Perdure's own, which every runtime has, are left out. */
  readonly orchestrations: readonly {
    readonly name: string;
    /** The highest version comes last. */
    readonly versions: readonly string[];
  }[];
  /** Names of activities, in order. */
  readonly activities: readonly string[];
  /** `queues` of the runtime: it runs activities of these queues. Empty for `'any'`. */
  readonly queues: readonly string[];
  /** True if the runtime runs activities of every queue. */
  readonly anyQueue: boolean;
  /** True if names are left out, because all of them would take more than 32 KiB. */
  readonly isCut: boolean;
}

/** Returns the mean busy share of the threads, 0 to 1. */
export function busyShareOf({ lanes }: WorkerDescription): number {
  return lanes.reduce((sum, { busyShare }) => sum + busyShare, 0) / Math.max(1, lanes.length);
}

/** A started runtime, of any process. */
export interface WorkerInfo {
  /** Id of the worker; each start of a runtime has a new one. */
  readonly id: string;
  /** `workerName` of the runtime. */
  readonly name: string;
  /**
   * Identifies the machine since its last boot, and its namespace of process ids. Empty where this cannot be
   * determined.
   */
  readonly host: string;
  readonly pid: number;
  /** End of the lease by the store's clock, unless the runtime renews it. */
  readonly leaseUntil: Date;
  /** True if the lease has not ended. Any other worker takes over from one whose lease has ended. */
  readonly isAlive: boolean;
  /** Instances that the runtime owns now. */
  readonly instances: number;
  /** Activity attempts that the runtime runs for instances of other workers. */
  readonly tasks: number;
  /** The runtime's report on itself; absent when it sends none, as runtimes of an older Perdure do. */
  readonly about?: WorkerDescription;
}

/** Data of the store and its workers, as the addon returns it. */
export interface InspectionData extends Omit<StoreDescription, 'clock' | 'settings'> {
  readonly clock: number;
  readonly settings: readonly (readonly [string, string])[];
  readonly workers: readonly (Omit<WorkerInfo, 'leaseUntil' | 'about'> & {
    readonly leaseUntil: number;
    readonly about: (Omit<WorkerDescription, 'registered'> & { readonly registered: RegisteredNames | null }) | null;
  })[];
}

/** Reads the data of the store and its workers. */
export async function inspect(port: StorePort): Promise<InspectionData> {
  return JSON.parse((await port.request({ kind: 'inspect' })) as string) as InspectionData;
}

/** Reads the started runtimes of all processes. */
export async function readWorkers(port: StorePort): Promise<WorkerInfo[]> {
  return workersOf(await inspect(port));
}

const readings = new WeakMap<StorePort, Promise<WorkerInfo[]>>();

/**
 * The same, or the result of a reading that is under way: many waits that run out of time together read the workers
 * once. The result may be as old as the begin of that reading.
 */
export function shareWorkers(port: StorePort): Promise<WorkerInfo[]> {
  const known = readings.get(port);
  if (known !== undefined) return known;
  const reading = readWorkers(port).finally(() => readings.delete(port));
  readings.set(port, reading);
  return reading;
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

function workersOf({ workers }: InspectionData): WorkerInfo[] {
  return workers.map(({ about, ...worker }) => ({
    ...worker,
    leaseUntil: new Date(worker.leaseUntil),
    ...(about === null ? {} : { about: reportOf(about) }),
  }));
}

type ReportData = NonNullable<InspectionData['workers'][number]['about']>;

function reportOf({ registered, ...report }: ReportData): WorkerDescription {
  if (registered === null) return report;
  const orchestrations = registered.orchestrations.filter(({ name }) => !isBuiltIn(name));
  return { ...report, registered: { ...registered, orchestrations } };
}

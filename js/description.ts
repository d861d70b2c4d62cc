// How a store is set up, and who works on it, as clients are told.

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
}

/** What the store says. */
export interface InspectionData extends Omit<StoreDescription, 'clock' | 'settings'> {
  readonly clock: number;
  readonly settings: readonly (readonly [string, string])[];
  readonly workers: readonly (Omit<WorkerInfo, 'leaseUntil'> & { readonly leaseUntil: number })[];
}

export function descriptionOf({ kind, location, clock, schemaVersion, bytes, settings }: InspectionData): StoreDescription {
  return { kind, location, clock: new Date(clock), schemaVersion, bytes, settings: Object.fromEntries(settings) };
}

export function workersOf({ workers }: InspectionData): WorkerInfo[] {
  return workers.map((worker) => ({ ...worker, leaseUntil: new Date(worker.leaseUntil) }));
}

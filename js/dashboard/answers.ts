// What the dashboard's server answers to its page: JSON, and nothing but types here, because both sides read them.

import type { WorkerAbout } from '../client/description.ts';
import type { HistoryEventKind } from '../client/history.ts';
import type { InstanceState } from '../client/instance-status.ts';
import type { StoreStats } from '../client/stats.ts';
import type { DashboardAction } from './options.ts';

/** Every refusal. */
export interface ErrorAnswer {
  readonly error: { readonly code: string; readonly message: string };
}

/** A value as text: it may be anything of anybody, and is never more than text. */
export interface Shown {
  readonly text: string;
  /** Whether this is all of it. */
  readonly isWhole: boolean;
}

/** `GET api/v1/about` */
export interface AboutAnswer {
  readonly store: Readonly<Record<string, unknown>>;
  readonly readOnly: boolean;
  readonly hasRuntime: boolean;
}

/** A started runtime of any process. */
export interface WorkerAnswer {
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly leaseUntilMs: number;
  readonly isAlive: boolean;
  readonly instances: number;
  readonly tasks: number;
  /** What it tells of itself; absent where it tells nothing. */
  readonly about?: WorkerAbout;
}

/** The counters of `runtime.metrics()`, if there is a runtime: numbers by name, of histograms the mean in ms. */
export interface RuntimeAnswer {
  readonly counters: Readonly<Record<string, number>>;
}

/** One look at everything: an event `sample` of `GET api/v1/live`. */
export interface Sample {
  readonly tick: Tick;
  readonly stats: StoreStats;
  readonly workers: readonly WorkerAnswer[];
  readonly runtime: RuntimeAnswer | null;
}

/** What a rate is made of; of former looks nothing else is kept. */
export interface Tick {
  readonly atMs: number;
  /** Instances that there were. */
  readonly instances: number;
  /** Those of them that had ended. */
  readonly ended: number;
  /** Turns and attempts of the runtime since it was started. */
  readonly turns?: number;
  readonly attempts?: number;
}

/** The first event, `past`, of `GET api/v1/live`. */
export type PastAnswer = readonly Tick[];

/** A row of the list. */
export interface InstanceRow {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly status: InstanceState;
  readonly executionId: number;
  readonly customStatus?: Shown;
  /** The first line of it. */
  readonly error?: string;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  readonly completedAtMs?: number;
  readonly parentId?: string;
  readonly priority?: number;
  readonly tags: Readonly<Record<string, string>>;
}

/** `GET api/v1/instances` */
export interface InstancesAnswer {
  readonly items: readonly InstanceRow[];
  readonly cursor: string | null;
}

/** Why an instance is suspended: the fields of its error, as texts. */
export interface ReportAnswer {
  readonly code: string;
  readonly message: string;
  readonly fields: readonly { readonly name: string; readonly value: Shown }[];
}

/** `GET api/v1/instance`, and an event `instance` of `GET api/v1/live?id=`. */
export interface InstanceAnswer extends Omit<InstanceRow, 'error'> {
  readonly customStatusVersion: number;
  readonly output?: Shown;
  readonly error?: Shown;
  readonly report?: ReportAnswer;
}

/** An event of a history. */
export interface EventRow {
  readonly id: number;
  readonly atMs: number;
  readonly kind: HistoryEventKind;
  /** The event that it answers. */
  readonly ref?: number;
  readonly name?: string;
  /** The fiber that asked for it, or received it; the main one where there is none. */
  readonly fiber?: number;
  /** Its value, if it has one. */
  readonly value?: Shown;
  readonly attempt?: number;
  /** When the next attempt may start, or the timer is due. */
  readonly untilMs?: number;
  /** The other instance: one that is started, or that is sent to. */
  readonly instance?: string;
  /** The queue of an activity that is not of the default one; how a child or a message failed; the version of an execution. */
  readonly note?: string;
}

/** `GET api/v1/history`, and an event `history` of `GET api/v1/live?id=`. */
export interface HistoryAnswer {
  readonly executionId: number;
  readonly events: readonly EventRow[];
  /** The event to go on with; `null`: there are no others yet. */
  readonly next: number | null;
}

/** What may be done, and its body: `POST api/v1/<action>`. */
export interface ActionBodies {
  readonly raise: { id: string; name: string; data?: unknown };
  readonly enqueue: { id: string; queue: string; data?: unknown };
  readonly cancel: { id: string; reason?: string };
  readonly terminate: { id: string; reason?: string };
  readonly suspend: { id: string; reason?: string };
  readonly resume: { id: string };
  /** `newId`: under that id; without it, again under its own. `executionId`: with the input of that execution; default the last one. */
  readonly start: { id: string; newId?: string; executionId?: number; version?: string };
}

/** An action that changes something. */
export type ChangingAction = Exclude<DashboardAction, 'read'> & keyof ActionBodies;

/** What each action answers. */
export interface ActionAnswer {
  /** The instance that it was about; of a start under a new id, that one. */
  readonly id: string;
}

// Answers of the dashboard's server to its page, as JSON. This file holds only types, because both sides import it.

import type { WorkerDescription } from '../client/description.ts';
import type { InstanceFacts } from '../client/facts.ts';
import type { HistoryEventKind } from '../client/history.ts';
import type {
  AwaitedMessage,
  FiberWait,
  OpenActivity,
  QueuePlace,
  WorkerName,
} from '../client/instance-description.ts';
import type { InstanceState } from '../client/instance-status.ts';
import type { StoreStats } from '../client/stats.ts';
import type { StreamInfo } from '../client/streams.ts';
import type { TokenInfo } from '../client/tokens.ts';
import type { DueOutcome } from '../schedules/schedule-data.ts';
import type { DashboardAction } from './options.ts';
import type { DueCounts, ScheduleBodies } from './schedule-answers.ts';

/** The body of every refusal. */
export interface ErrorAnswer {
  readonly error: { readonly code: string; readonly message: string; readonly issues?: readonly InputIssue[] };
}

/** A problem of an input that does not fit its schema. */
export interface InputIssue {
  /** Path of the wrong part, such as `input.items[0].sku`. */
  readonly path: string;
  readonly message: string;
}

/** `GET api/v1/startable`: the orchestrations that are registered somewhere, or have instances. */
export interface StartableAnswer {
  readonly items: readonly { readonly name: string; readonly versions: readonly string[] }[];
}

/** `GET api/v1/form` */
export interface FormAnswer {
  /** JSON Schema of the input, if the runtime beside the dashboard has a definition whose schema can be converted. */
  readonly schema: Readonly<Record<string, unknown>> | null;
  /** True if the server checks the input before a start. */
  readonly isChecked: boolean;
}

/** A value as text. The value is arbitrary user data, so it is only ever shown as text. */
export interface ValueText {
  readonly text: string;
  /** True if `text` is the whole value. */
  readonly isWhole: boolean;
  /** For an error whose text is whole: the error, and its causes. */
  readonly errors?: readonly ErrorText[];
}

/** An error, or a cause of one. */
export interface ErrorText {
  /** Empty for a cause that is no error. */
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  /** Its other fields, as text. */
  readonly fields?: string;
}

/** `GET api/v1/about` */
export interface AboutAnswer {
  readonly store: Readonly<Record<string, unknown>>;
  readonly readOnly: boolean;
  readonly hasRuntime: boolean;
  /** The entities whose definitions the dashboard has. Absent: there are none. */
  readonly entities?: readonly (EntityNames & { readonly name: string })[];
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
  /** The worker's report on itself; absent when it sends none. */
  readonly about?: WorkerDescription;
}

/** `GET api/v1/orchestrations` */
export interface OrchestrationsAnswer {
  readonly items: readonly OrchestrationRow[];
  /** Number of instances in the sample. They are the newest ones. */
  readonly sampled: number;
  /** True if the sample has all instances of the store. */
  readonly isWhole: boolean;
  /** Start of the oldest instance of the sample, ms since 1970. */
  readonly sinceMs: number;
  readonly atMs: number;
}

/** Numbers of the instances of one orchestration, or of one version of it, in a sample. */
export interface OrchestrationNumbers {
  readonly instances: number;
  readonly counts: Readonly<Record<InstanceState, number>>;
  readonly ended: number;
  /** Starts per second from the beginning of the sample until now. */
  readonly startsPerSecond: number;
  /** Durations of the ended instances, from start to end; absent when there are none. */
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  /** Instances of the whole store that could go on and that no worker has taken for 10 s. */
  readonly overdue: number;
}

export interface OrchestrationRow extends OrchestrationNumbers {
  readonly name: string;
  readonly versions: readonly (OrchestrationNumbers & {
    readonly version: string;
    /** Live workers that have registered it. */
    readonly workers: number;
  })[];
}

/** The counters of `runtime.metrics()`, if there is a runtime: numbers by name; for a histogram its mean, in ms. */
export interface RuntimeAnswer {
  readonly counters: Readonly<Record<string, number>>;
}

/** One sample of the store: an event `sample` of `GET api/v1/live`. */
export interface Sample {
  readonly tick: SampleCounts;
  readonly stats: StoreStats;
  readonly workers: readonly WorkerAnswer[];
  readonly runtime: RuntimeAnswer | null;
}

/** The counts from which rates are computed. Nothing else is kept of past samples. */
export interface SampleCounts {
  readonly atMs: number;
  /** Number of instances in the store. */
  readonly instances: number;
  /** Number of instances that have ended. */
  readonly ended: number;
  /** Turns and attempts of the runtime since its start. */
  readonly turns?: number;
  readonly attempts?: number;
}

/** Data of `past`, the first event of `GET api/v1/live`. */
export type PastAnswer = readonly SampleCounts[];

/** A row of the list. */
export interface InstanceRow {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly status: InstanceState;
  readonly executionId: number;
  readonly customStatus?: ValueText;
  /** First line of the error message. */
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

/** Report of a suspension: the fields of the instance's error, as texts. */
export interface ReportAnswer {
  readonly code: string;
  readonly message: string;
  readonly fields: readonly { readonly name: string; readonly value: ValueText }[];
}

/** `GET api/v1/instance`, and an event `instance` of `GET api/v1/live?id=`. */
export interface InstanceAnswer extends Omit<InstanceRow, 'error'> {
  readonly customStatusVersion: number;
  readonly output?: ValueText;
  readonly error?: ValueText;
  readonly report?: ReportAnswer;
  /** The names of its handlers and reads, if the instance is an entity whose definition the dashboard has. */
  readonly entity?: EntityNames;
}

export interface EntityNames {
  readonly handlers: readonly string[];
  readonly reads: readonly string[];
}

/**
 * `GET api/v1/waits`, and an event `waits` of `GET api/v1/live?id=`: what an instance waits for. All lists are empty if
 * the instance has ended or is Pending.
 */
export interface WaitsAnswer {
  /** Number of the current or last execution, whose events the numbers below are. */
  readonly executionId: number;
  /** Its place in its queue, until it has a slot. */
  readonly queue?: PlaceRow & { readonly name: string };
  /** Its start time, if that has to come and it is in no queue. */
  readonly startsAtMs?: number;
  readonly activities: readonly ActivityWait[];
  readonly timers: readonly { readonly eventId: number; readonly dueAtMs: number; readonly fiber: number }[];
  readonly children: readonly {
    readonly eventId: number;
    readonly name: string;
    readonly instanceId: string;
    readonly fiber: number;
  }[];
  /** The title of a message is there if its name is Perdure's own. */
  readonly messages: readonly (AwaitedMessage & { readonly title?: string })[];
  readonly fibers: readonly FiberWait[];
  /** Number of all open operations, of which some are named. */
  readonly openOperations: number;
  /** Number of all fibers that have not ended, of which some are named. */
  readonly openFibers: number;
}

/** `GET api/v1/state`, and an event `state` of `GET api/v1/live?id=`: the published values, in the order of names. */
export interface StateAnswer {
  readonly items: readonly PublishedValue[];
}

export interface PublishedValue {
  readonly name: string;
  readonly version: number;
  /** The beginning of the value: the texts of one answer have a limited length in all. Absent if it was redacted. */
  readonly value?: ValueText;
}

/** `GET api/v1/streams`, and an event `streams` of `GET api/v1/live?id=`: the streams of an instance, by name. */
export interface StreamsAnswer {
  readonly items: readonly StreamInfo[];
  /** Number of further streams, which are not listed. */
  readonly others: number;
}

/** `GET api/v1/stream`: the last entries of a stream, or those of them from an index on. */
export interface EntriesAnswer {
  readonly items: readonly EntryRow[];
  /** Index of the first of the last entries, whether those are answered or not. */
  readonly first: number;
  /** Index to go on from. */
  readonly next: number;
}

/** An entry of a stream, or a marker before its index. */
export interface EntryRow {
  readonly index: number;
  readonly atMs: number;
  /** The activity that wrote it, and its attempt. Absent: the orchestration did. */
  readonly activity?: string;
  readonly attempt?: number;
  /** The beginning of the value. Absent if it was redacted, and for a marker. */
  readonly value?: ValueText;
  /** For a marker: the activity begins anew, and its entries from this index on are to be dropped. */
  readonly resetFrom?: number;
}

/** `GET api/v1/tokens`: tokens that can be resolved, or those that have ended, the newest first. */
export interface TokensAnswer {
  readonly items: readonly TokenRow[];
  readonly cursor: string | null;
}

/** A token. The id that resolves it is a secret, and stays in the server. */
export interface TokenRow {
  /** Id of the instance that the token is. It resolves nothing. */
  readonly token: string;
  /** The instance that waits. Absent if the token was made in no orchestration. */
  readonly instanceId?: string;
  readonly status: TokenInfo['status'];
  /** The data that the token was made with. Absent if there is none, and if it was redacted. */
  readonly data?: ValueText;
  readonly createdAtMs: number;
  readonly expiresAtMs?: number;
  readonly endedAtMs?: number;
}

/** `GET api/v1/locks`: the locks with names, the newest first. */
export interface LocksAnswer {
  readonly items: readonly LockRow[];
  readonly cursor: string | null;
}

export interface LockRow {
  /** Id of the instance that the lock is. */
  readonly id: string;
  readonly name: string;
  /** The instances whose blocks hold it, one for each permit that is taken: the first of them. */
  readonly holders: readonly string[];
  /** Number of permits that are taken. */
  readonly taken: number;
  /** Number of all permits. It is known only while the lock is held. */
  readonly permits?: number;
  /** Number of blocks that wait. */
  readonly waiting: number;
  readonly updatedAtMs: number;
}

/** `GET api/v1/queues`: the queues, in the order of their names. */
export interface QueuesAnswer {
  readonly items: readonly QueueRow[];
}

export interface QueueRow {
  readonly name: string;
  /** The limits, as a text for people. */
  readonly limits: string;
  readonly waiting: number;
  /** Number of instances whose start time has not come. */
  readonly delayed: number;
  readonly running: number;
  /** The most instances that have a slot. Absent: any number. */
  readonly slots?: number;
  /** Number of instances that the rate lets begin now. Absent: there is no rate. */
  readonly tokens?: number;
  /** Time since which the instance waits that waits longest. Absent: none waits. */
  readonly oldestMs?: number;
  /** Time since which the queue is paused. Absent: it is not. */
  readonly pausedMs?: number;
}

/** A takeover, as far as it is drawn. */
export interface DrawnTakeover {
  readonly atMs: number;
  /** The event that was to follow. */
  readonly eventId: number;
  /** Name of the worker that died. */
  readonly worker: string;
  /** The event that scheduled the activity of which it ran an attempt for another worker. */
  readonly activityEventId?: number;
}

/**
 * `GET api/v1/takeovers`, and an event `takeovers` of `GET api/v1/live?id=`: the deaths of workers that an instance
 * lived through, over all its executions, in the order of their times.
 */
export interface TakeoversAnswer {
  readonly items: readonly (DrawnTakeover & { readonly executionId: number })[];
}

/** A place in a queue. */
export interface PlaceRow extends Omit<QueuePlace, 'since' | 'paused'> {
  readonly sinceMs: number;
  readonly pausedMs?: number;
}

/** An activity that has not settled. */
export interface ActivityWait extends Pick<OpenActivity, 'eventId' | 'name' | 'state' | 'attempt' | 'queue' | 'fiber'> {
  /** Its place in its queue, until it has a slot. */
  readonly place?: PlaceRow;
  readonly worker?: WorkerName;
  readonly scheduledAtMs: number;
  readonly lastError?: ValueText;
  readonly retryAtMs?: number;
  /** The last heartbeat. Its details are absent if the redaction removed them. */
  readonly heartbeat?: { readonly atMs: number; readonly details?: ValueText };
}

/** An event of a history. */
export interface EventRow {
  readonly id: number;
  readonly atMs: number;
  readonly kind: HistoryEventKind;
  /** Number of the event that this one answers. */
  readonly ref?: number;
  readonly name?: string;
  /** Title of an event whose name is one of Perdure's own: `update addItem`. */
  readonly title?: string;
  /** Number of the fiber that requested the operation or received the message; absent for the main fiber. */
  readonly fiber?: number;
  /** Value of the event, if it has one. */
  readonly value?: ValueText;
  readonly attempt?: number;
  /** Time at which the next attempt may start, or the timer is due. */
  readonly untilMs?: number;
  /** Id of the other instance: one that is started, or that a message is sent to. */
  readonly instance?: string;
  /**
   * For an activity its queue, unless it is the default one; for a child or a message how it failed; for an execution
   * its version.
   */
  readonly note?: string;
}

/** `GET api/v1/history`, and an event `history` of `GET api/v1/live?id=`. */
export interface HistoryAnswer {
  readonly executionId: number;
  readonly events: readonly EventRow[];
  /** Number of the event to go on from; `null` when there are no more events yet. */
  readonly next: number | null;
}

/** `GET api/v1/facts`: the room that an instance takes in the store. It is counted for each request. */
export type FactsAnswer = InstanceFacts;

/** `GET api/v1/tree`: the relatives of an instance. */
export interface TreeAnswer {
  /** Its parent, the parent of that, and so on, as far as they are stored. */
  readonly ancestors: readonly Relative[];
  /** True if there are further ancestors. */
  readonly hasMoreAncestors: boolean;
  readonly top: Tree;
}

/** An instance and its descendants. */
export interface Tree {
  readonly instance: Relative;
  /** Its children, in the order in which they were started. */
  readonly children: readonly Tree[];
  /** True if it has more children, which are older than these. */
  readonly hasMore: boolean;
}

export type Relative = Pick<InstanceRow, 'id' | 'name' | 'status' | 'createdAtMs' | 'completedAtMs'>;

/** `GET api/v1/executions` */
export interface ExecutionsAnswer {
  /** The executions, the newest first. */
  readonly items: readonly ExecutionRow[];
  /** Number of the execution to go on from; `null` when there are no more executions. */
  readonly next: number | null;
}

export interface ExecutionRow {
  readonly executionId: number;
  readonly version: string;
  readonly status: InstanceState | 'ContinuedAsNew';
  readonly startedAtMs: number;
  /** Absent while the execution goes on. */
  readonly endedAtMs?: number;
  /** Number of events of its history. */
  readonly events: number;
}

/** `GET api/v1/logs`: the last lines that an instance logged and that match a filter, or those after a cursor. */
export interface LogsAnswer {
  /** The lines, the oldest first. */
  readonly lines: readonly LogRow[];
  /** Cursor after the last stored line, whether that matches or not; `null` when no line is stored so far. */
  readonly cursor: string | null;
  /** True if lines before these match too. */
  readonly hasEarlier: boolean;
}

/** A line that an orchestration logged. */
export interface LogRow {
  readonly executionId: number;
  readonly atMs: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields?: ValueText;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** The bodies of the actions: `POST api/v1/<action>`. */
export interface ActionBodies extends ScheduleBodies {
  /** With `start`, the message starts its instance if there is none. Without `id`, the id is a UUID then. */
  readonly raise: { id?: string; name: string; data?: unknown; start?: MessageStart };
  readonly enqueue: { id?: string; queue: string; data?: unknown; start?: MessageStart };
  readonly cancel: { id: string; reason?: string };
  readonly terminate: { id: string; reason?: string };
  readonly suspend: { id: string; reason?: string };
  readonly resume: { id: string };
  /** The instance must have ended. */
  readonly delete: { id: string };
  /** Without `id`, the id is a UUID. Without `version`, the newest one that a live worker has. */
  readonly start: {
    id?: string;
    name: string;
    version?: string;
    input?: unknown;
    tags?: Readonly<Record<string, string>>;
    priority?: number;
  };
  /**
   * `newId` is the id of the new instance; without it, the instance is started again under its own id. `executionId`
   * selects the execution whose input is used; default the last one.
   */
  readonly restart: { id: string; newId?: string; executionId?: number; version?: string };
  /** `id` is the instance that waits, and `token` the instance that the token is. */
  readonly resolveToken: { id: string; token: string; value?: unknown };
  readonly rejectToken: { id: string; token: string; message: string };
  /** For these two, `id` is the name of the queue. */
  readonly pauseQueue: { id: string };
  readonly resumeQueue: { id: string };
}

/** The start of an instance by a message to it. */
export type MessageStart = Omit<ActionBodies['start'], 'id'>;

/** The bodies of the questions to an instance: `POST api/v1/<question>`. */
export interface QuestionBodies {
  /**
   * `isCall`: `name` is a handler of the entity that the instance is, or will be. `isOneWay`: the call is stored, and
   * has no answer. Without `updateId`, the id is a UUID. Questions
   * with the same id are one update. With `start`, the update starts its instance if there is none. Without `id`, the
   * id is a UUID then.
   */
  readonly update: {
    id?: string;
    name: string;
    input?: unknown;
    updateId?: string;
    isCall?: boolean;
    isOneWay?: boolean;
    start?: MessageStart;
  };
  /** `isRead`: `name` is a read of the entity that the instance is. */
  readonly query: { id: string; name: string; input?: unknown; isRead?: boolean };
}

export type Question = DashboardAction & keyof QuestionBodies;

/** The answer to a question. */
export interface QuestionAnswer {
  /**
   * `'waiting'`: there is no answer yet. The update goes on, and its id asks for the same answer. `'sent'`: a one-way
   * call is stored.
   */
  readonly outcome: 'value' | 'error' | 'waiting' | 'sent';
  /** The value or the error. Absent if there is no answer yet, and if it was redacted. */
  readonly value?: ValueText;
  readonly updateId?: string;
  /** After an update with a start: the id of the instance. */
  readonly instanceId?: string;
}

/** An action that changes the store. */
export type ChangingAction = Exclude<DashboardAction, 'read'> & keyof ActionBodies;

/** An action that can be taken on all instances that match a filter. */
export type BulkAction = Exclude<ChangingAction, 'start' | 'restart' | TokenAction | ScheduleAction | QueueAction>;

/** An action that ends a token. */
export type TokenAction = Extract<ChangingAction, 'resolveToken' | 'rejectToken'>;

/** An action on a schedule. */
export type ScheduleAction = ChangingAction & keyof ScheduleBodies;

/** An action on a queue. */
export type QueueAction = Extract<ChangingAction, 'pauseQueue' | 'resumeQueue'>;

/** `GET api/v1/preview`, with the parameters of `GET api/v1/instances` that filter. */
export interface PreviewAnswer {
  /** Number of matching instances, as far as they were counted. */
  readonly count: number;
  /** True if there are more. */
  readonly isMore: boolean;
  /** Most instances that are counted, and acted on at once. */
  readonly most: number;
  /** Time for the filter that leaves out instances that are started later; `null` if no instance matches. */
  readonly createdBefore: string | null;
}

/** The body of `POST api/v1/bulk`: acts on the next instances that match. */
export interface BulkRequest {
  readonly action: BulkAction;
  /** The parameters of `GET api/v1/instances` that filter, as a query string. */
  readonly filter: string;
  /** The cursor of the answer before. */
  readonly cursor?: string;
  /** The body of the action without the id. */
  readonly values?: Readonly<Record<string, unknown>>;
}

export interface BulkAnswer {
  readonly done: number;
  readonly failed: number;
  /** Some of the failed instances. */
  readonly problems: readonly { readonly id: string; readonly message: string }[];
  /** The cursor to go on from; `null` when there are no more instances. */
  readonly cursor: string | null;
}

/** The answer of each action. */
export interface ActionAnswer {
  /** Id of the instance; after a start or a restart under a new id, that id. */
  readonly id: string;
  /** After a schedule was run: the decision of the schedule, with the id of the instance that was started. */
  readonly run?: { readonly outcome: DueOutcome; readonly id?: string };
  /** After a backfill: the decisions of the schedule. */
  readonly dues?: DueCounts;
}

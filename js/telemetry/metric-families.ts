// The metrics of runtimes and of a store as monitoring systems know them: names, kinds and labels.

import type { StoreStats } from '../client/stats.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { DurationHistogram, LaneMetrics, RuntimeMetrics } from '../tracing/metrics.ts';
import { isList } from '../util/show.ts';

/**
 * Labels of a sample. The values of `orchestration`, `activity`, `error` and `queue` are the user's: their number is
 * limited where they are counted, and a text format has to escape them. Ids of instances are not among the labels.
 */
export type Labels = Readonly<Record<string, string>>;
export type Kind = 'counter' | 'gauge';

/** Metrics of a runtime that are one number: name, kind, help, value. A `'result'` or the like is a label of it. */
export const NUMBERS: readonly (readonly [
  name: string,
  kind: Kind,
  help: string,
  of: (metrics: RuntimeMetrics) => readonly (readonly [Labels, number])[],
])[] = [
  ['instances_started_total', 'counter', 'Instances whose first turn ran on this runtime.', (m) => [[{}, m.started]]],
  [
    'instances_ended_total',
    'counter',
    'Instances that ended on this runtime, by status.',
    (m) => [
      [{ status: 'Completed' }, m.completed],
      [{ status: 'Failed' }, m.failed],
      [{ status: 'Cancelled' }, m.cancelled],
    ],
  ],
  [
    'orchestration_outcomes_total',
    'counter',
    'Instances that ended or were suspended on this runtime, by orchestration, status and error.',
    (m) => m.orchestrations.map(({ name, status, error, count }) => [{ orchestration: name, status, error }, count]),
  ],
  ['instances_suspended_total', 'counter', 'Instances that this runtime suspended.', (m) => [[{}, m.suspended]]],
  [
    'executions_continued_total',
    'counter',
    'Executions that ended with continueAsNew.',
    (m) => [[{}, m.continuedAsNew]],
  ],
  ['turns_total', 'counter', 'Turns that were committed to the store.', (m) => [[{}, m.turns]]],
  [
    'turns_fenced_total',
    'counter',
    'Turns that were not committed because another worker owned the instance.',
    (m) => [[{}, m.fenced]],
  ],
  ['replays_total', 'counter', 'Instances that were replayed from their history.', (m) => [[{}, m.replays]]],
  ['replayed_events_total', 'counter', 'Events that were replayed.', (m) => [[{}, m.replayedEvents]]],
  [
    'cache_hits_total',
    'counter',
    'Instances that were woken while their generator was in memory, without a replay.',
    (m) => [[{}, m.cacheHits]],
  ],
  ['activity_attempts_total', 'counter', 'Activity attempts that were started.', (m) => [[{}, m.attempts]]],
  [
    'activity_attempts_ended_total',
    'counter',
    'Activity attempts that ended, by result.',
    (m) => [
      [{ result: 'completed' }, m.attemptsCompleted],
      [{ result: 'failed' }, m.attemptsFailed],
    ],
  ],
  [
    'activity_outcomes_total',
    'counter',
    'Activity attempts that ended, by activity, result and error.',
    (m) => m.activities.map(({ name, result, error, count }) => [{ activity: name, result, error }, count]),
  ],
  ['takeovers_total', 'counter', 'Dead workers whose instances this worker took over.', (m) => [[{}, m.takeovers]]],
  ['commit_batches_total', 'counter', 'Batches that were committed to the store.', (m) => [[{}, m.commitBatches]]],
  [
    'commit_writes_total',
    'counter',
    'Turns, starts and messages in the committed batches.',
    (m) => [[{}, m.commitWrites]],
  ],
  [
    'commit_retries_total',
    'counter',
    'Batches that were retried after the store refused them.',
    (m) => [[{}, m.commitRetries]],
  ],
  ['owned_instances', 'gauge', 'Instances that the runtime owns.', (m) => [[{}, m.ownedInstances]]],
  ['cached_instances', 'gauge', 'Instances whose generator is in memory.', (m) => [[{}, m.cachedInstances]]],
  ['running_activities', 'gauge', 'Activity attempts that are running.', (m) => [[{}, m.runningActivities]]],
  ['open_activities', 'gauge', 'Activity attempts that are running or waiting.', (m) => [[{}, m.openActivities]]],
  ['queued_jobs', 'gauge', 'Turns and attempts that wait for a thread.', (m) => [[{}, m.queuedJobs]]],
  ['turns_in_progress', 'gauge', 'Turns that are running.', (m) => [[{}, m.turnsInProgress]]],
  [
    'lane_pinned_jobs_total',
    'counter',
    'Jobs that wait for this thread, the only thread that can run them.',
    (m) => ofLanes(m, (lane) => lane.pinnedJobs),
  ],
  [
    'lane_taken_jobs_total',
    'counter',
    'Jobs that this thread has taken and not started.',
    (m) => ofLanes(m, (lane) => lane.takenJobs),
  ],
  [
    'lane_steals_total',
    'counter',
    'Times that this thread stole jobs from another thread.',
    (m) => ofLanes(m, (lane) => lane.steals),
  ],
  ['lane_parks_total', 'counter', 'Times that this thread had no work.', (m) => ofLanes(m, (lane) => lane.parks)],
  [
    'lane_busy_ratio',
    'gauge',
    'Share of time that this thread was busy, from 0 to 1.',
    (m) => ofLanes(m, (lane) => lane.busyShare),
  ],
];

export const HISTOGRAMS: readonly (readonly [
  name: string,
  help: string,
  of: (metrics: RuntimeMetrics) => DurationHistogram,
])[] = [
  ['queue_age_seconds', 'Time from when an attempt was due to its start.', (m) => m.queueAge],
  ['step_latency_seconds', 'Time from when an attempt was due to its result.', (m) => m.stepLatency],
  ['commit_latency_seconds', 'Time from the submission of a batch to its commit.', (m) => m.commitLatency],
];

/** The contents of the store, as `client.stats()` counts them. All are gauges. */
export const STORE: readonly (readonly [
  name: string,
  help: string,
  of: (stats: StoreStats) => readonly (readonly [Labels, number])[],
])[] = [
  [
    'store_instances',
    'Instances, by status.',
    (s) => Object.entries(s.instances).map(([status, count]) => [{ status }, count] as const),
  ],
  ['store_messages', 'Messages that no instance has read yet.', (s) => [[{}, s.messages]]],
  [
    'store_tasks',
    'Activity tasks in queues, by state.',
    (s) => [
      [{ state: 'waiting' }, s.tasks.waiting],
      [{ state: 'running' }, s.tasks.running],
    ],
  ],
  [
    'store_queue_tasks',
    'Activity tasks, by queue and state. The 100 fullest queues are named.',
    (s) =>
      s.tasks.queues.flatMap(({ name: queue, waiting, running }) => [
        [{ queue, state: 'waiting' }, waiting] as const,
        [{ queue, state: 'running' }, running] as const,
      ]),
  ],
  ['store_workers', 'Started runtimes of all processes.', (s) => [[{}, s.workers]]],
  ['store_due_instances', 'Instances that are due and that no runtime has acquired.', (s) => [[{}, s.due.instances]]],
  ['store_overdue_instances', 'Instances that have been due for more than 10 s.', (s) => [[{}, s.due.overdue]]],
  [
    'store_due_age_seconds',
    'Time for which the oldest due instance has been due.',
    (s) => [[{}, s.due.oldestMs / 1_000]],
  ],
];

function ofLanes(metrics: RuntimeMetrics, value: (lane: LaneMetrics) => number): (readonly [Labels, number])[] {
  return metrics.lanes.map((lane, i) => [{ lane: String(i) }, value(lane)]);
}

/** Returns the current counts of runtimes. If there are several, each has a label `runtime`, its place in the list. */
export function metricsOf(runtimes: Runtime | readonly Runtime[]): (readonly [Labels, RuntimeMetrics])[] {
  const list: readonly Runtime[] = isList(runtimes) ? (runtimes as readonly Runtime[]) : [runtimes as Runtime];
  return list.map((runtime, i) => [list.length > 1 ? { runtime: String(i) } : {}, runtime.metrics()] as const);
}

/**
 * Returns the cumulative buckets of a histogram: the upper end in seconds as a label, and the count of all up to it.
 */
export function bucketsOf({ boundsMs, counts, count }: DurationHistogram): (readonly [le: string, count: number])[] {
  let below = 0;
  return [...boundsMs.map((bound, i) => [String(bound / 1_000), (below += counts[i] ?? 0)] as const), ['+Inf', count]];
}

// The metrics of runtimes and of a store as monitoring systems know them: names, kinds and labels.

import type { StoreStats } from '../client/stats.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { DurationHistogram, LaneMetrics, RuntimeMetrics } from '../tracing/metrics.ts';
import { isList } from '../util/show.ts';

/**
 * Labels of a sample. Names and values are Perdure's own, and none needs an escape. Ids and names of users are not
 * among them, because their number has no bound.
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
  ['instances_started_total', 'counter', 'Instances whose first turn was here.', (m) => [[{}, m.started]]],
  [
    'instances_ended_total',
    'counter',
    'Instances that ended here, by status.',
    (m) => [
      [{ status: 'Completed' }, m.completed],
      [{ status: 'Failed' }, m.failed],
      [{ status: 'Cancelled' }, m.cancelled],
    ],
  ],
  ['instances_suspended_total', 'counter', 'Instances that were suspended here.', (m) => [[{}, m.suspended]]],
  ['executions_continued_total', 'counter', 'Executions that continued as new.', (m) => [[{}, m.continuedAsNew]]],
  ['turns_total', 'counter', 'Turns that are durable.', (m) => [[{}, m.turns]]],
  [
    'turns_fenced_total',
    'counter',
    "Turns that were not stored because the instance was another worker's.",
    (m) => [[{}, m.fenced]],
  ],
  ['replays_total', 'counter', 'Instances that were made again from their history.', (m) => [[{}, m.replays]]],
  ['replayed_events_total', 'counter', 'Events that were read for replays.', (m) => [[{}, m.replayedEvents]]],
  [
    'cache_hits_total',
    'counter',
    'Instances that woke and whose generator was still in memory.',
    (m) => [[{}, m.cacheHits]],
  ],
  ['activity_attempts_total', 'counter', 'Attempts of activities that were begun.', (m) => [[{}, m.attempts]]],
  [
    'activity_attempts_ended_total',
    'counter',
    'Attempts of activities that ended, by result.',
    (m) => [
      [{ result: 'completed' }, m.attemptsCompleted],
      [{ result: 'failed' }, m.attemptsFailed],
    ],
  ],
  ['takeovers_total', 'counter', 'Dead workers that this one took over from.', (m) => [[{}, m.takeovers]]],
  ['commit_batches_total', 'counter', 'Batches written to the store.', (m) => [[{}, m.commitBatches]]],
  ['commit_writes_total', 'counter', 'Turns, starts and messages in them.', (m) => [[{}, m.commitWrites]]],
  [
    'commit_retries_total',
    'counter',
    'Batches that the store refused and that were tried again.',
    (m) => [[{}, m.commitRetries]],
  ],
  ['owned_instances', 'gauge', 'Instances that the runtime owns.', (m) => [[{}, m.ownedInstances]]],
  ['cached_instances', 'gauge', 'Generators in memory.', (m) => [[{}, m.cachedInstances]]],
  ['running_activities', 'gauge', 'Attempts of activities that have a slot.', (m) => [[{}, m.runningActivities]]],
  ['open_activities', 'gauge', 'Attempts of activities known, with those that wait.', (m) => [[{}, m.openActivities]]],
  ['queued_jobs', 'gauge', 'Turns and attempts that wait for a thread.', (m) => [[{}, m.queuedJobs]]],
  ['turns_in_progress', 'gauge', 'Turns whose code runs.', (m) => [[{}, m.turnsInProgress]]],
  [
    'lane_pinned_jobs_total',
    'counter',
    'Jobs that only this thread could run.',
    (m) => ofLanes(m, (lane) => lane.pinnedJobs),
  ],
  [
    'lane_taken_jobs_total',
    'counter',
    'Jobs that this thread took of those that any could run.',
    (m) => ofLanes(m, (lane) => lane.takenJobs),
  ],
  [
    'lane_steals_total',
    'counter',
    'How often this thread took jobs away from another.',
    (m) => ofLanes(m, (lane) => lane.steals),
  ],
  [
    'lane_parks_total',
    'counter',
    'How often this thread found nothing to do.',
    (m) => ofLanes(m, (lane) => lane.parks),
  ],
  [
    'lane_busy_ratio',
    'gauge',
    'How much of its time this thread has worked, 0 to 1.',
    (m) => ofLanes(m, (lane) => lane.busyShare),
  ],
];

export const HISTOGRAMS: readonly (readonly [
  name: string,
  help: string,
  of: (metrics: RuntimeMetrics) => DurationHistogram,
])[] = [
  ['queue_age_seconds', 'From when an attempt could begin until a thread began it.', (m) => m.queueAge],
  ['step_latency_seconds', 'From when an attempt could begin until its result was handed in.', (m) => m.stepLatency],
  ['commit_latency_seconds', 'From when a batch was handed to the store until it was durable.', (m) => m.commitLatency],
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
  ['store_messages', 'Messages that wait for instances.', (s) => [[{}, s.messages]]],
  [
    'store_tasks',
    'Attempts that any worker of their queue may take, by state.',
    (s) => [
      [{ state: 'waiting' }, s.tasks.waiting],
      [{ state: 'running' }, s.tasks.running],
    ],
  ],
  ['store_workers', 'Started runtimes of all processes.', (s) => [[{}, s.workers]]],
  [
    'store_due_instances',
    'Instances that have something to do and that no runtime has taken.',
    (s) => [[{}, s.due.instances]],
  ],
  ['store_overdue_instances', 'Those of them that have been due for more than 10 s.', (s) => [[{}, s.due.overdue]]],
  ['store_due_age_seconds', 'For how long the first of them has been due.', (s) => [[{}, s.due.oldestMs / 1_000]]],
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

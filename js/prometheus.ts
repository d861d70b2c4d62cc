/**
 * The metrics of runtimes and of a store in the text format of Prometheus: `perdure/prometheus`.
 *
 * The format is version 0.0.4, which every scraper reads. Clients of Prometheus keep counters of their own in a registry; here the counters are
 * the runtime's already, and only have to be written down.
 */

import type { Client } from './client.ts';
import type { DurationHistogram, LaneMetrics, RuntimeMetrics } from './metrics.ts';
import type { Runtime } from './runtime.ts';
import { isList } from './show.ts';
import type { StoreStats } from './stats.ts';

export type { DurationHistogram, LaneMetrics, RuntimeMetrics } from './metrics.ts';

/** What an HTTP server answers a scrape with. */
export interface MetricsResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The media type of the text. */
export const PROMETHEUS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Names and values are ours, none of which needs an escape: ids and names of users are not among them, because there is no end of those. */
type Labels = Readonly<Record<string, string>>;
type Kind = 'counter' | 'gauge';

/** Metrics of a runtime that are one number: name, kind, help, value. A `'result'` or the like is a label of it. */
const NUMBERS: readonly (readonly [name: string, kind: Kind, help: string, of: (metrics: RuntimeMetrics) => readonly (readonly [Labels, number])[]])[] = [
  ['instances_started_total', 'counter', 'Instances whose first turn was here.', (m) => [[{}, m.started]]],
  [
    'instances_ended_total',
    'counter',
    'Instances that ended here, by status.',
    (m) => [[{ status: 'Completed' }, m.completed], [{ status: 'Failed' }, m.failed], [{ status: 'Cancelled' }, m.cancelled]],
  ],
  ['instances_suspended_total', 'counter', 'Instances that were suspended here.', (m) => [[{}, m.suspended]]],
  ['executions_continued_total', 'counter', 'Executions that continued as new.', (m) => [[{}, m.continuedAsNew]]],
  ['turns_total', 'counter', 'Turns that are durable.', (m) => [[{}, m.turns]]],
  ['turns_fenced_total', 'counter', 'Turns that were not stored because the instance was another worker\'s.', (m) => [[{}, m.fenced]]],
  ['replays_total', 'counter', 'Instances that were made again from their history.', (m) => [[{}, m.replays]]],
  ['replayed_events_total', 'counter', 'Events that were read for replays.', (m) => [[{}, m.replayedEvents]]],
  ['cache_hits_total', 'counter', 'Instances that woke and whose generator was still in memory.', (m) => [[{}, m.cacheHits]]],
  ['activity_attempts_total', 'counter', 'Attempts of activities that were begun.', (m) => [[{}, m.attempts]]],
  [
    'activity_attempts_ended_total',
    'counter',
    'Attempts of activities that ended, by result.',
    (m) => [[{ result: 'completed' }, m.attemptsCompleted], [{ result: 'failed' }, m.attemptsFailed]],
  ],
  ['takeovers_total', 'counter', 'Dead workers that this one took over from.', (m) => [[{}, m.takeovers]]],
  ['commit_batches_total', 'counter', 'Batches written to the store.', (m) => [[{}, m.commitBatches]]],
  ['commit_writes_total', 'counter', 'Turns, starts and messages in them.', (m) => [[{}, m.commitWrites]]],
  ['commit_retries_total', 'counter', 'Batches that the store refused and that were tried again.', (m) => [[{}, m.commitRetries]]],
  ['owned_instances', 'gauge', 'Instances that the runtime owns.', (m) => [[{}, m.ownedInstances]]],
  ['cached_instances', 'gauge', 'Generators in memory.', (m) => [[{}, m.cachedInstances]]],
  ['running_activities', 'gauge', 'Attempts of activities that have a slot.', (m) => [[{}, m.runningActivities]]],
  ['open_activities', 'gauge', 'Attempts of activities known, with those that wait.', (m) => [[{}, m.openActivities]]],
  ['queued_jobs', 'gauge', 'Turns and attempts that wait for a thread.', (m) => [[{}, m.queuedJobs]]],
  ['turns_in_progress', 'gauge', 'Turns whose code runs.', (m) => [[{}, m.turnsInProgress]]],
  ['lane_pinned_jobs_total', 'counter', 'Jobs that only this thread could run.', (m) => ofLanes(m, (lane) => lane.pinnedJobs)],
  ['lane_taken_jobs_total', 'counter', 'Jobs that this thread took of those that any could run.', (m) => ofLanes(m, (lane) => lane.takenJobs)],
  ['lane_steals_total', 'counter', 'How often this thread took jobs away from another.', (m) => ofLanes(m, (lane) => lane.steals)],
  ['lane_parks_total', 'counter', 'How often this thread found nothing to do.', (m) => ofLanes(m, (lane) => lane.parks)],
  ['lane_busy_ratio', 'gauge', 'How much of its time this thread has worked, 0 to 1.', (m) => ofLanes(m, (lane) => lane.busyShare)],
];

const HISTOGRAMS: readonly (readonly [name: string, help: string, of: (metrics: RuntimeMetrics) => DurationHistogram])[] = [
  ['queue_age_seconds', 'From when an attempt could begin until a thread began it.', (m) => m.queueAge],
  ['step_latency_seconds', 'From when an attempt could begin until its result was handed in.', (m) => m.stepLatency],
  ['commit_latency_seconds', 'From when a batch was handed to the store until it was durable.', (m) => m.commitLatency],
];

/** What the store holds, as `client.stats()` counts it. All are gauges. */
const STORE: readonly (readonly [name: string, help: string, of: (stats: StoreStats) => readonly (readonly [Labels, number])[]])[] = [
  ['store_instances', 'Instances, by status.', (s) => Object.entries(s.instances).map(([status, count]) => [{ status }, count] as const)],
  ['store_messages', 'Messages that wait for instances.', (s) => [[{}, s.messages]]],
  ['store_tasks', 'Attempts that any worker of their queue may take, by state.', (s) => [[{ state: 'waiting' }, s.tasks.waiting], [{ state: 'running' }, s.tasks.running]]],
  ['store_workers', 'Started runtimes of all processes.', (s) => [[{}, s.workers]]],
  ['store_due_instances', 'Instances that have something to do and that no runtime has taken.', (s) => [[{}, s.due.instances]]],
  ['store_overdue_instances', 'Those of them that have been due for more than 10 s.', (s) => [[{}, s.due.overdue]]],
  ['store_due_age_seconds', 'For how long the first of them has been due.', (s) => [[{}, s.due.oldestMs / 1_000]]],
];

function ofLanes(metrics: RuntimeMetrics, value: (lane: LaneMetrics) => number): (readonly [Labels, number])[] {
  return metrics.lanes.map((lane, i) => [{ lane: String(i) }, value(lane)]);
}

/**
 * The metrics of runtimes of this process, and what their store holds, as Prometheus scrapes them. All names begin with `perdure_`, times are in seconds.
 * Of several runtimes each has a label `runtime`, its place in the list.
 *
 * @param runtimes - one, several, or none (`[]`)
 * @param stats - what `client.stats()` returned
 *
 * @example
 * ```ts
 * createServer(async (_request, response) => {
 *   response.setHeader('content-type', PROMETHEUS_CONTENT_TYPE).end(prometheusText(runtime, await client.stats()));
 * }).listen(9464);
 * ```
 */
export function prometheusText(runtimes: Runtime | readonly Runtime[], stats?: StoreStats): string {
  const list: readonly Runtime[] = isList(runtimes) ? (runtimes as readonly Runtime[]) : [runtimes as Runtime];
  const all = list.map((runtime, i) => [list.length > 1 ? { runtime: String(i) } : {}, runtime.metrics()] as const);
  const lines: string[] = [];
  if (all.length > 0) {
    for (const [name, kind, help, of] of NUMBERS) {
      family(lines, name, kind, help);
      for (const [own, metrics] of all) for (const [labels, value] of of(metrics)) sample(lines, name, { ...own, ...labels }, value);
    }
    for (const [name, help, of] of HISTOGRAMS) {
      family(lines, name, 'histogram', help);
      for (const [own, metrics] of all) histogram(lines, name, own, of(metrics));
    }
  }
  if (stats !== undefined) {
    for (const [name, help, of] of STORE) {
      family(lines, name, 'gauge', help);
      for (const [labels, value] of of(stats)) sample(lines, name, labels, value);
    }
  }
  return `${lines.join('\n')}\n`;
}

/**
 * What an HTTP server answers a scrape with: the store's numbers, and those of runtimes in this process.
 *
 * @param client - it is asked for its `stats()`; what that throws, this throws
 * @param runtimes - as of {@link prometheusText}; without any, only the store's numbers
 *
 * @example
 * ```ts
 * const { status, headers, body } = await metricsResponse(client, runtime);
 * response.writeHead(status, headers).end(body);
 * ```
 */
export async function metricsResponse(client: Client, runtimes: Runtime | readonly Runtime[] = []): Promise<MetricsResponse> {
  const body = prometheusText(runtimes, await client.stats());
  return { status: 200, headers: { 'content-type': PROMETHEUS_CONTENT_TYPE }, body };
}

function family(lines: string[], name: string, kind: Kind | 'histogram', help: string): void {
  lines.push(`# HELP perdure_${name} ${help}`, `# TYPE perdure_${name} ${kind}`);
}

function histogram(lines: string[], name: string, labels: Labels, { boundsMs, counts, count, sumMs }: DurationHistogram): void {
  let below = 0;
  for (const [i, bound] of boundsMs.entries()) {
    below += counts[i] ?? 0;
    sample(lines, `${name}_bucket`, { ...labels, le: String(bound / 1_000) }, below);
  }
  sample(lines, `${name}_bucket`, { ...labels, le: '+Inf' }, count);
  sample(lines, `${name}_sum`, labels, sumMs / 1_000);
  sample(lines, `${name}_count`, labels, count);
}

function sample(lines: string[], name: string, labels: Labels, value: number): void {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${text}"`);
  lines.push(`perdure_${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`);
}

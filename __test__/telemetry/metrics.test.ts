// The metrics of runtimes, and the text that Prometheus scrapes.

import type { Attributes } from '@opentelemetry/api';
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import type { DurationHistogram, Runtime, RuntimeMetrics } from 'perdure';
import { metricsResponse, PROMETHEUS_CONTENT_TYPE, prometheusText } from 'perdure/prometheus';
import { observeMetrics } from 'perdure/telemetry';
import { describe, expect, it } from 'vitest';

import { STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';

/**
 * Returns samples by name and labels. Fails on a line that does not follow the format, and on a sample without a
 * family.
 */
function samplesOf(text: string): Map<string, number> {
  expect(text.endsWith('\n')).toBe(true);
  const families = new Map<string, string>();
  const samples = new Map<string, number>();
  for (const line of text.trimEnd().split('\n')) {
    const type = /^# TYPE (perdure_[a-z_]+) (counter|gauge|histogram)$/.exec(line);
    if (type !== null) {
      expect(families.has(type[1] as string), `${type[1]} is there twice`).toBe(false);
      families.set(type[1] as string, type[2] as string);
      continue;
    }
    if (/^# HELP perdure_[a-z_]+ \S.*\.$/.test(line)) continue;
    const sample = /^(perdure_[a-z_]+)(\{(?:[a-z]+="[^"\\]*",?)+\})? ([0-9.e+-]+|NaN|\+Inf)$/.exec(line);
    if (sample === null) throw new Error(`no line of the format: ${line}`);
    const [, name = '', labels = '', value] = sample;
    const family = families.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '');
    expect(families.get(family), line).toBeDefined();
    if (families.get(family) === 'counter') expect(name).toMatch(/_total$/);
    expect(samples.has(name + labels), line).toBe(false);
    samples.set(name + labels, Number(value));
  }
  return samples;
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  const start = (options = {}): Promise<Runtime> =>
    store.start(
      (runtime) =>
        runtime
          .registerActivity('step', async (ctx) => {
            if (ctx.attempt === 1) throw new Error('once');
          })
          .registerOrchestration('steps', function* (ctx, { steps, fails = false, again = 0 }) {
            for (let i = 0; i < steps; i += 1) yield ctx.scheduleActivity('step', i, { retry: { initialInterval: 1 } });
            if (again > 0) yield ctx.continueAsNew({ steps, again: again - 1 });
            if (fails) throw new Error('on purpose');
          })
          .registerOrchestration('waits', function* (ctx) {
            yield ctx.scheduleActivity('step', 0, { retry: { initialInterval: 1 } });
            yield ctx.waitForEvent('go');
          }),
      options,
    );

  async function run(name: string, input: object): Promise<string> {
    const id = store.id(name);
    await store.client.startOrchestration(id, name, input);
    await store.client.waitForOrchestration(id, SOON);
    return id;
  }

  async function asleep(id: string): Promise<void> {
    while ((await store.client.getHistory(id)).length < 4) await store.settled();
    await store.settled();
  }

  it('starts, ends, attempts, steps and commits are counted', async () => {
    const runtime = await start();
    const begun = runtime.metrics();
    await run('steps', { steps: 3 });
    await run('steps', { steps: 1, again: 2 });
    await run('steps', { steps: 0, fails: true });
    const cancelled = store.id('waits');
    await store.client.startOrchestration(cancelled, 'waits');
    await asleep(cancelled);
    await store.client.cancelInstance(cancelled);
    await store.client.waitForOrchestration(cancelled, SOON);
    const metrics = runtime.metrics();
    expect(metrics).toMatchObject({
      started: 4,
      ended: 4,
      completed: 2,
      failed: 1,
      cancelled: 1,
      continuedAsNew: 2,
      suspended: 0,
      attempts: 14,
      attemptsCompleted: 7,
      attemptsFailed: 7,
      replays: 0,
      replayedEvents: 0,
      runningActivities: 0,
    });
    expect(metrics.orchestrations).toEqual([
      { name: 'steps', status: 'Completed', error: '', count: 2 },
      { name: 'steps', status: 'Failed', error: 'Error', count: 1 },
      { name: 'waits', status: 'Cancelled', error: '', count: 1 },
    ]);
    expect(metrics.activities).toEqual([
      { name: 'step', result: 'completed', error: '', count: 7 },
      { name: 'step', result: 'failed', error: 'Error', count: 7 },
    ]);
    expect(metrics.queueAge.count).toBe(14);
    expect(metrics.stepLatency.count).toBe(14);
    const commits = metrics.commitLatency.count - begun.commitLatency.count;
    expect(commits).toBe(metrics.commitBatches - begun.commitBatches);
    for (const histogram of [metrics.queueAge, metrics.stepLatency, metrics.commitLatency]) expectSound(histogram);
    expect(metrics.stepLatency.sumMs).toBeGreaterThanOrEqual(metrics.queueAge.sumMs);
  });

  it.each([
    ['found in memory', {}, (m: RuntimeMetrics) => m.cacheHits > 0 && m.replays === 0],
    [
      'replayed',
      { cachedInstancesMax: 0 },
      (m: RuntimeMetrics) => m.cacheHits === 0 && m.replays > 0 && m.replayedEvents >= 4,
    ],
  ])('an instance that wakes is %s', async (_, options, fits) => {
    const runtime = await start(options);
    const id = store.id('waits');
    await store.client.startOrchestration(id, 'waits');
    await asleep(id);
    await store.client.raiseEvent(id, 'go');
    await store.client.waitForOrchestration(id, SOON);
    expect(fits(runtime.metrics()), JSON.stringify(runtime.metrics())).toBe(true);
  });

  it('Prometheus reads metrics of the runtime and of the store', async () => {
    const runtimes = [await start(), await start()];
    await run('steps', { steps: 2 });
    const { status, headers, body } = await metricsResponse(store.client, runtimes);
    expect({ status, headers }).toEqual({ status: 200, headers: { 'content-type': PROMETHEUS_CONTENT_TYPE } });
    const samples = samplesOf(body);
    const both = (name: string): number =>
      [0, 1].reduce((sum, runtime) => sum + (samples.get(`perdure_${name}{runtime="${runtime}"}`) ?? Number.NaN), 0);
    expect(both('instances_started_total')).toBe(1);
    expect(both('activity_attempts_total')).toBe(4);
    expect(both('step_latency_seconds_count')).toBe(4);
    for (const runtime of [0, 1]) {
      const buckets = [...samples]
        .filter(([name]) => name.startsWith(`perdure_step_latency_seconds_bucket{runtime="${runtime}"`))
        .map(([, value]) => value);
      expect(buckets).toEqual([...buckets].sort((a, b) => a - b));
      expect(buckets.at(-1)).toBe(samples.get(`perdure_step_latency_seconds_count{runtime="${runtime}"}`));
    }
    const sum = (name: string, labels: string): number =>
      [0, 1].reduce((all, n) => all + (samples.get(`perdure_${name}{runtime="${n}",${labels}}`) ?? 0), 0);
    expect(sum('orchestration_outcomes_total', 'orchestration="steps",status="Completed",error=""')).toBe(1);
    expect(sum('activity_outcomes_total', 'activity="step",result="failed",error="Error"')).toBe(2);
    expect(samples.get('perdure_store_workers')).toBe(2);
    expect(samples.get('perdure_store_instances{status="Completed"}')).toBeGreaterThan(0);
    const one = samplesOf(prometheusText(runtimes[0] as Runtime));
    expect([...one.keys()].filter((name) => name.includes('runtime=') || name.startsWith('perdure_store_'))).toEqual(
      [],
    );
    expect(one.has('perdure_instances_ended_total{status="Failed"}')).toBe(true);
    expect(one.has('perdure_lane_busy_ratio{lane="0"}')).toBe(true);
    expect(
      [...samplesOf((await metricsResponse(store.client)).body).keys()].every((name) =>
        name.startsWith('perdure_store_'),
      ),
    ).toBe(true);
  });

  it('Prometheus reads names of queues and activities, which are escaped', async () => {
    const queue = 'a "quoted"\nqueue \\';
    const runtime = await store.start((runtime) =>
      runtime
        .registerOrchestration('offers', function* (ctx) {
          yield ctx.scheduleActivity('elsewhere', null, { queue });
        })
        .registerActivity('odd "name"', () => {
          throw new RangeError('on purpose');
        })
        .registerOrchestration('calls', function* (ctx) {
          yield ctx.scheduleActivity('odd "name"', null, { retry: { maxAttempts: 1 } });
        }),
    );
    const offers = store.id('offers');
    await store.client.startOrchestration(offers, 'offers');
    await run('calls', {});
    await store.settled();
    const text = prometheusText(runtime, await store.client.stats());
    const lines = text.split('\n');
    expect(lines).toContain('perdure_store_queue_tasks{queue="a \\"quoted\\"\\nqueue \\\\",state="waiting"} 1');
    expect(lines).toContain(
      'perdure_activity_outcomes_total{activity="odd \\"name\\"",result="failed",error="RangeError"} 1',
    );
    expect(lines).toContain(
      'perdure_orchestration_outcomes_total{orchestration="calls",status="Failed",error="ActivityError"} 1',
    );
    await store.client.terminateInstance(offers);
  });

  it('OpenTelemetry collects the same metrics until it is stopped', async () => {
    const runtimes = [await start(), await start()];
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({
      exporter,
      exportIntervalMillis: 3_600_000,
      exportTimeoutMillis: 60_000,
    });
    const meterProvider = new MeterProvider({ readers: [reader] });
    const observed = observeMetrics(runtimes, { meterProvider, client: store.client });
    const points = async (): Promise<[string, number][]> => {
      exporter.reset();
      await reader.forceFlush();
      const metrics = exporter
        .getMetrics()
        .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
      return metrics.flatMap((metric) =>
        metric.dataPoints.map(({ attributes, value }): [string, number] => [
          nameInPrometheus(metric, attributes),
          value as number,
        ]),
      );
    };
    await run('steps', { steps: 2 });
    const collected = new Map(await points());
    const samples = samplesOf((await metricsResponse(store.client, runtimes)).body);
    // Every metric of the text has a counterpart with its name, and there are no others.
    expect([...collected.keys()].toSorted()).toEqual([...samples.keys()].toSorted());
    // Metrics that do not change between the two readings.
    const settled = [...samples].filter(([name]) =>
      /instances_|attempts_|step_latency|queue_age|store_(instances|workers|messages)/.test(name),
    );
    expect(settled.length).toBeGreaterThan(50);
    expect(settled.map(([name]) => [name, collected.get(name)])).toEqual(settled);
    observed.stop();
    await run('steps', { steps: 1 });
    // A reader continues to report the last observed values.
    expect(new Map(await points())).toEqual(collected);
    await meterProvider.shutdown();
  });
});

it('the collectors of metrics are checked', () => {
  expect(() => observeMetrics([], { meterProvider: {} as never })).toThrow(
    'observeMetrics: meterProvider must have the method getMeter, got ',
  );
  expect(() => observeMetrics([], { client: 1 as never })).toThrow(
    'observeMetrics: client must have the method stats, got 1',
  );
  expect(() => observeMetrics([], { clients: [] } as never)).toThrow('unknown option `clients`');
});

/** Returns the name that a metric of OpenTelemetry has in the text that Prometheus scrapes. */
function nameInPrometheus(
  { descriptor: { name, unit }, dataPointType }: MetricData,
  { le, ...labels }: Attributes,
): string {
  const [, base = '', part] = /^perdure\.(\w+?)(?:\.(bucket|count|sum))?$/.exec(name) ?? [];
  const total = dataPointType === DataPointType.SUM ? '_total' : '';
  const suffix = part === undefined ? `${unit === 's' ? '_seconds' : ''}${total}` : `_seconds_${part}`;
  const pairs = Object.entries({ ...labels, ...(le === undefined ? {} : { le }) }).map(
    ([key, text]) => `${key}="${String(text)}"`,
  );
  return `perdure_${base}${suffix}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`}`;
}

function expectSound({ boundsMs, counts, count, sumMs }: DurationHistogram): void {
  expect(counts).toHaveLength(boundsMs.length + 1);
  expect(boundsMs).toEqual([...boundsMs].sort((a, b) => a - b));
  expect(counts.reduce((sum, n) => sum + n, 0)).toBe(count);
  expect(sumMs).toBeGreaterThan(0);
}

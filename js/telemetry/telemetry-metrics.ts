// The metrics of runtimes and of a store, by OpenTelemetry.

import {
  type BatchObservableResult,
  type Meter,
  type MeterProvider,
  type Observable,
  metrics as registered,
} from '@opentelemetry/api';

import type { Client } from '../client/client.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { DurationHistogram } from '../tracing/metrics.ts';
import { checkOptions, hasMethods } from '../util/options.ts';
import { bucketsOf, HISTOGRAMS, type Kind, type Labels, metricsOf, NUMBERS, STORE } from './metric-families.ts';

/** Options of {@link observeMetrics}. */
export interface MetricsOptions {
  /**
   * Receives the metrics. Default: the provider that is registered with `@opentelemetry/api` at the time of the call.
   */
  meterProvider?: MeterProvider;
  /** Client whose `stats()` are read each time metrics are collected. Default: none, and the store is not observed. */
  client?: Client;
}

/** The result of {@link observeMetrics}. */
export interface ObservedMetrics {
  /** Stops the observation. */
  stop(): void;
}

const OPTIONS = { meterProvider: hasMethods('getMeter'), client: hasMethods('stats') };

/**
 * Lets OpenTelemetry observe the metrics of runtimes whenever its reader collects. They are the same that
 * `perdure/prometheus` writes, named `perdure.` and the name there without `_total` and `_seconds`. Times are in
 * seconds. OpenTelemetry takes no histogram that was counted elsewhere, so each histogram is three counters: `.count`,
 * `.sum`, and `.bucket`, whose attribute `le` is the upper end of the bucket. A bucket includes all buckets below it.
 *
 * @param runtimes - one, several (each has an attribute `runtime` then, its place in the list), or none (`[]`)
 * @throws TypeError when an option is wrong
 *
 * @example
 * ```ts
 * const reader = new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() });
 * const meterProvider = new MeterProvider({ readers: [reader] });
 * const observed = observeMetrics(runtime, { meterProvider, client });
 * ```
 */
export function observeMetrics(runtimes: Runtime | readonly Runtime[], options?: MetricsOptions): ObservedMetrics {
  const { meterProvider, client } = checkOptions(options, OPTIONS, 'observeMetrics') ?? {};
  const meter = (meterProvider ?? registered).getMeter('perdure');
  const ofRuntimes = runtimeInstruments(meter);
  const ofStore =
    client === undefined
      ? []
      : STORE.map(([name, description, of]) => [instrument(meter, name, 'gauge', description), of] as const);
  const observe = async (result: BatchObservableResult): Promise<void> => {
    for (const [own, metrics] of metricsOf(runtimes)) {
      for (const [instrument, of] of ofRuntimes.numbers)
        for (const [labels, value] of of(metrics)) result.observe(instrument, value, { ...own, ...labels });
      for (const [instruments, of] of ofRuntimes.histograms) observeHistogram(result, instruments, own, of(metrics));
    }
    if (client === undefined) return;
    const stats = await client.stats();
    for (const [instrument, of] of ofStore)
      for (const [labels, value] of of(stats)) result.observe(instrument, value, labels);
  };
  const all: Observable[] = [
    ...ofRuntimes.numbers.map(([instrument]) => instrument),
    ...ofRuntimes.histograms.flatMap(([{ count, sum, bucket }]) => [count, sum, bucket]),
    ...ofStore.map(([instrument]) => instrument),
  ];
  meter.addBatchObservableCallback(observe, all);
  return { stop: () => meter.removeBatchObservableCallback(observe, all) };
}

interface HistogramInstruments {
  readonly count: Observable;
  readonly sum: Observable;
  readonly bucket: Observable;
}

function runtimeInstruments(meter: Meter) {
  return {
    numbers: NUMBERS.map(([name, kind, description, of]) => [instrument(meter, name, kind, description), of] as const),
    histograms: HISTOGRAMS.map(([name, description, of]) => {
      const part = (part: string, isTime = false): Observable =>
        instrument(meter, `${name.replace(/_seconds$/, '')}.${part}`, 'counter', description, isTime);
      return [{ count: part('count'), sum: part('sum', true), bucket: part('bucket') }, of] as const;
    }),
  };
}

function instrument(
  meter: Meter,
  name: string,
  kind: Kind,
  description: string,
  isTime = name.endsWith('_seconds'),
): Observable {
  const options = { description, ...(isTime ? { unit: 's' } : {}) };
  const called = `perdure.${name.replace(/_(total|seconds)$/, '')}`;
  return kind === 'counter'
    ? meter.createObservableCounter(called, options)
    : meter.createObservableGauge(called, options);
}

function observeHistogram(
  result: BatchObservableResult,
  to: HistogramInstruments,
  labels: Labels,
  histogram: DurationHistogram,
): void {
  result.observe(to.count, histogram.count, labels);
  result.observe(to.sum, histogram.sumMs / 1_000, labels);
  for (const [le, count] of bucketsOf(histogram)) result.observe(to.bucket, count, { ...labels, le });
}

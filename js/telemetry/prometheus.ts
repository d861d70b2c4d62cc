/**
 * The metrics of runtimes and of a store in the text format of Prometheus: `perdure/prometheus`.
 *
 * The format is version 0.0.4, which every scraper reads. Prometheus client libraries keep counters of their own in a
 * registry; here the runtime already has the counters, and they only have to be written down.
 */

import type { Client } from '../client/client.ts';
import type { StoreStats } from '../client/stats.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { DurationHistogram } from '../tracing/metrics.ts';
import { bucketsOf, HISTOGRAMS, type Kind, type Labels, metricsOf, NUMBERS, STORE } from './metric-families.ts';

export type {
  ActivityOutcomes,
  DurationHistogram,
  LaneMetrics,
  OrchestrationOutcomes,
  RuntimeMetrics,
} from '../tracing/metrics.ts';

/** The HTTP response to a scrape. */
export interface MetricsResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The media type of the text. */
export const PROMETHEUS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/**
 * Returns the metrics of runtimes of this process, and the contents of their store, in the format that Prometheus
 * scrapes. All names begin with `perdure_`, times are in seconds. If there are several runtimes, each has a label
 * `runtime`, its place in the list.
 *
 * @param runtimes - one, several, or none (`[]`)
 * @param stats - the result of `client.stats()`
 *
 * @example
 * ```ts
 * createServer(async (_request, response) => {
 *   response.setHeader('content-type', PROMETHEUS_CONTENT_TYPE).end(prometheusText(runtime, await client.stats()));
 * }).listen(9464);
 * ```
 */
export function prometheusText(runtimes: Runtime | readonly Runtime[], stats?: StoreStats): string {
  const all = metricsOf(runtimes);
  const lines: string[] = [];
  if (all.length > 0) {
    for (const [name, kind, help, of] of NUMBERS) {
      family(lines, name, kind, help);
      for (const [own, metrics] of all)
        for (const [labels, value] of of(metrics)) sample(lines, name, { ...own, ...labels }, value);
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
 * Returns the HTTP response to a scrape: the store's numbers, and those of runtimes in this process.
 *
 * @param client - its `stats()` is called; an error of that call is thrown on
 * @param runtimes - as for {@link prometheusText}; without any, only the store's numbers
 *
 * @example
 * ```ts
 * const { status, headers, body } = await metricsResponse(client, runtime);
 * response.writeHead(status, headers).end(body);
 * ```
 */
export async function metricsResponse(
  client: Client,
  runtimes: Runtime | readonly Runtime[] = [],
): Promise<MetricsResponse> {
  const body = prometheusText(runtimes, await client.stats());
  return { status: 200, headers: { 'content-type': PROMETHEUS_CONTENT_TYPE }, body };
}

function family(lines: string[], name: string, kind: Kind | 'histogram', help: string): void {
  lines.push(`# HELP perdure_${name} ${help}`, `# TYPE perdure_${name} ${kind}`);
}

function histogram(lines: string[], name: string, labels: Labels, of: DurationHistogram): void {
  for (const [le, count] of bucketsOf(of)) sample(lines, `${name}_bucket`, { ...labels, le }, count);
  sample(lines, `${name}_sum`, labels, of.sumMs / 1_000);
  sample(lines, `${name}_count`, labels, of.count);
}

function sample(lines: string[], name: string, labels: Labels, value: number): void {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escaped(text)}"`);
  lines.push(`perdure_${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`);
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' };

/** Returns the value of a label as the format writes it. */
function escaped(text: string): string {
  return text.replace(/[\\"\n]/g, (character) => ESCAPES[character] as string);
}

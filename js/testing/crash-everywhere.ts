// Runs of one scenario, each with a crash at another place.

import { isDeepStrictEqual } from 'node:util';

import type { InstanceStatus } from '../client/instance-status.ts';
import { PerdureError } from '../errors/errors.ts';
import { boundedInspect } from '../util/bounded-inspect.ts';
import { show } from '../util/show.ts';
import { TestRuntime, type TestRuntimeOptions } from './test-runtime.ts';

/** The `code` of the error. */
const DIFFERENCE = 'CRASH_DIFFERENCE';

/** The result of {@link crashEverywhere}. */
export interface Crashed<T> {
  /** The scenario's result, the same each time. */
  readonly result: T;
  /** Number of runs with a crash: one for each event, and one for each attempt of an activity. */
  readonly crashes: number;
}

/** A place where a worker crashes. */
interface Place {
  /** Description of the place. */
  readonly what: string;
  plan(test: TestRuntime): void;
}

/** The outcome of a run, which must be the same with and without a crash. */
interface Outcome {
  /** The scenario's result or error. */
  readonly end: { readonly returned: unknown } | { readonly threw: unknown };
  readonly instances: Readonly<Record<string, unknown>>;
}

/**
 * Runs a scenario on a test runtime of its own. Runs it again for each event that it has left in any history, with a
 * crash of the worker as soon as that event is stored, and for each attempt of an activity, with a crash before the
 * attempt's result is stored. Each run must return the same result, and must leave all instances in the same state. The
 * number of calls of an activity may differ: one that ran when its worker crashed is called again.
 *
 * The scenario registers the code it needs, and gives its instances ids that are the same each time, as `test.start`
 * does.
 *
 * @param scenario - the code to run; it must not close the runtime
 * @param options - of each of the runtimes. Without a `logLevel`, the runs with a crash log nothing
 * @returns the scenario's result, and the number of crashes it survived
 * @throws (rejects with) the error that the scenario throws without any crash
 * @throws (rejects with) a PerdureError with the code `'CRASH_DIFFERENCE'` that says where the run crashed and what was
 *   different then
 *
 * @example
 * ```ts
 * await crashEverywhere(async (test) => {
 *   test.register(order, charge);
 *   const handle = await test.start(order, { item: 'tea' });
 *   await handle.raiseEvent('packed');
 *   return handle.result();
 * });
 * ```
 */
export async function crashEverywhere<T>(
  scenario: (test: TestRuntime) => T | Promise<T>,
  options?: TestRuntimeOptions,
): Promise<Crashed<T>> {
  if (typeof scenario !== 'function')
    throw new TypeError(`crashEverywhere: the scenario must be a function, got ${show(scenario)}`);
  const { outcome, places } = await run(scenario, options, null);
  if ('threw' in outcome.end) throw outcome.end.threw;
  for (const place of places) {
    const crashed = await run(scenario, { logLevel: 'silent', ...options }, place);
    const difference = differenceOf(outcome, crashed.outcome);
    if (difference !== null) throw differs(place, difference, crashed.outcome);
  }
  return { result: outcome.end.returned as T, crashes: places.length };
}

async function run(
  scenario: (test: TestRuntime) => unknown,
  options: TestRuntimeOptions | undefined,
  place: Place | null,
): Promise<{ outcome: Outcome; places: Place[] }> {
  const test = await TestRuntime.create(options);
  try {
    place?.plan(test);
    const end = await settle(scenario, test);
    // Work in progress may have come further than without a crash, or less far.
    await test.settled();
    if (place !== null && test.isCrashPending)
      return { outcome: { end: { threw: notReached(place) }, instances: {} }, places: [] };
    const instances: Record<string, unknown> = {};
    // The ids of holders of locks are drawn, and a crash may change which ones.
    for await (const status of test.client.listInstances()) instances[status.id] = endOf(status);
    return { outcome: { end, instances }, places: place === null ? await placesOf(test) : [] };
  } finally {
    await test.close();
  }
}

async function placesOf(test: TestRuntime): Promise<Place[]> {
  const places: Place[] = [];
  for await (const { id, executionId: last } of test.client.listInstances({ system: true })) {
    for (let executionId = 1; executionId <= last; executionId += 1) {
      for (const { eventId, kind } of await test.client.getHistory(id, executionId)) {
        const what = `after event ${eventId} (${kind}) of execution ${executionId} of instance '${id}'`;
        places.push({ what, plan: (other) => other.crashAfter(id, eventId, executionId) });
      }
    }
  }
  const ended = new Map<string, number>();
  for (const { activity, outcome } of test.calls()) {
    if (outcome !== 'completed' && outcome !== 'failed') continue;
    const nth = (ended.get(activity) ?? 0) + 1;
    ended.set(activity, nth);
    places.push({
      what: `before the result of attempt ${nth} of activity '${activity}' is stored`,
      plan: (other) => other.crashBeforeResult(activity, nth),
    });
  }
  return places;
}

async function settle(scenario: (test: TestRuntime) => unknown, test: TestRuntime): Promise<Outcome['end']> {
  try {
    return { returned: await scenario(test) };
  } catch (threw) {
    return { threw };
  }
}

function endOf({ name, version, status, executionId, output, error, customStatus }: InstanceStatus): unknown {
  return {
    name,
    version,
    status,
    executionId,
    output,
    error: error && `${error.name}: ${error.message}`,
    customStatus,
  };
}

function notReached({ what }: Place): Error {
  return new PerdureError(
    `the scenario is not deterministic: it did not reach the point of the crash ${what}`,
    DIFFERENCE,
  );
}

/** Returns the difference in words; `null` if there is none. */
function differenceOf(without: Outcome, crashed: Outcome): string | null {
  if ('threw' in crashed.end) return `the scenario threw ${shown(crashed.end.threw)}`;
  if (!isDeepStrictEqual(crashed.end, without.end)) {
    const { returned } = without.end as { returned: unknown };
    return `the scenario returned ${shown(crashed.end.returned)} instead of ${shown(returned)}`;
  }
  for (const [id, end] of Object.entries(without.instances)) {
    if (!isDeepStrictEqual(crashed.instances[id], end))
      return `instance '${id}' is ${shown(crashed.instances[id])} instead of ${shown(end)}`;
  }
  const more = Object.keys(crashed.instances).filter((id) => !(id in without.instances));
  return more.length === 0 ? null : `there are also ${more.map((id) => `'${id}'`).join(', ')}`;
}

function shown(value: unknown): string {
  return value instanceof Error
    ? `${value.name}: ${value.message}`
    : boundedInspect(value, { depth: 6, breakLength: Number.POSITIVE_INFINITY }).text;
}

function differs({ what }: Place, difference: string, { end }: Outcome): PerdureError {
  return new PerdureError(
    `with a crash ${what}, ${difference}`,
    DIFFERENCE,
    'threw' in end ? { cause: end.threw } : {},
  );
}

// A scenario, once for each event of what it leaves behind, with a crash there.

import { inspect, isDeepStrictEqual } from 'node:util';

import { PerdureError } from './errors.ts';
import type { InstanceStatus } from './instance-status.ts';
import { show } from './show.ts';
import { TestRuntime, type TestRuntimeOptions } from './test-runtime.ts';

/** What came of {@link crashEverywhere}. */
export interface Crashed<T> {
  /** What the scenario returned, each time. */
  readonly result: T;
  /** How often it was run with a crash: once for each event of each instance. */
  readonly crashes: number;
}

/** Where a worker crashed. */
interface Place {
  readonly instanceId: string;
  readonly executionId: number;
  readonly eventId: number;
}

/** What a run leaves behind: the same whether or not there was a crash. */
interface Outcome {
  /** What the scenario returned or threw. */
  readonly end: { readonly returned: unknown } | { readonly threw: unknown };
  readonly instances: Readonly<Record<string, unknown>>;
}

/**
 * Run a scenario on a test runtime of its own, and again for each event that it has left in any history, with a crash of the worker as soon as
 * that event is stored. Each time it must return the same, or throw the same error, and all instances must end the same. How often an activity is called may
 * differ: one that ran when its worker crashed is called again.
 *
 * The scenario registers what it needs, and gives its instances ids that are the same each time, as `test.start` does.
 *
 * @param scenario - what to run; it must not close the runtime
 * @param options - of each of the runtimes
 * @returns what it returned, and how many crashes it survived
 * @throws (rejects with) what the scenario throws without any crash
 * @throws (rejects with) a PerdureError with the code `'CRASH_DIFFERENCE'` that names the event and says what was different
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
export async function crashEverywhere<T>(scenario: (test: TestRuntime) => T | Promise<T>, options?: TestRuntimeOptions): Promise<Crashed<T>> {
  if (typeof scenario !== 'function') throw new TypeError(`crashEverywhere: the scenario must be a function, got ${show(scenario)}`);
  const { outcome, places } = await run(scenario, options, null);
  if ('threw' in outcome.end) throw outcome.end.threw;
  for (const place of places) {
    const crashed = await run(scenario, options, place);
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
    if (place !== null) test.crashAfter(place.instanceId, place.eventId, place.executionId);
    const end = await settle(scenario, test);
    // What is under way may have come further than without a crash, or less far.
    await test.settled();
    if (place !== null && test.isCrashPending) return { outcome: { end: { threw: notReached(place) }, instances: {} }, places: [] };
    const instances: Record<string, unknown> = {};
    const places: Place[] = [];
    for await (const status of test.client.listInstances()) {
      instances[status.id] = endOf(status);
      for (let executionId = 1; executionId <= status.executionId; executionId += 1) {
        const events = await test.client.getHistory(status.id, executionId);
        for (const { eventId } of events) places.push({ instanceId: status.id, executionId, eventId });
      }
    }
    return { outcome: { end, instances }, places };
  } finally {
    await test.close();
  }
}

async function settle(scenario: (test: TestRuntime) => unknown, test: TestRuntime): Promise<Outcome['end']> {
  try {
    return { returned: await scenario(test) };
  } catch (threw) {
    return { threw };
  }
}

function endOf({ name, version, status, executionId, output, error, customStatus }: InstanceStatus): unknown {
  return { name, version, status, executionId, output, error: error && `${error.name}: ${error.message}`, customStatus };
}

function notReached({ eventId, instanceId }: Place): Error {
  return new PerdureError(`event ${eventId} of instance '${instanceId}' did not come when the scenario was run again`, 'CRASH_DIFFERENCE');
}

/** What is not the same, in words; `null`: nothing. */
function differenceOf(without: Outcome, crashed: Outcome): string | null {
  if ('threw' in crashed.end) return `the scenario threw ${shown(crashed.end.threw)}`;
  if (!isDeepStrictEqual(crashed.end, without.end)) {
    return `the scenario returned ${shown(crashed.end.returned)} instead of ${shown((without.end as { returned: unknown }).returned)}`;
  }
  for (const [id, end] of Object.entries(without.instances)) {
    if (!isDeepStrictEqual(crashed.instances[id], end)) return `instance '${id}' is ${shown(crashed.instances[id])} instead of ${shown(end)}`;
  }
  const more = Object.keys(crashed.instances).filter((id) => !(id in without.instances));
  return more.length === 0 ? null : `there are also ${more.map((id) => `'${id}'`).join(', ')}`;
}

function shown(value: unknown): string {
  return value instanceof Error ? `${value.name}: ${value.message}` : inspect(value, { depth: 6, breakLength: Number.POSITIVE_INFINITY });
}

function differs({ instanceId, executionId, eventId }: Place, difference: string, { end }: Outcome): PerdureError {
  const where = `event ${eventId} of execution ${executionId} of instance '${instanceId}'`;
  const cause = 'threw' in end ? { cause: end.threw } : {};
  return new PerdureError(`with a crash after ${where}, ${difference}`, 'CRASH_DIFFERENCE', cause);
}

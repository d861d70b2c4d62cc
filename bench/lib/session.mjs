// Perdure in a child process: a provider, a runtime, and a client.

import { openProvider } from './stores.mjs';

/**
 * Opens a store, starts a runtime that has `register`ed, runs `work`, and shuts down.
 *
 * @template T
 * @param {import('./stores.mjs').Place} place
 * @param {(runtime: import('../../dist/index.js').Runtime) => void} register
 * @param {(client: import('../../dist/index.js').Client, runtime: import('../../dist/index.js').Runtime) => Promise<T>}
 *   work
 * @param {import('../../dist/index.js').RuntimeOptions} options default: the runtime's own defaults
 * @returns {Promise<T>}
 */
export async function withRuntime(place, register, work, options = {}) {
  const { Client, Runtime } = await import('../../dist/index.js');
  const provider = await openProvider(place);
  const runtime = new Runtime(provider, options);
  register(runtime);
  await runtime.start();
  const result = await work(new Client(provider), runtime);
  await runtime.shutdown();
  await provider.close();
  return result;
}

/** Throws unless an instance completed with `output`: a measured result must also be right. */
export function assertCompleted({ id, status, output: found, error }, output) {
  if (status === 'Completed' && found === output) return;
  throw new Error(`instance ${id} is ${status} with ${JSON.stringify(found)} instead of ${output}`, { cause: error });
}

/**
 * Starts instances of one orchestration, all at once, and waits until all have completed.
 *
 * @returns {Promise<number>} seconds
 */
export async function runAll(client, prefix, count, name, input, output) {
  const began = performance.now();
  const one = async (n) => {
    const id = `${prefix}-${n}`;
    await client.startOrchestration(id, name, input);
    assertCompleted(await client.waitForOrchestration(id), output);
  };
  await Promise.all(Array.from({ length: count }, (_, n) => one(n)));
  return (performance.now() - began) / 1_000;
}

/** Calls `one` `count` times, `wave` of them at once. */
export async function inWaves(count, wave, one) {
  for (let first = 0; first < count; first += wave) {
    const size = Math.min(wave, count - first);
    await Promise.all(Array.from({ length: size }, (_, n) => one(first + n)));
  }
}

/**
 * Does `work` once as a warm-up and then `repeat` times.
 *
 * @param {(prefix: string) => Promise<number>} work gives seconds; `prefix` is for ids
 * @returns the seconds of each time, and the commits and writes per commit over all of them
 */
export async function measureRuns(runtime, repeat, work) {
  await work('warm');
  const before = runtime.metrics();
  const seconds = [];
  for (let n = 0; n < repeat; n += 1) seconds.push(await work(`run${n}`));
  if (!seconds.every((took) => took > 0)) throw new Error(`the work took ${seconds.join(', ')} seconds`);
  return { seconds, batches: batches(before, runtime.metrics(), repeat) };
}

/** The number of commits and the writes per commit, from the metrics before and after. */
function batches(before, after, repeat) {
  const count = after.commitBatches - before.commitBatches;
  return { commits: count / repeat, writesPerCommit: (after.commitWrites - before.commitWrites) / count };
}

/** The time of each call of `work`, one after the other, ms. */
export async function timed(count, work) {
  const times = [];
  for (let n = 0; n < count; n += 1) {
    const began = performance.now();
    await work(n);
    times.push(performance.now() - began);
  }
  return times;
}

/** Throws unless an answer is the expected one. */
export function assertIs(answer, expected) {
  if (answer !== expected) throw new Error(`the answer is ${answer} instead of ${expected}`);
}

/**
 * The time of each instance of `chain` with one step, from its start to its result, one after the other, ms.
 *
 * @returns {Promise<number[]>}
 */
export function startTimes(client, prefix, count) {
  return timed(count, async (n) => {
    await client.startOrchestration(`${prefix}-${n}`, 'chain', 1);
    assertCompleted(await client.waitForOrchestration(`${prefix}-${n}`), 1);
  });
}

// DBOS Transact on Postgres: the work of the workloads, with its own API and its own defaults. A role has the name of
// its workload.
//
// The process that starts a workflow also runs it and is told of its result without a poll, as with Perdure. It does
// everything once as a warm-up, as Perdure does.

import { setTimeout as sleep } from 'node:timers/promises';

import { memory, quiet } from '../lib/cost.mjs';
import { inWaves, timed } from '../lib/session.mjs';
import { intervals, median, quantile } from '../lib/stats.mjs';
import { assertIs, chainOf, configOf } from './dbos-parts.mjs';

export const dbos = {
  name: 'dbos',
  title: 'DBOS',
  stores: ['postgres'],
  /** DBOS's version of `pg` warns of the way in which DBOS uses it. */
  nodeOptions: ['--no-deprecation'],

  roles: {
    /** Makes the tables. Several processes that do so at once may stop each other (DBOS 5.3). */
    prepare: ({ place }) => withDbos(place, async () => null),

    chain: ({ place, instances, steps, repeat }) => repeated(place, repeat, chains(instances, steps)),
    hello: ({ place, instances, repeat }) => repeated(place, repeat, chains(instances, 1)),

    queues: ({ place, instances, repeat, concurrency }) =>
      repeated(place, repeat, async (_, prefix, { DBOS, begin }) => {
        await DBOS.registerQueue('slots', { globalConcurrency: concurrency });
        const one = async (n) => {
          const handle = await begin('chain', `${prefix}-${n}`, 1, { queueName: 'slots' });
          assertIs(await handle.getResult(), 1);
        };
        await Promise.all(Array.from({ length: instances }, (_, n) => one(n)));
      }),

    latency: ({ place, steps }) =>
      withDbos(place, async ({ run, times }) => {
        await run('chain', 'warm', steps, steps);
        times.length = 0;
        await run('chain', 'run', steps, steps);
        return percentiles(intervals(times));
      }),

    start: ({ place, starts }) =>
      withDbos(place, async ({ run }) => {
        const singles = [];
        for (let n = 0; n < 2 * starts; n += 1) {
          const began = performance.now();
          await run('chain', `run-${n}`, 1, 1);
          singles.push(performance.now() - began);
        }
        return percentiles(singles.slice(starts));
      }),

    wake: ({ place, wakes, idleWakes, idleMs }) =>
      withDbos(place, async ({ DBOS, begin }) => {
        const oneByOne = async (prefix, count, pause) => {
          const handles = [];
          for (let n = 0; n < count; n += 1) handles.push(await begin('wait', `${prefix}-${n}`, 86_400));
          const times = [];
          for (const [n, handle] of handles.entries()) {
            // A start does not tell when its workflow has come to its wait.
            await sleep(Math.max(pause, 20));
            const began = performance.now();
            await DBOS.send(`${prefix}-${n}`, n, 'go');
            assertIs(await handle.getResult(), n);
            times.push(performance.now() - began);
          }
          return median(times);
        };
        await oneByOne('before', wakes, 0);
        return { warm: await oneByOne('warm', wakes, 0), idle: await oneByOne('idle', idleWakes, idleMs) };
      }),

    ask: ({ place, asks, instances, each }) =>
      withDbos(place, async ({ DBOS, begin }) => {
        // An event that is there is returned at once, so each answer has a key of its own, which its message names.
        const add = async (id, n) => {
          await DBOS.send(id, { by: 1, key: `sum-${n}` }, 'add');
          assertIs(await DBOS.getEvent(id, `sum-${n}`), n + 1);
        };
        const oneByOne = async (id) => {
          await begin('sums', id, asks);
          return median(await timed(asks, (n) => add(id, n)));
        };
        const read = async (id) => {
          await begin('sums', id, 2);
          await add(id, 0);
          const times = await timed(2 * asks, async () => assertIs(await DBOS.getEvent(id, 'sum-0'), 1));
          await add(id, 1);
          return median(times.slice(asks));
        };
        const atOnce = async (prefix) => {
          const ids = Array.from({ length: instances }, (_, n) => `${prefix}-${n}`);
          for (const id of ids) await begin('sums', id, each);
          const all = (id) => timed(each, (n) => add(id, n));
          const [ms] = await timed(1, () => Promise.all(ids.map(all)));
          return (instances * each * 1_000) / ms;
        };
        await oneByOne('before');
        const update = await oneByOne('run');
        await atOnce('warm');
        return { update, read: await read('read'), perSecond: await atOnce('at-once') };
      }),

    streams: ({ place, singles, pauseMs, entries, token }) =>
      withDbos(place, async ({ DBOS, run, begin }) => {
        await run('writes', 'warm', { entries, token }, entries);
        const began = performance.now();
        await run('writes', 'run', { entries, token }, entries);
        const perSecond = (entries * 1_000) / (performance.now() - began);
        await begin('singles', 'singles', { singles, pauseMs });
        const times = [];
        for await (const at of DBOS.readStream('singles', 'tokens')) times.push(performance.now() - at);
        return { perSecond, times };
      }),

    'fan-out': ({ place, branches, repeat }) =>
      repeated(place, repeat, (run, prefix) => run('fanOut', prefix, branches, (branches * (branches + 1)) / 2)),

    transactions: async (job) => (await import('./dbos-datasource/transactions.mjs')).transactions(job),

    scale: ({ place, process, instances, steps, repeat }, meet) =>
      repeated(place, repeat, (run, prefix) => chains(instances, steps)(run, `${prefix}-${process}`), meet),

    idle: ({ place, instances, wave, settleMs, quietMs, wakes }) =>
      withDbos(place, async ({ DBOS, run, begin }) => {
        await inWaves(instances, wave, (n) => run('done', `warm-${n}`, 1, 1));
        const before = memory();
        const handles = [];
        await inWaves(instances, wave, async (n) => {
          handles[n] = await begin('wait', `run-${n}`, 86_400);
        });
        await sleep(settleMs);
        const used = await quiet(quietMs, place.database);
        // Memory is read only now, because a start does not tell when its workflow has come to its wait.
        const after = memory();
        const times = [];
        for (let n = 0; n < wakes; n += 1) {
          const at = n * Math.floor(instances / wakes);
          const began = performance.now();
          await DBOS.send(`run-${at}`, n, 'go');
          assertIs(await handles[at].getResult(), n);
          times.push(performance.now() - began);
        }
        return { ...used, ...percentiles(times), kb: (after.rss - before.rss) / instances };
      }),
  },
};

/** Chains side by side, started at once. */
function chains(instances, steps) {
  return (run, prefix) =>
    Promise.all(Array.from({ length: instances }, (_, n) => run('chain', `${prefix}-${n}`, steps, steps)));
}

/** The seconds of each run of `work`, after a warm-up. `meet` is given if several processes do it together. */
function repeated(place, repeat, work, meet) {
  return withDbos(place, async (parts) => {
    const { run } = parts;
    await meet?.();
    await work(run, 'warm', parts);
    const seconds = [];
    for (let n = 0; n < repeat; n += 1) {
      await meet?.();
      const began = performance.now();
      await work(run, `run${n}`, parts);
      seconds.push((performance.now() - began) / 1_000);
    }
    await meet?.();
    return { seconds };
  });
}

async function withDbos(place, work) {
  const { DBOS } = await import('@dbos-inc/dbos-sdk');
  const times = [];
  const next = async (n) => {
    times.push(performance.now());
    return n + 1;
  };
  const step = (n) => DBOS.runStep(() => next(n), { name: 'next' });
  const workflows = {
    chain: DBOS.registerWorkflow(chainOf(step), { name: 'chain' }),
    fanOut: DBOS.registerWorkflow(
      async (branches) => {
        const values = await Promise.all(Array.from({ length: branches }, (_, n) => step(n)));
        return values.reduce((sum, value) => sum + value, 0);
      },
      { name: 'fanOut' },
    ),
    writes: DBOS.registerWorkflow(
      ({ entries, token }) =>
        DBOS.runStep(
          async () => {
            for (let n = 0; n < entries; n += 1) await DBOS.writeStream('tokens', token);
            return entries;
          },
          { name: 'write' },
        ),
      { name: 'writes' },
    ),
    singles: DBOS.registerWorkflow(
      ({ singles, pauseMs }) =>
        DBOS.runStep(
          async () => {
            for (let n = 0; n < singles; n += 1) {
              await sleep(pauseMs);
              await DBOS.writeStream('tokens', performance.now());
            }
          },
          { name: 'singles' },
        ),
      { name: 'singles' },
    ),
    sums: DBOS.registerWorkflow(
      async (count) => {
        let sum = 0;
        for (let n = 0; n < count; n += 1) {
          const { by, key } = await DBOS.recv('add', { timeoutSeconds: 86_400 });
          sum += by;
          await DBOS.setEvent(key, sum);
        }
      },
      { name: 'sums' },
    ),
    done: DBOS.registerWorkflow(async (value) => value, { name: 'done' }),
    wait: DBOS.registerWorkflow((timeoutSeconds) => DBOS.recv('go', { timeoutSeconds }), { name: 'wait' }),
  };
  const begin = (name, workflowID, input, options) =>
    DBOS.startWorkflow(workflows[name], { workflowID, ...options })(input);
  /** Starts a workflow and waits for its result, which must be `output`. */
  const run = async (name, workflowID, input, output) => {
    const handle = await begin(name, workflowID, input);
    assertIs(await handle.getResult(), output);
  };

  DBOS.setConfig(configOf(place));
  await DBOS.launch();
  const result = await work({ DBOS, run, begin, times });
  await DBOS.shutdown();
  return result;
}

function percentiles(values) {
  return { p50: median(values), p99: quantile(values, 0.99) };
}

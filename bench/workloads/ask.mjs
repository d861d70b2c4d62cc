// Updates, queries and reads of published values: the time from the request to the answer.

import { assertIs, startTimes, timed, withRuntime } from '../lib/session.mjs';
import { median, quantile } from '../lib/stats.mjs';
import { registerChain } from './chain.mjs';

const ASKS = 200;
/** Instances that are updated at once. */
const INSTANCES = 100;
/** Updates of each of them, one after the other. */
const EACH = 20;

export const ask = {
  name: 'ask',
  what:
    `client.update, client.query and client.getState → answer, ${ASKS} times one at a time, p50; floor: p50 of ` +
    `start → result of one activity; and updates of ${INSTANCES} instances at once`,
  stores: ['sqlite', 'postgres'],
  figures: [
    {
      name: 'update',
      unit: 'ms',
      better: 'lower',
      atLeast: 1.3,
      note: ({ p99, starting }) =>
        `p99 ${p99.toFixed(3)} ms; with the start of its instance ${starting.toFixed(3)} ms.`,
    },
    { name: 'updates at once', unit: 'per s', better: 'higher', of: 'perdure' },
    {
      name: 'query',
      unit: 'ms',
      better: 'lower',
      of: 'perdure',
      atLeast: 0.2,
      note: ({ changed, first }) =>
        `After an update ${changed.toFixed(3)} ms; the first one of an instance ${first.toFixed(3)} ms.`,
    },
    { name: 'published value', unit: 'ms', better: 'lower', of: 'perdure' },
  ],

  async round(round) {
    const { start, update, query, read, perSecond } = await round.child('measure', { place: round.place() });
    const peer = await round.peer({ asks: ASKS, instances: INSTANCES, each: EACH });
    return {
      update: {
        floor: start,
        perdure: update.p50,
        peer: peer?.update,
        notes: { p99: update.p99, starting: update.starting },
      },
      'updates at once': { perdure: perSecond, peer: peer?.perSecond },
      query: { perdure: query.p50, notes: { changed: query.changed, first: query.first } },
      'published value': { perdure: read, peer: peer?.read },
    };
  },

  roles: {
    measure: ({ place, asks = ASKS }) =>
      withRuntime(place, register, async (client) => {
        await startTimes(client, 'before', ASKS);
        await updates(client, 'before', ASKS);
        const start = median(await startTimes(client, 'run', ASKS));
        const update = await updates(client, 'run', asks);
        const [query, read] = [await queries(client), await reads(client)];
        return { start, update, query, read, perSecond: await atOnce(client) };
      }),
  },
  profile: { role: 'measure', job: { asks: 30 * ASKS } },
};

function register(runtime) {
  registerChain(runtime);
  runtime.registerOrchestration('sums', function* (ctx) {
    let sum = 0;
    ctx.onQuery('sum', () => sum);
    ctx.onUpdate('add', function* (by) {
      sum += by;
      return sum;
    });
    yield* ctx.waitForEvent('end');
  });
  runtime.registerOrchestration('published sums', function* (ctx) {
    let sum = 0;
    ctx.onUpdate('add', function* (by) {
      sum += by;
      ctx.state.set('sum', sum);
      return sum;
    });
    yield* ctx.waitForEvent('end');
  });
}

async function updates(client, prefix, count) {
  const start = { name: 'sums' };
  const starting = await timed(ASKS, async (n) => {
    assertIs(await client.updateWithStart(`${prefix}-starting-${n}`, 'add', 1, { start }), 1);
  });
  const id = await summing(client, `${prefix}-sums`);
  const times = await timed(count, async (n) => assertIs(await client.update(id, 'add', 1), n + 1));
  return { p50: median(times), p99: quantile(times, 0.99), starting: median(starting) };
}

async function queries(client) {
  const ids = Array.from({ length: ASKS / 10 }, (_, n) => `queried-${n}`);
  for (const id of ids) {
    await summing(client, id);
    await client.update(id, 'add', 1);
  }
  const first = await timed(ids.length, async (n) => assertIs(await client.query(ids[n], 'sum'), 1));
  const [id] = ids;
  const times = await timed(2 * ASKS, async () => assertIs(await client.query(id, 'sum'), 1));
  const changed = [];
  for (let n = 2; n < ASKS; n += 1) {
    await client.update(id, 'add', 1);
    changed.push(...(await timed(1, async () => assertIs(await client.query(id, 'sum'), n))));
  }
  return { p50: median(times.slice(ASKS)), changed: median(changed), first: median(first) };
}

/** The time of a read of a value that a running instance has published, ms. */
async function reads(client) {
  const id = await summing(client, 'published', 'published sums');
  await client.update(id, 'add', 1);
  const times = await timed(2 * ASKS, async () => assertIs((await client.getState(id, 'sum')).value, 1));
  return median(times.slice(ASKS));
}

/** Updates per second over many instances, one at a time for each. */
async function atOnce(client) {
  const run = async (prefix) => {
    const ids = Array.from({ length: INSTANCES }, (_, n) => `${prefix}-${n}`);
    for (const id of ids) await summing(client, id);
    const [ms] = await timed(1, () =>
      Promise.all(
        ids.map(async (id) => {
          for (let n = 1; n <= EACH; n += 1) assertIs(await client.update(id, 'add', 1), n);
        }),
      ),
    );
    return (INSTANCES * EACH * 1_000) / ms;
  };
  await run('warm');
  return run('at-once');
}

async function summing(client, id, name = 'sums') {
  await client.startOrchestration(id, name);
  return id;
}

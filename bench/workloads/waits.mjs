// One instance that waits for many things at once: the cost of each as their number grows.

import { assertCompleted, inWaves, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';

const FEW = 1_000;
const SOME = 10_000;
const MANY = 100_000;
/** Events that are raised at once. */
const WAVE = 1_000;

const LIMITS = { fibers: 2 * MANY, pendingActivities: 2 * MANY, historyEvents: 10 * MANY };

const KINDS = {
  timers: (ctx, n) => ctx.all(list(n, () => ctx.scheduleTimer(1))),
  names: (ctx, n) => ctx.all(list(n, (i) => ctx.waitForEvent(`name${i}`))),
  activities: (ctx, n) => ctx.all(list(n, (i) => ctx.scheduleActivity('next', i))),
  races(ctx, n) {
    const shared = ctx.waitForEvent('shared');
    return ctx.all(list(n, () => ctx.race([ctx.waitForEvent('other'), shared])));
  },
  fibers: (ctx, n) =>
    ctx.all(
      list(n, () =>
        ctx.spawn(function* () {
          yield* ctx.scheduleTimer(1);
        }),
      ),
    ),
};

/** Events that must be in the store before the instance begins to wait. */
const EVENTS = { names: (n) => list(n, (i) => `name${i}`), races: () => ['shared'] };

export const waits = {
  name: 'waits',
  what:
    `1 instance that waits for ${MANY} timers, names, activities, races or fibers in all(): µs for each; ` +
    `reference: for ${FEW}`,
  stores: ['sqlite', 'postgres'],
  figures: Object.keys(KINDS).map((kind) => ({
    name: `waits ${kind}`,
    unit: 'µs',
    better: 'lower',
    atLeast: 1.3,
    note: ({ some, seconds }) => `${some.toFixed(1)} µs each of ${SOME}; ${MANY} took ${seconds.toFixed(2)} s.`,
  })),

  async round(round) {
    const figures = {};
    for (const kind of Object.keys(KINDS)) {
      const [few, some, many] = await round.child('measure', { place: round.place(), kind, counts: [FEW, SOME, MANY] });
      figures[`waits ${kind}`] = { floor: few, perdure: many, notes: { some, seconds: (many * MANY) / 1e6 } };
    }
    return figures;
  },

  roles: {
    measure: ({ place, kind, counts, repeat = MANY }) =>
      withRuntime(
        place,
        register,
        async (client) => {
          // The number of times is chosen so that all of them do about as much work.
          const samples = async (n, times) => {
            const micros = [];
            for (let time = 0; time < times; time += 1) micros.push(await once(client, kind, n, `${n}-${time}`));
            return median(micros);
          };
          await samples(FEW, 3);
          const each = [];
          for (const n of counts) each.push(await samples(n, Math.max(1, Math.min(15, repeat / n))));
          return each;
        },
        { limits: LIMITS },
      ),
  },
  profile: { role: 'measure', job: { kind: 'timers', counts: [MANY, MANY, MANY] } },
};

function register(runtime) {
  runtime.registerActivity('next', async (_ctx, n) => n + 1);
  runtime.registerOrchestration('waits', function* (ctx, { kind, n }) {
    yield* ctx.waitForEvent('begin');
    return (yield* KINDS[kind](ctx, n)).length;
  });
}

/** µs for each of `n`, from when the instance is told to begin until it has ended. */
async function once(client, kind, n, tail) {
  const id = `${kind}-${tail}-${performance.now()}`;
  await client.startOrchestration(id, 'waits', { kind, n });
  const events = EVENTS[kind]?.(n) ?? [];
  await inWaves(events.length, WAVE, (i) => client.raiseEvent(id, events[i], i));
  const began = performance.now();
  await client.raiseEvent(id, 'begin');
  const ended = await client.waitForOrchestration(id);
  const micros = ((performance.now() - began) * 1_000) / n;
  assertCompleted(ended, n);
  return micros;
}

function list(length, make) {
  return Array.from({ length }, (_, i) => make(i));
}

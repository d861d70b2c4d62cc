// Locks: the time of an orchestration whose block holds locks, and many of them at once.

import { assertIs, inWaves, startTimes, timed, withRuntime } from '../lib/session.mjs';
import { median } from '../lib/stats.mjs';
import { registerChain } from './chain.mjs';

const BLOCKS = 200;
/** Blocks at once, and the locks that they share. */
const AT_ONCE = 1_000;
const NAMES = 100;

export const locks = {
  name: 'locks',
  what:
    `start → result of an orchestration with a block that holds a free lock, or transfers between two locked ` +
    `entities, ${BLOCKS} one at a time, p50; floor: p50 of start → result of one activity; ${AT_ONCE} blocks at ` +
    `once over ${NAMES} locks`,
  stores: ['sqlite', 'postgres'],
  figures: [
    { name: 'block with a lock', unit: 'ms', better: 'lower' },
    { name: 'transfer under two locks', unit: 'ms', better: 'lower' },
    { name: 'blocks at once', unit: 'per s', better: 'higher', of: 'perdure' },
  ],

  async round(round) {
    const { start, named, transfer, perSecond } = await round.child('measure', { place: round.place() });
    return {
      'block with a lock': { floor: start, perdure: named },
      'transfer under two locks': { floor: start, perdure: transfer },
      'blocks at once': { perdure: perSecond },
    };
  },

  roles: {
    measure: ({ place, blocks = BLOCKS }) =>
      withLocks(place, async (client, { named, transfer }) => {
        const run = async (definition, input) => assertIs(await (await client.start(definition, input)).result(), true);
        const accounts = Array.from({ length: 2 * BLOCKS }, (_, n) => `account-${n}`);
        const pair = (n) => ({ from: accounts[2 * n], to: accounts[2 * n + 1] });
        // Also makes the accounts, so that the transfers below find them there.
        await inWaves(BLOCKS, NAMES, (n) => run(transfer, pair(n)));
        await inWaves(BLOCKS, NAMES, (n) => run(named, `door-${n}`));
        const start = median(await startTimes(client, 'run', BLOCKS));
        const one = await timed(blocks, (n) => run(named, `door-${n % BLOCKS}`));
        const two = await timed(BLOCKS, (n) => run(transfer, pair(n)));
        const [ms] = await timed(1, () =>
          Promise.all(Array.from({ length: AT_ONCE }, (_, n) => run(named, `door-${n % NAMES}`))),
        );
        return { start, named: median(one), transfer: median(two), perSecond: (AT_ONCE * 1_000) / ms };
      }),
  },
  profile: { role: 'measure', job: { blocks: 10 * BLOCKS } },
};

async function withLocks(place, work) {
  const { defineEntity, defineOrchestration } = await import('../../dist/index.js');
  const account = defineEntity('account', {
    initial: () => 0,
    handlers: {
      *add(ctx, by) {
        ctx.state += by;
      },
    },
  });
  const named = defineOrchestration('named', function* (ctx, name) {
    return yield* ctx.lock(name, function* () {
      return true;
    });
  });
  const transfer = defineOrchestration('transfer', function* (ctx, { from, to }) {
    return yield* ctx.lock([account.at(from), account.at(to)], function* () {
      yield* ctx.entity(account, from).add(-1);
      yield* ctx.entity(account, to).add(1);
      return true;
    });
  });
  const register = (runtime) => {
    registerChain(runtime);
    runtime.register(account, named, transfer);
  };
  return withRuntime(place, register, (client) => work(client, { named, transfer }));
}

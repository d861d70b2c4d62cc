// A process of carts.test.ts: a worker that runs the carts, or a caller that fills them. Runs in plain Node with the
// built package.

import { Client, defineActivity, defineEntity, Runtime } from 'perdure';

import { openStore, pause, say, seeded } from '../support/worker-parts.mjs';

const { store, role, name, carts, items, seed } = JSON.parse(process.argv[2]);

/** Calls of a caller that are open at once. */
const LANES = 4;

const reserve = defineActivity('reserve', async (_ctx, item) => {
  await pause(2);
  return item;
});

const cart = defineEntity('cart', {
  initial: () => [],
  handlers: {
    *add(ctx, item) {
      const count = ctx.state.push(`${item} begins`);
      ctx.state[count - 1] = yield* ctx.call(reserve, item);
      return count;
    },
  },
  reads: { count: (state) => state.length, items: (state) => state },
});

const provider = await openStore(store);
const client = new Client(provider);

async function work() {
  const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '2s' });
  runtime.register(reserve, cart);
  runtime.on('error', () => undefined);
  await runtime.start();
  say({ type: 'ready' });
}

/** Adds all items, each to a cart that the seed chooses. A caller that is started again adds the same ones. */
async function call() {
  say({ type: 'ready' });
  const random = seeded(seed);
  const adds = Array.from({ length: items }, (_, n) => ({
    item: `${name} ${n}`,
    key: `c/${Math.floor(random() * carts)}`,
    isOneWay: n % 10 === 9,
  })).values();
  const lane = async () => {
    for (const { item, key, isOneWay } of adds) {
      const mine = client.entity(cart, key);
      if (isOneWay) {
        await mine.send.add(`${item} one-way`);
        continue;
      }
      const answer = await mine.add(item, { updateId: item, timeout: '60s' });
      const count = await mine.count();
      say({ type: 'added', key, item, answer, count });
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  say({ type: 'done' });
}

await (role === 'worker' ? work() : call());
if (role === 'caller') {
  await provider.close();
  process.disconnect();
}

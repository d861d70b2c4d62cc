// A program of a newcomer: an orchestration that forgets a `yield*` in the way that its argument names.
//
//   node forgetful.mjs <way> <address of the store, as JSON>

import { Client, defineActivity, defineOrchestration, Runtime } from 'perdure';

import { openStore } from './worker-parts.mjs';

const [, , way, address] = process.argv;

const price = defineActivity('price', async (_ctx, fruit) => fruit.length);

const ways = {
  *input(ctx) {
    const each = ctx.call(price, 'apple');
    return yield* ctx.call(price, { each });
  },
  *output(ctx) {
    return { price: ctx.call(price, 'apple') };
  },
  *template(ctx) {
    const each = ctx.call(price, 'apple');
    return `an apple costs ${each}`;
  },
  *statement(ctx) {
    ctx.call(price, 'apple');
    return 'priced';
  },
  *condition(ctx) {
    if (ctx.call(price, 'apple')) return 'priced';
  },
  *sleep(ctx) {
    ctx.sleep('1h');
    return 'slept';
  },
};

const order = defineOrchestration('order', ways[way]);
const provider = await openStore(JSON.parse(address));
const runtime = new Runtime(provider).register(price, order);
await runtime.start();
const handle = await new Client(provider).start(order);
console.log(await handle.result());
await runtime.shutdown();
await provider.close();

import {
  Client,
  defineActivity,
  defineEntity,
  defineLock,
  defineOrchestration,
  type EntityContext,
  type EntityDefinition,
  type FiberFuture,
  type Future,
  type Provider,
  type Runtime,
  type Token,
  type TokenInfo,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expectTypeOf, it } from 'vitest';

declare const provider: Provider;
declare const runtime: Runtime;

interface Item {
  readonly sku: string;
}

const reserve = defineActivity('reserve', async (_ctx, item: Item) => item.sku);

const cart = defineEntity('cart', {
  initial: (key) => ({ owner: key, items: [] as Item[] }),
  handlers: {
    *add(ctx, item: Item) {
      expectTypeOf(ctx).toEqualTypeOf<EntityContext<{ owner: string; items: Item[] }>>();
      expectTypeOf(yield* ctx.call(reserve, item)).toEqualTypeOf<string>();
      return ctx.state.items.push(item);
    },
    *clear(ctx) {
      ctx.state = { owner: ctx.key, items: [] };
      // @ts-expect-error the state is of another type
      ctx.state = 1;
    },
    *take(ctx, n?: number) {
      return ctx.state.items[n ?? 0];
    },
  },
  reads: {
    items: (state) => state.items,
    item: ({ items }, n: number) => items[n],
  },
});

const counter = defineEntity('counter', {
  initial: () => 0,
  handlers: {
    *add(ctx, by: number) {
      ctx.state += by;
      return ctx.state;
    },
  },
});

describe('an entity', () => {
  it('is an orchestration', () => {
    expectTypeOf(cart.name).toEqualTypeOf<string>();
    expectTypeOf(counter).toExtend<EntityDefinition<number>>();
    runtime.register(cart, counter, reserve);
  });

  it('types what a client sends and gets', async () => {
    const mine = new Client(provider).entity(cart, 'user-7');
    expectTypeOf(await mine.add({ sku: 'tea' })).toEqualTypeOf<number>();
    expectTypeOf(await mine.add({ sku: 'tea' }, { timeout: '5s', updateId: 'a' })).toEqualTypeOf<number>();
    expectTypeOf(await mine.clear()).toEqualTypeOf<void>();
    expectTypeOf(await mine.clear(undefined, { timeout: '5s' })).toEqualTypeOf<void>();
    expectTypeOf(await mine.take()).toEqualTypeOf<Item | undefined>();
    expectTypeOf(await mine.take(1)).toEqualTypeOf<Item | undefined>();
    expectTypeOf(await mine.items()).toEqualTypeOf<Item[]>();
    expectTypeOf(await mine.item(1)).toEqualTypeOf<Item | undefined>();
    expectTypeOf(mine.send.add({ sku: 'tea' })).toEqualTypeOf<Promise<void>>();
    expectTypeOf(mine.delete()).toEqualTypeOf<Promise<void>>();
    // @ts-expect-error the input is missing
    void mine.add();
    // @ts-expect-error the input is of another type
    void mine.add('tea');
    // @ts-expect-error the input is of another type
    void mine.send.add('tea');
    // @ts-expect-error a read has no one-way call
    void mine.send.items();
    // @ts-expect-error there is no such handler
    void mine.remove();
    expectTypeOf(await new Client(provider).entity(counter, 'a').add(1)).toEqualTypeOf<number>();
  });

  it('types what an orchestration sends and gets', () => {
    defineOrchestration('shopping', function* (ctx, key: string) {
      const mine = ctx.entity(cart, key);
      expectTypeOf(mine.add({ sku: 'tea' })).toEqualTypeOf<Future<number>>();
      expectTypeOf(yield* mine.items()).toEqualTypeOf<Item[]>();
      expectTypeOf(yield* free.entity(cart, key).item(1)).toEqualTypeOf<Item | undefined>();
      expectTypeOf(mine.send.add({ sku: 'tea' })).toEqualTypeOf<Future<void>>();
      expectTypeOf(mine.delete()).toEqualTypeOf<Future<void>>();
      // @ts-expect-error the input is of another type
      mine.add(1);
    });
  });

  it('has handlers that wait for tokens of a type', () => {
    defineEntity('asks', {
      initial: () => 0,
      handlers: {
        *ask(ctx) {
          const token = ctx.token<{ by: string }>({ timeout: '3d', data: 'may I?' });
          expectTypeOf(token).toEqualTypeOf<Token<{ by: string }>>();
          expectTypeOf(token.id).toEqualTypeOf<string>();
          expectTypeOf(free.token()).toEqualTypeOf<Token<unknown>>();
          // @ts-expect-error a duration
          ctx.token({ timeout: true });
          return (yield* token).by;
        },
      },
    });
    const client = new Client(provider);
    expectTypeOf(client.listTokens()).toEqualTypeOf<AsyncIterable<TokenInfo>>();
    // @ts-expect-error an error or its message
    void client.rejectToken('id', 5);
  });

  it('is locked, beside locks with names, for a block of any type', () => {
    const printers = defineLock('printers', { permits: 2 });
    defineOrchestration('printing', function* (ctx, key: string) {
      const count = yield* ctx.lock([cart.at(key), printers, 'door'], function* () {
        return yield* ctx.entity(cart, key).add({ sku: 'tea' });
      });
      expectTypeOf(count).toEqualTypeOf<number>();
      expectTypeOf(free.lock('door', block())).toEqualTypeOf<FiberFuture<string>>();
      // @ts-expect-error an entity is locked by its address
      ctx.lock(cart, block);
      // @ts-expect-error a block is a function*
      ctx.lock('door', async () => 1);
    });
    function* block(): Generator<Future<any>, string, any> {
      return 'done';
    }
    // @ts-expect-error a number of permits
    defineLock('a', { permits: 'two' });
  });

  it('has handlers that are generators, and of no forbidden method', () => {
    // @ts-expect-error a handler is a function*
    defineEntity('a', { initial: () => 0, handlers: { add: async () => 1 } });
    defineEntity('a', {
      initial: () => 0,
      handlers: {
        *add(ctx) {
          // @ts-expect-error the entity continues as new by itself
          yield* ctx.continueAsNew();
        },
      },
    });
    // @ts-expect-error there must be an initial state
    defineEntity('a', { handlers: { *add() {} } });
  });
});

import { type Channel, CLOSED, type Closed, defineActivity, defineOrchestration, type Future } from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expectTypeOf, it } from 'vitest';

const count = defineActivity('count', () => 7);

describe('scopes and channels', () => {
  it('infer what they give', () => {
    defineOrchestration('scopes', function* (ctx) {
      const block = function* () {
        yield ctx.sleep(1);
        return 'block';
      };
      expectTypeOf(ctx.withTimeout('1s', ctx.call(count))).toEqualTypeOf<Future<number>>();
      expectTypeOf(ctx.withTimeout(5, block())).toEqualTypeOf<Future<string>>();
      expectTypeOf(yield* ctx.uncancellable(block)).toEqualTypeOf<string>();
      // @ts-expect-error a promise is no branch
      ctx.withTimeout(5, Promise.resolve(1));
      // @ts-expect-error nor is a value what runs in a block
      ctx.uncancellable(5);

      const channel = ctx.channel<number>(3);
      expectTypeOf(channel).toEqualTypeOf<Channel<number>>();
      expectTypeOf(channel.send(1)).toEqualTypeOf<Future<void>>();
      expectTypeOf(yield* channel).toEqualTypeOf<number | Closed>();
      let value: number | Closed;
      while ((value = yield* channel.receive()) !== CLOSED) expectTypeOf(value).toEqualTypeOf<number>();
      yield* ctx.all([
        channel.forEach(function* (item) {
          expectTypeOf(item).toEqualTypeOf<number>();
        }),
      ]);
      // @ts-expect-error values of another type
      channel.send('1');
      ctx.channel<void>().send();
    });
  });
});

describe('the free functions', () => {
  it('are typed as the methods', () => {
    defineOrchestration('free', function* () {
      expectTypeOf(yield* free.call(count)).toEqualTypeOf<number>();
      const [n, e] = yield* free.all([free.call(count), free.waitForEvent<boolean>('e')]);
      expectTypeOf(n).toEqualTypeOf<number>();
      expectTypeOf(e).toEqualTypeOf<boolean>();
      const first = yield* free.race(free.call(count), free.sleep('1s'), { cancelLosers: true });
      if (first.index === 0) expectTypeOf(first.value).toEqualTypeOf<number>();
      expectTypeOf(free.now()).toBeNumber();
      expectTypeOf(free.channel<string>()).toEqualTypeOf<Channel<string>>();
      expectTypeOf(free.currentContext().instanceId).toBeString();
      // @ts-expect-error no such activity
      free.call('count');
    });
  });
});

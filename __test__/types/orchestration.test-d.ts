import { type Channel, CLOSED, type Closed, defineActivity, defineOrchestration, type Future } from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expectTypeOf, it } from 'vitest';

const count = defineActivity('count', () => 7);

describe('scopes and channels', () => {
  it('infer the types of their results', () => {
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
      // @ts-expect-error a value is no block
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

describe('other instances', () => {
  const payment = defineOrchestration('payment', function* (_, order: { total: number }) {
    return { paid: order.total > 0 };
  });
  const tidy = defineOrchestration('tidy', function* () {});

  it('are typed by their definitions', () => {
    defineOrchestration('parent', function* (ctx) {
      expectTypeOf(yield* ctx.callOrchestration(payment, { total: 1 }, { id: 'p', tags: { a: 'b' } })).toEqualTypeOf<{
        paid: boolean;
      }>();
      expectTypeOf(ctx.callOrchestration(tidy)).toEqualTypeOf<Future<void>>();
      const retry = { maxAttempts: 2, backoff: 'linear', retryOn: ['ECONNRESET'] } as const;
      expectTypeOf(ctx.callOrchestration(tidy, undefined, { retry })).toEqualTypeOf<Future<void>>();
      expectTypeOf(ctx.scheduleSubOrchestration<number>('any', 1, { retry })).toEqualTypeOf<Future<number>>();
      // @ts-expect-error it has a misspelt option
      ctx.callOrchestration(tidy, undefined, { retry: { maxAttempt: 2 } });
      // @ts-expect-error the backoff is a factor or 'linear'
      ctx.callOrchestration(tidy, undefined, { retry: { backoff: 'square' } });
      // @ts-expect-error the codes are texts
      ctx.call(count, undefined, { retry: { retryOn: [11_000] } });
      // @ts-expect-error a detached instance is not retried
      ctx.start(tidy, undefined, { retry });
      expectTypeOf(ctx.scheduleSubOrchestration('any')).toEqualTypeOf<Future<unknown>>();
      expectTypeOf(ctx.scheduleSubOrchestration<number>('any', 1)).toEqualTypeOf<Future<number>>();
      expectTypeOf(yield* ctx.startOrchestration('any', 'id')).toEqualTypeOf<string>();
      expectTypeOf(ctx.raiseEvent('id', 'name', 1)).toEqualTypeOf<Future<void>>();
      expectTypeOf(ctx.readState('id', 'a')).toEqualTypeOf<Future<unknown>>();
      expectTypeOf(ctx.readState<number>('id', 'a')).toEqualTypeOf<Future<number | undefined>>();
      expectTypeOf(ctx.stream('s', { maxEntries: 5, retain: '1h' }).write(1)).toEqualTypeOf<void>();
      // @ts-expect-error a misspelt option
      free.stream('s', { maxEntry: 5 });
      expectTypeOf(yield* free.readState('id')).toEqualTypeOf<ReadonlyMap<string, unknown>>();
      // @ts-expect-error the input is missing
      ctx.callOrchestration(payment);
      // @ts-expect-error an input of another type
      ctx.callOrchestration(payment, { total: '1' });
      // @ts-expect-error an id is needed
      ctx.startOrchestration('any');
      // @ts-expect-error no such option
      ctx.callOrchestration(tidy, undefined, { onConflict: 'return' });
      // @ts-expect-error an activity is no orchestration
      ctx.callOrchestration(count);
    });
  });

  it('continueAsNew never gives anything', () => {
    const eternal = defineOrchestration('eternal', function* (ctx, n: number) {
      if (n > 3) return 'done';
      return yield* ctx.continueAsNew(n + 1, { version: '2.0.0' });
    });
    defineOrchestration('parent', function* (ctx) {
      expectTypeOf(yield* ctx.callOrchestration(eternal, 1)).toEqualTypeOf<string>();
      expectTypeOf(ctx.historyLength).toBeNumber();
      expectTypeOf(ctx.continueAsNewSuggested).toBeBoolean();
      // @ts-expect-error no such option
      ctx.continueAsNew(1, { id: 'x' });
    });
  });
});

describe('the free functions', () => {
  it('are typed as the methods', () => {
    defineOrchestration('free', function* () {
      expectTypeOf(yield* free.call(count)).toEqualTypeOf<number>();
      expectTypeOf(yield* free.run('inline', async ({ attempt }) => attempt)).toEqualTypeOf<number>();
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

describe('the context of an activity', () => {
  it('has texts that cannot be changed', () => {
    defineActivity('facts', (ctx) => {
      expectTypeOf(ctx.queue).toEqualTypeOf<string>();
      expectTypeOf(ctx.orchestrationVersion).toEqualTypeOf<string>();
      expectTypeOf(ctx.tags).toEqualTypeOf<Readonly<Record<string, string>>>();
      // @ts-expect-error the tags are those of the start
      ctx.tags.team = 'a';
    });
  });
});

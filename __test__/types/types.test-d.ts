import {
  type ActivityContext,
  Client,
  defineActivity,
  defineOrchestration,
  type FiberFuture,
  type Future,
  type HistoryEvent,
  type HistoryExport,
  type InstanceHandle,
  type InstancePage,
  type InstanceStatus,
  type Provider,
  Runtime,
  type StatusChange,
  type StoreStats,
} from 'perdure';
import { describe, expectTypeOf, it } from 'vitest';

interface Order {
  id: string;
  total: number;
}

interface Receipt {
  id: number;
}

declare const provider: Provider;

const charge = defineActivity('charge', async (ctx, order: Order): Promise<Receipt> => {
  expectTypeOf(ctx).toEqualTypeOf<ActivityContext>();
  expectTypeOf(ctx.signal).toEqualTypeOf<AbortSignal>();
  expectTypeOf(ctx.lastHeartbeat).toBeAny();
  expectTypeOf(ctx.heartbeat({ row: 1 })).toEqualTypeOf<void>();
  return { id: order.total };
});
const count = defineActivity('count', () => 7);
const nothing = defineActivity('nothing', async () => {});

describe('an orchestration', () => {
  it('gets the result type of an activity from yield*, and any from yield', () => {
    const order = defineOrchestration('order', function* (ctx, input: Order) {
      const future = ctx.call(charge, input);
      expectTypeOf(future).toEqualTypeOf<Future<Receipt>>();
      const receipt = yield* future;
      expectTypeOf(receipt).toEqualTypeOf<Receipt>();
      expectTypeOf(yield* ctx.call(count)).toEqualTypeOf<number>();
      expectTypeOf(yield* ctx.call(nothing)).toEqualTypeOf<void>();
      expectTypeOf(yield future).toBeAny();
      expectTypeOf(yield* ctx.scheduleActivity('charge', input)).toBeUnknown();
      expectTypeOf(yield* ctx.scheduleActivity<Receipt>('charge', input)).toEqualTypeOf<Receipt>();
      expectTypeOf(yield* ctx.waitForEvent<{ by: string }>('approve')).toEqualTypeOf<{ by: string }>();
      expectTypeOf(yield* ctx.dequeueEvent('q')).toBeUnknown();
      expectTypeOf(yield* ctx.scheduleTimer('1s')).toEqualTypeOf<void>();
      expectTypeOf(
        yield* ctx.run('later', async ({ attempt, heartbeat }) => (heartbeat(), { attempt })),
      ).toEqualTypeOf<{ attempt: number }>();
      expectTypeOf(
        ctx.run('now', () => 'text', { totalTimeout: '1h', scheduleToStartTimeout: '1m', heartbeatTimeout: 5 }),
      ).toEqualTypeOf<Future<string>>();
      expectTypeOf(yield* ctx.run('nothing', async () => {})).toEqualTypeOf<void>();
      expectTypeOf(yield ctx.run('any', () => 1)).toBeAny();
      // @ts-expect-error it takes no other argument than the context
      ctx.run('argument', (_, input: number) => input);
      // @ts-expect-error the input is of another type
      ctx.call(charge, { id: 5 });
      // @ts-expect-error the input is missing
      ctx.call(charge);
      // @ts-expect-error there is no such option
      ctx.call(charge, input, { retry: { maxAttemps: 5 } });
      return receipt.id;
    });
    expectTypeOf(order.name).toBeString();
    expectTypeOf(new Client(provider).start(order, { id: 'a', total: 1 })).resolves.toEqualTypeOf<
      InstanceHandle<number, unknown, Order>
    >();
  });

  it('gets tuples from all, and told-apart results from race and select', () => {
    defineOrchestration('combines', function* (ctx) {
      const block = function* () {
        yield ctx.scheduleTimer(1);
        return 'block';
      };
      const [receipt, n, text] = yield* ctx.all([ctx.call(charge, { id: 'a', total: 1 }), ctx.call(count), block()]);
      expectTypeOf(receipt).toEqualTypeOf<Receipt>();
      expectTypeOf(n).toEqualTypeOf<number>();
      expectTypeOf(text).toEqualTypeOf<string>();

      const many = yield* ctx.all([1, 2, 3].map(() => ctx.call(count)));
      expectTypeOf(many).toEqualTypeOf<number[]>();

      const first = yield* ctx.race(ctx.call(count), ctx.waitForEvent<boolean>('e'), { cancelLosers: true });
      if (first.index === 0) expectTypeOf(first.value).toEqualTypeOf<number>();
      else expectTypeOf(first.value).toEqualTypeOf<boolean>();

      const chosen = yield* ctx.select({ count: ctx.call(count), late: ctx.scheduleTimer('1d') });
      if (chosen.tag === 'count') expectTypeOf(chosen.value).toEqualTypeOf<number>();
      else expectTypeOf(chosen.value).toEqualTypeOf<void>();

      const settled = yield* ctx.allSettled([ctx.call(count)]);
      expectTypeOf(settled).toEqualTypeOf<[PromiseSettledResult<number>]>();
      expectTypeOf(yield* ctx.any([ctx.call(count), block()])).toEqualTypeOf<number | string>();
      expectTypeOf(ctx.spawn(block)).toEqualTypeOf<FiberFuture<string>>();
      expectTypeOf<FiberFuture<string>>().toExtend<Future<string>>();
      const raced = yield* ctx.raceSettled(ctx.call(count), ctx.scheduleTimer('1d'));
      if (raced.index === 0 && raced.status === 'fulfilled') expectTypeOf(raced.value).toEqualTypeOf<number>();
      const told = yield* ctx.selectSettled({ count: ctx.call(count), block: block() }, { cancelLosers: 'blocks' });
      if (told.status === 'rejected') expectTypeOf(told.reason).toBeAny();
      else if (told.tag === 'block') expectTypeOf(told.value).toEqualTypeOf<string>();
      const ready = ctx.deferred<number>();
      expectTypeOf(ready.resolve(1)).toEqualTypeOf<boolean>();
      expectTypeOf(yield* ready).toEqualTypeOf<number>();
      // @ts-expect-error its value is a number
      ready.resolve('one');
      // @ts-expect-error a promise is no branch
      ctx.all([Promise.resolve(1)]);
    });
  });

  it('has its facts and sync methods typed', () => {
    defineOrchestration('facts', function* (ctx) {
      expectTypeOf(ctx.now()).toBeNumber();
      expectTypeOf(ctx.random()).toBeNumber();
      expectTypeOf(ctx.randomUUID()).toBeString();
      expectTypeOf(ctx.instanceId).toBeString();
      expectTypeOf(ctx.parentId).toEqualTypeOf<string | undefined>();
      expectTypeOf(ctx.setCustomStatus({ any: 'json' })).toBeVoid();
      expectTypeOf(ctx.getCustomStatus<{ step: number }>()).toEqualTypeOf<{ step: number } | undefined>();
    });
  });
});

describe('a client', () => {
  const client = new Client(provider);

  it('starts by definition, typed from input to result', () => {
    const upper = defineOrchestration('upper', function* (_, text: string) {
      return { text };
    });
    const none = defineOrchestration('none', function* () {
      return 1;
    });
    expectTypeOf(client.start(upper, 'a')).resolves.toEqualTypeOf<InstanceHandle<{ text: string }, unknown, string>>();
    expectTypeOf(client.start(none)).resolves.toEqualTypeOf<InstanceHandle<number, unknown, undefined>>();
    expectTypeOf(client.start(none, undefined, { id: 'x' })).resolves.toEqualTypeOf<
      InstanceHandle<number, unknown, undefined>
    >();
    expectTypeOf<InstanceHandle<number, unknown, undefined>>().toExtend<InstanceHandle<number>>();
    expectTypeOf<InstanceHandle<number>['result']>().returns.resolves.toEqualTypeOf<number>();
    expectTypeOf<InstanceHandle<number>['status']>().returns.resolves.toEqualTypeOf<InstanceStatus<number> | null>();
    // @ts-expect-error the input is of another type
    void client.start(upper, 5);
    // @ts-expect-error the input is missing
    void client.start(upper);
    // @ts-expect-error the version is the definition's
    void client.start(upper, 'a', { version: '2.0.0' });
  });

  it('starts by name with anything', () => {
    expectTypeOf(client.startOrchestration('id', 'name', { any: 'thing' })).resolves.toEqualTypeOf<string>();
    expectTypeOf(client.waitForOrchestration<number>('id', '1s'))
      .resolves.toHaveProperty('output')
      .toEqualTypeOf<number | undefined>();
    expectTypeOf(client.getStatus('id', { input: true })).resolves.toEqualTypeOf<InstanceStatus | null>();
    expectTypeOf(client.listInstances({ input: true }).page()).resolves.toEqualTypeOf<InstancePage>();
    // @ts-expect-error no such option
    client.getStatus('id', { inputs: true });
    expectTypeOf(client.getStatus('id')).resolves.toEqualTypeOf<InstanceStatus | null>();
  });
});

describe('a client that looks after instances', () => {
  const client = new Client(provider);

  it('lists them, in iterations and in pages', () => {
    const list = client.listInstances({
      status: ['Failed', 'Suspended'],
      tags: { team: 'a' },
      createdAfter: new Date(),
      limit: 5,
    });
    expectTypeOf(list).toExtend<AsyncIterable<InstanceStatus>>();
    expectTypeOf(list.page()).resolves.toEqualTypeOf<InstancePage>();
    expectTypeOf<InstancePage['cursor']>().toEqualTypeOf<string | null>();
    // @ts-expect-error there is no such status
    client.listInstances({ status: 'failed' });
    // @ts-expect-error a list is pruned by the end of its instances, not listed
    client.listInstances({ completedBefore: new Date() });
  });

  it('watches, reads and exports', () => {
    expectTypeOf(client.statusChanges('id', { signal: new AbortController().signal })).toExtend<
      AsyncIterable<StatusChange>
    >();
    expectTypeOf(client.handle('id').statusChanges().next()).resolves.toEqualTypeOf<
      IteratorResult<StatusChange, void>
    >();
    expectTypeOf(client.getHistory('id', 1)).resolves.toEqualTypeOf<HistoryEvent[]>();
    expectTypeOf(client.historyEvents('id')).toExtend<AsyncIterable<HistoryEvent>>();
    expectTypeOf<HistoryEvent['kind']>().toExtend<string>();
    expectTypeOf(client.exportHistory('id')).resolves.toEqualTypeOf<HistoryExport>();
  });

  it('holds, deletes and counts', () => {
    expectTypeOf(client.suspend('id', 'why')).resolves.toBeVoid();
    expectTypeOf(client.deleteInstance('id', { descendants: true })).resolves.toEqualTypeOf<{ deleted: number }>();
    expectTypeOf(client.prune({ status: 'Completed', completedBefore: '2030-01-01' })).resolves.toEqualTypeOf<{
      deleted: number;
    }>();
    expectTypeOf(client.pruneExecutions({ name: 'monitor', keep: 3 })).resolves.toEqualTypeOf<{ deleted: number }>();
    expectTypeOf(client.stats()).resolves.toEqualTypeOf<StoreStats>();
    // @ts-expect-error instances that have not ended are not pruned
    void client.prune({ status: 'Running' });
    // @ts-expect-error a filter is required
    void client.prune();
    // @ts-expect-error `keep` is required
    void client.pruneExecutions({ name: 'monitor' });
  });
});

describe('a runtime', () => {
  it('takes definitions and functions, and infers their context', () => {
    const runtime = new Runtime(provider);
    runtime.register(
      charge,
      defineOrchestration('o', function* () {}),
    );
    runtime.registerActivity('a', (ctx, input) => {
      expectTypeOf(ctx.attempt).toBeNumber();
      expectTypeOf(input).toBeAny();
    });
    runtime.registerOrchestration('b', function* (ctx, input) {
      expectTypeOf(ctx.executionId).toBeNumber();
      expectTypeOf(input).toBeAny();
      expectTypeOf(yield ctx.scheduleActivity('a')).toBeAny();
    });
    runtime.on('instance', ({ status }) => {
      expectTypeOf(status).toEqualTypeOf<'Completed' | 'Failed' | 'Cancelled' | 'Suspended'>();
    });
    // @ts-expect-error an orchestration is a generator function
    runtime.registerOrchestration('c', async (ctx) => ctx.instanceId);
    // @ts-expect-error there is no such option
    new Runtime(provider, { activityConcurency: 1 });
  });
});

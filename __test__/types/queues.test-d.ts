import {
  type ActivityKey,
  type ActivityOptions,
  type Client,
  defineActivity,
  defineOrchestration,
  defineSchedule,
  type Future,
  type OrchestrationContext,
  type QueueInfo,
  type QueueLimits,
  type Runtime,
  type StandardSchema,
} from 'perdure';
import { callOrchestration, start } from 'perdure/orchestration';
import { expectTypeOf, it } from 'vitest';

declare const client: Client;
declare const runtime: Runtime;
declare const ctx: OrchestrationContext;
declare const schema: StandardSchema<{ tenant: string }, { tenant: symbol }>;

const mail = defineOrchestration('mail', function* (_ctx, to: string) {
  return to.length;
});

it('queues are set, read and deleted', () => {
  expectTypeOf(client.queues.set('a', { concurrency: 1 })).resolves.toEqualTypeOf<void>();
  expectTypeOf(client.queues.get('a')).resolves.toEqualTypeOf<QueueInfo | undefined>();
  expectTypeOf(client.queues.list()).resolves.toEqualTypeOf<QueueInfo[]>();
  expectTypeOf(client.queues.delete('a')).resolves.toEqualTypeOf<void>();
  expectTypeOf<QueueInfo['limits']>().toEqualTypeOf<QueueLimits>();
  expectTypeOf<QueueInfo['oldestWait']>().toEqualTypeOf<Date | undefined>();
  void (() => {
    void client.queues.set('a', {});
    void client.queues.set('a', {
      concurrency: 20,
      perWorker: 5,
      rate: { limit: 50, per: '1s' },
      perKey: { concurrency: 2, rate: { limit: 5, per: 1_000 } },
      fairness: 'key',
    });
    // @ts-expect-error: the limits are missing
    void client.queues.set('a');
    // @ts-expect-error: a rate has a span
    void client.queues.set('a', { rate: { limit: 50 } });
    // @ts-expect-error: a span is a duration
    void client.queues.set('a', { rate: { limit: 50, per: 'second' } });
    // @ts-expect-error: there is no such fairness
    void client.queues.set('a', { fairness: 'queue' });
    // @ts-expect-error: it is perKey
    void client.queues.set('a', { keyConcurrency: 2 });
  });
});

it('a start has a queue, a key and a time', () => {
  void (() => {
    void client.start(mail, 'ada', { queue: 'a', key: 'b', priority: 5, delay: '5m' });
    void client.startOrchestration('1', 'mail', 'ada', { queue: 'a', startAt: new Date() });
    void client.startMany([{ definition: mail, input: 'ada', queue: 'a', key: 'b', startAt: '2030-01-01' }]);
    void client.raiseEvent('1', 'go', 1, { start: { definition: mail, input: 'ada', queue: 'a', delay: 5 } });
    ctx.callOrchestration(mail, 'ada', { queue: 'a', key: 'b', delay: '1d' });
    ctx.start(mail, 'ada', { queue: 'a', startAt: new Date() });
    callOrchestration(mail, 'ada', { queue: 'a' });
    start(mail, 'ada', { queue: 'a' });
    defineSchedule('s', { every: '1h', start: { definition: mail, input: 'ada', queue: 'a', key: 'b' } });
    // @ts-expect-error: a delay is a duration
    void client.start(mail, 'ada', { delay: '5 minutes' });
    // @ts-expect-error: a queue is named
    void client.start(mail, 'ada', { queue: 1 });
    // @ts-expect-error: the runs of a schedule start when they are due
    defineSchedule('s', { every: '1h', start: { definition: mail, input: 'ada', delay: '1m' } });
    void client.within({}).start(mail, 'ada', { queue: 'a', key: 'b', delay: '5m' });
    void client.within({}).startOrchestration('1', 'mail', 'ada', { queue: 'a', startAt: new Date() });
    // @ts-expect-error: a delay is a duration
    void client.within({}).start(mail, 'ada', { delay: '5 minutes' });
    // @ts-expect-error: not in a transaction of the user's
    void client.within({}).start(mail, 'ada', { singleton: 'skip' });
  });
});

it('a start has a time limit', () => {
  void (() => {
    void client.start(mail, 'ada', { timeout: '1h', gracePeriod: '1m' });
    void client.startMany([{ definition: mail, input: 'ada', timeout: 5_000 }]);
    void client.raiseEvent('1', 'go', 1, { start: { definition: mail, input: 'ada', timeout: '1h' } });
    ctx.callOrchestration(mail, 'ada', { timeout: '1h', gracePeriod: 0 });
    start(mail, 'ada', { timeout: '1h' });
    defineSchedule('s', { every: '1h', start: { definition: mail, input: 'ada', timeout: '50m' } });
    // @ts-expect-error: a time limit is a duration
    void client.start(mail, 'ada', { timeout: new Date() });
    void client.within({}).start(mail, 'ada', { timeout: '1h', gracePeriod: '1m' });
  });
});

it('an activity has a queue and a key, which may depend on the input of the call', () => {
  void (() => {
    const call = async (_ctx: unknown, input: { tenant: string }): Promise<number> => input.tenant.length;
    const callApi = defineActivity('callApi', call, {
      queue: 'api',
      key: (input) => {
        expectTypeOf(input).toEqualTypeOf<{ tenant: string }>();
        return input.tenant;
      },
    });
    expectTypeOf(ctx.call(callApi, { tenant: 'a' }, { key: 'b' })).toEqualTypeOf<Future<number>>();
    // The key is made of the input of the call, as it was before the schema.
    defineActivity('b', (_ctx, { tenant }) => tenant, {
      queue: 'api',
      input: schema,
      key: ({ tenant }) => {
        expectTypeOf(tenant).toBeString();
        return tenant;
      },
    });
    runtime.registerActivity('c', call, { queue: 'api', key: ({ tenant }) => tenant });
    runtime.registerActivity('d', call, { queue: 'api', key: 'all' });
    ctx.scheduleActivity('c', { tenant: 'a' }, { queue: 'api', key: 'b' });
    expectTypeOf<ActivityOptions['key']>().toEqualTypeOf<string | undefined>();
    const key: ActivityKey<{ tenant: string }> = ({ tenant }) => tenant;
    const options: ActivityOptions<ActivityKey<{ tenant: string }>> = { queue: 'api', key };
    defineActivity('e', call, options);
    // @ts-expect-error: the key of a call is a text
    ctx.call(callApi, { tenant: 'a' }, { key: ({ tenant }: { tenant: string }) => tenant });
    // @ts-expect-error: a key is a text
    defineActivity('f', call, { queue: 'api', key: 5 });
    // @ts-expect-error: a key is a text
    defineActivity('g', call, { queue: 'api', key: () => 5 });
    // @ts-expect-error: an inline activity has no queue, and no key
    ctx.run('h', () => 1, { key: 'a' });
  });
});

it('a runtime is started with queues', () => {
  expectTypeOf(runtime.start({ queues: { emails: { concurrency: 20 } } })).resolves.toEqualTypeOf<void>();
  void (() => {
    // @ts-expect-error: the limits are an object
    void runtime.start({ queues: ['emails'] });
  });
});

// Queues of instances as clients set, read and delete them, and starts in queues that there are not.

import {
  Client,
  defineOrchestration,
  InstanceNotFoundError,
  type QueueLimits,
  QueueNotFoundError,
  SqliteProvider,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually, rejection } from '../../support/async.ts';
import { ANY_STORE, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WITHIN_MS = 20_000;

const ALL: QueueLimits = {
  concurrency: 20,
  perWorker: 5,
  rate: { limit: 50, per: '1s' },
  perKey: { concurrency: 2, rate: { limit: 5, per: '10d' } },
  fairness: 'key',
};

const job = defineOrchestration('job', function* () {
  return 'done';
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const queues = () => store.client.queues;

  it('are set, read, replaced as a whole and deleted', async () => {
    const [second, first] = [store.id('b queue'), store.id('a queue')];
    expect(await queues().get(first)).toBe(undefined);
    await queues().set(second, {});
    await queues().set(first, ALL);
    const none = { waiting: 0, delayed: 0, running: 0 };
    const limits = {
      concurrency: 20,
      perWorker: 5,
      rate: { limit: 50, per: 1_000 },
      perKey: { concurrency: 2, rate: { limit: 5, per: 864_000_000 } },
      fairness: 'key',
    };
    expect(await queues().get(first)).toEqual({ name: first, limits, ...none, tokens: 50 });
    const listed = await queues().list();
    expect(listed).toEqual([
      { name: first, limits, ...none, tokens: 50 },
      { name: second, limits: {}, ...none },
    ]);
    // The limits that are read can be set again.
    await queues().set(second, listed[0]?.limits as QueueLimits);
    expect((await queues().get(second))?.limits).toEqual(limits);
    await queues().set(second, { perKey: { concurrency: 1 }, fairness: 'none' });
    expect((await queues().get(second))?.limits).toEqual({ perKey: { concurrency: 1 } });
    for (const name of [first, second]) await queues().delete(name);
    expect(await queues().list()).toEqual([]);
    const error = await rejection<QueueNotFoundError>(queues().delete(first));
    expect(error).toBeInstanceOf(QueueNotFoundError);
    expect(error).toMatchObject({ code: 'QUEUE_NOT_FOUND', queue: first });
    expect(error.message).toBe(`there is no queue '${first}'; set its limits first, with client.queues.set`);
  });

  it('refuse each start in one that there is not, and nothing is started', async () => {
    await store.start((runtime) => runtime.register(job));
    const { client } = store;
    const [queue, id] = ['mials', store.id()];
    const calls = [
      client.start(job, undefined, { id, queue }),
      client.startOrchestration(id, 'job', undefined, { queue, delay: '1h' }),
      client.raiseEvent(id, 'go', 1, { start: { definition: job, queue } }),
      client.enqueueEvent(id, 'jobs', 1, { start: { definition: job, queue } }),
      client.updateWithStart(id, 'add', 1, { start: { definition: job, queue } }),
    ];
    for (const error of await Promise.all(calls.map((call) => rejection(call)))) {
      expect(error).toBeInstanceOf(QueueNotFoundError);
      expect(error).toMatchObject({ queue, message: expect.stringContaining("there is no queue 'mials'") });
    }
    const outcomes = await client.startMany([
      { definition: job, id, queue },
      { definition: job, id: `${id} too` },
    ]);
    expect(outcomes[0]).toEqual({ id, error: expect.any(QueueNotFoundError) });
    expect(outcomes[1]).toEqual({ id: `${id} too` });
    expect(await client.getStatus(id)).toBe(null);
  });

  it('refuse the starts of an orchestration, which gets the name of the queue', async () => {
    const parent = defineOrchestration('parent', function* (ctx): Generator<any, unknown, any> {
      const found: unknown[] = [];
      const options = { queue: 'mials', key: 'ada' };
      const tries = [
        () => ctx.callOrchestration(job, undefined, options),
        () => ctx.startOrchestration('job', `${ctx.instanceId} other`, 1, options),
        () => ctx.raiseEvent(`${ctx.instanceId} third`, 'go', 1, { start: { definition: job, ...options } }),
      ];
      for (const start of tries) {
        try {
          yield* start();
        } catch (error) {
          const cause = ((error as Error).cause ?? error) as QueueNotFoundError;
          found.push([cause instanceof QueueNotFoundError, cause.queue, cause.message]);
        }
      }
      return found;
    });
    await store.start((runtime) => runtime.register(job, parent), { cachedInstancesMax: 0 });
    const handle = await store.client.start(parent);
    const error = [true, 'mials', "there is no queue 'mials'; set its limits first, with client.queues.set"];
    expect(await handle.result({ timeout: SOON })).toEqual([error, error, error]);
    for (const what of ['other', 'third'])
      await expect(store.client.cancelInstance(`${handle.id} ${what}`)).rejects.toThrow(InstanceNotFoundError);
  });

  it('are set by a runtime before it looks for work, each time that it starts', async () => {
    const name = store.id('declared');
    const runtime = store.runtime();
    runtime.register(job);
    await runtime.start({ queues: { [name]: { concurrency: 7 } } });
    expect((await queues().get(name))?.limits).toEqual({ concurrency: 7 });
    const handle = await store.client.start(job, undefined, { queue: name });
    expect(await handle.result({ timeout: SOON })).toBe('done');
    await queues().set(name, { concurrency: 1 });
    await runtime.shutdown();
    await runtime.start();
    expect((await queues().get(name))?.limits).toEqual({ concurrency: 1 });
    await runtime.shutdown();
    await runtime.start({ queues: { [name]: { concurrency: 9 } } });
    expect((await queues().get(name))?.limits).toEqual({ concurrency: 9 });
  });

  it('leave an id that is in use alone, whatever the queue', async () => {
    await store.start((runtime) => runtime.register(job));
    const [name, id] = [store.id('queue'), store.id()];
    await queues().set(name, { concurrency: 1 });
    await store.client.start(job, undefined, { id });
    await store.client.waitForOrchestration(id, SOON);
    await expect(store.client.start(job, undefined, { id, queue: name })).rejects.toMatchObject({
      code: 'INSTANCE_EXISTS',
    });
    await store.client.start(job, undefined, { id, queue: name, onConflict: 'return' });
    expect(await queues().get(name)).toMatchObject({ running: 0, waiting: 0 });
    await store.client.start(job, undefined, { id, queue: name, onConflict: 'restartIfTerminal' });
    expect(await store.client.handle(job, id).result({ timeout: SOON })).toBe('done');
    await eventually(WITHIN_MS, 'the slot is free', async () => (await queues().get(name))?.running === 0);
  });
});

describe('wrong limits', () => {
  const store = useStore(ANY_STORE);

  it.each([
    [undefined, 'client.queues.set: the limits are missing; {} is a queue without limits'],
    [{ concurrency: 0 }, 'concurrency must be a whole number from 1 to 1000000, got 0: a limit cannot stop a queue'],
    [{ concurrency: 1e9 }, 'concurrency must be a whole number from 1 to 1000000, got 1000000000: leave it out for no'],
    [{ concurrency: 1.5 }, 'concurrency must be a whole number'],
    [{ concurrency: '5' }, 'concurrency must be a whole number'],
    [{ perWorker: 0 }, 'perWorker must be a whole number'],
    [{ rate: 5 }, 'rate must be an object'],
    [{ rate: {} }, "rate must have limit and per, such as { limit: 50, per: '1s' }"],
    [{ rate: { limit: 5 } }, 'rate must have limit and per'],
    [{ rate: { limit: 0, per: '1s' } }, 'rate.limit must be a whole number'],
    [
      { rate: { limit: 0.1, per: '1d' } },
      'rate.limit must be a whole number from 1 to 1000000, got 0.1: ' +
        "for less than one in a span use a longer span, as { limit: 1, per: '10d' }",
    ],
    [{ concurrency: 0.5 }, 'concurrency must be a whole number from 1 to 1000000, got 0.5: leave it out for no limit'],
    [{ perKey: { rate: { limit: 0.5, per: '1s' } } }, 'got 0.5: for less than one in a span use a longer span'],
    [{ rate: { limit: 1_000_001, per: '1s' } }, 'rate.limit must be a whole number'],
    [{ rate: { limit: 5, per: 0 } }, "rate.per must be from '1ms' to '366d', got 0"],
    [{ rate: { limit: 5, per: '367d' } }, "rate.per must be from '1ms' to '366d'"],
    [{ rate: { limit: 5, per: '1 s' } }, 'rate.per must be a duration'],
    [{ perKey: { concurrency: 0 } }, 'perKey.concurrency must be a whole number'],
    [{ perKey: { rate: { limit: 5 } } }, 'perKey.rate must have limit and per'],
    [{ perKey: { concurency: 5 } }, 'perKey: unknown option `concurency`; did you mean `concurrency`?'],
    [{ fairness: 'keys' }, "fairness must be one of 'key', 'none', got 'keys'; did you mean 'key'?"],
    [{ keyConcurrency: 5 }, 'unknown option `keyConcurrency`'],
  ])('%j are refused', async (limits, message) => {
    const error = await rejection(store.client.queues.set('wrong', limits as QueueLimits));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain(message);
    expect(await store.client.queues.get('wrong')).toBe(undefined);
    const runtime = store.runtime();
    const refused = await rejection(runtime.start({ queues: { wrong: limits as QueueLimits } }));
    expect(refused).toBeInstanceOf(TypeError);
    expect(refused.message).toMatch(/^runtime\.start: queues/);
    // The start was refused before it began.
    await runtime.start();
  });

  it.each([
    ['', 'must not be empty'],
    ['x'.repeat(257), 'must have at most 256 characters, got 257'],
    [7, 'must be a string'],
    ['a\0', 'must not contain NUL'],
  ])('names such as %j are refused', async (name, message) => {
    const queues = store.client.queues;
    for (const call of [queues.set(name as string, {}), queues.get(name as string), queues.delete(name as string)])
      expect(await rejection(call)).toMatchObject({ name: 'TypeError', message: expect.stringContaining(message) });
  });

  it.each([
    [{ key: 'ada' }, "orchestration 'job': the option key needs the option queue"],
    [{ delay: 5, startAt: new Date() }, "orchestration 'job': takes one of the options delay and startAt, not both"],
    [{ queue: 'q', key: 'x'.repeat(1_000_000) }, 'key: the value must have at most 256 characters, got 1000000'],
    [{ queue: 'q', key: '' }, 'key: the value must not be empty'],
    [{ startAt: new Date(Number.NaN) }, 'startAt must be a time'],
    [{ delay: Number.POSITIVE_INFINITY }, 'delay must be a duration'],
    [{ timeout: 0 }, 'timeout must be at least 1 ms, got 0'],
    [{ gracePeriod: 1_000 }, "orchestration 'job': the option gracePeriod needs the option timeout"],
  ])('a start with %j is refused', async (options, message) => {
    const [{ client }, id] = [store, store.id()];
    const calls = [
      client.start(job, undefined, { id, ...options }),
      client.startOrchestration(id, 'job', undefined, options),
      client.raiseEvent(id, 'go', 1, { start: { definition: job, ...options } }),
    ];
    for (const call of calls)
      expect(await rejection(call)).toMatchObject({ name: 'TypeError', message: expect.stringContaining(message) });
    const many = await rejection(client.startMany([{ definition: job }, { definition: job, id, ...options } as never]));
    expect(many.message).toContain('client.startMany: [1]');
    expect(await client.getStatus(id)).toBe(null);
  });

  it('more queues than a store may have are refused', async () => {
    await using provider = await SqliteProvider.inMemory();
    const client = new Client(provider);
    for (let n = 0; n < 1_000; n += 1) await client.queues.set(`q${n}`, {});
    await expect(client.queues.set('one more', {})).rejects.toMatchObject({
      code: 'LIMIT',
      limit: 'queues',
      max: 1_000,
    });
    await client.queues.set('q0', { concurrency: 1 });
    expect(await client.queues.list()).toHaveLength(1_000);
  });
});

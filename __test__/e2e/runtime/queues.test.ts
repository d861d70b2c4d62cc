import {
  type ActivityContext,
  ActivityError,
  CancelledError,
  defineActivity,
  defineOrchestration,
  type Provider,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, deferred } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** A runtime that serves queue `gpu` with activity `render`. */
  const renderer = (render: (ctx: ActivityContext, input: any) => unknown, options = {}, provider?: Provider) =>
    store.start((runtime) => runtime.registerActivity('render', render), { queues: ['gpu'], ...options }, provider);

  const rendering = (options = {}) =>
    store.start(
      (runtime) =>
        runtime
          .registerActivity('here', async (ctx) => ctx.workerId)
          .registerOrchestration('picture', function* (ctx, input) {
            const there = yield ctx.scheduleActivity('render', input, { queue: 'gpu', retry: { initialInterval: 10 } });
            return [there, yield ctx.scheduleActivity('here')];
          }),
      options,
    );

  it.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('an activity runs where its queue is served, for instances that are %s', async (_, options) => {
    await rendering(options);
    const seen: unknown[] = [];
    await renderer(async (ctx, input) => {
      seen.push([ctx.instanceId, ctx.orchestrationName, ctx.activityName, ctx.attempt, ctx.idempotencyKey, input]);
      return ctx.workerId;
    });
    const id = store.id();
    await store.client.startOrchestration(id, 'picture', { width: 10 });
    const { output } = await store.client.waitForOrchestration<any>(id, SOON);
    expect(new Set(output).size).toBe(2);
    expect(seen).toEqual([
      [id, 'picture', 'render', 1, expect.stringMatching(new RegExp(`^${id}/[0-9a-f]{16}/1/2$`)), { width: 10 }],
    ]);
    expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
  });

  it("a runtime with queues 'any' serves every queue, also one that appears later", async () => {
    await store.start(
      (runtime) =>
        runtime.registerOrchestration('several', function* (ctx, queues: string[]) {
          return yield* ctx.all(queues.map((queue) => ctx.scheduleActivity<string>('render', queue, { queue })));
        }),
      { queues: [] },
    );
    const provider = kind.isShared ? await store.open() : store.provider;
    const helper = await renderer(async (_, input) => `${input} here`, { queues: 'any' }, provider);
    for (const queues of [['gpu', 'default', 'slow'], ['appears later']]) {
      const id = store.id();
      await store.client.startOrchestration(id, 'several', queues);
      const { output } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual(queues.map((queue) => `${queue} here`));
    }
    const registered = (await store.client.workers()).map(({ about }) => about?.registered);
    expect(registered).toContainEqual(expect.objectContaining({ queues: [], anyQueue: true }));
    expect(registered).toContainEqual(expect.objectContaining({ queues: [], anyQueue: false }));
    await helper.shutdown();
  });

  it('a queue without a worker waits until a worker serves it', async () => {
    await rendering();
    const id = store.id();
    await store.client.startOrchestration(id, 'picture');
    await store.settled();
    expect((await store.client.getStatus(id))?.status).toBe('Running');
    await renderer(async () => 'late');
    expect((await store.client.waitForOrchestration<any>(id, SOON)).output[0]).toBe('late');
  });

  it('its attempts are events, and its errors those of any activity', async () => {
    await rendering();
    await renderer(async (ctx) => {
      throw Object.assign(new RangeError(`attempt ${ctx.attempt}`), { code: 'E_FULL' });
    });
    const id = store.id();
    await store.client.startOrchestration(id, 'picture');
    const { status, error } = await store.client.waitForOrchestration(id, SOON);
    expect([status, error?.constructor]).toEqual(['Failed', ActivityError]);
    expect(error).toMatchObject({
      activityName: 'render',
      attempt: 3,
      cause: { message: 'attempt 3', code: 'E_FULL' },
    });
    expect(kinds(await store.client.getHistory(id)).filter((what) => what.startsWith('Activity'))).toEqual([
      'ActivityScheduled',
      'ActivityAttemptFailed',
      'ActivityAttemptFailed',
      'ActivityFailed',
    ]);
  });

  it.each(['cancelInstance', 'terminateInstance'] as const)('%s aborts it, wherever it runs', async (end) => {
    await rendering();
    const begun = deferred();
    const stopped = deferred<unknown>();
    await renderer(async (ctx) => {
      begun.resolve();
      await aborted(ctx.signal);
      stopped.resolve(ctx.signal.reason);
    });
    const id = store.id();
    await store.client.startOrchestration(id, 'picture');
    await begun.promise;
    await store.client[end](id);
    expect(await stopped.promise).toBeInstanceOf(CancelledError);
    expect((await store.client.waitForOrchestration(id, SOON)).status).toBe(
      end === 'cancelInstance' ? 'Cancelled' : 'Terminated',
    );
  });

  it('heartbeats reach its next attempt, and totalTimeout ends it', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('picture', function* (ctx, totalTimeout) {
        return yield ctx.scheduleActivity('render', null, {
          queue: 'gpu',
          totalTimeout,
          retry: { initialInterval: 1 },
        });
      }),
    );
    await renderer(async (ctx) => {
      if (ctx.lastHeartbeat !== undefined) return ctx.lastHeartbeat;
      ctx.heartbeat({ row: 7 });
      if (ctx.instanceId.startsWith('slow')) await aborted(ctx.signal);
      throw new Error('half way');
    });
    const [id, slow] = [store.id(), store.id('slow')];
    await store.client.startOrchestration(id, 'picture', '1h');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({ row: 7 });
    await store.client.startOrchestration(slow, 'picture', 50);
    const { error } = await store.client.waitForOrchestration(slow, SOON);
    expect(error?.cause).toMatchObject({ name: 'TimeoutError', timeoutMs: 50 });
  });

  it('the queue of a definition holds where it is called, and the call wins', async () => {
    const render = defineActivity('render', async (ctx, _: number) => ctx.workerId, { queue: 'gpu', priority: 3 });
    const picture = defineOrchestration('picture', function* (ctx) {
      return yield* ctx.all([ctx.call(render, 1), ctx.call(render, 2, { queue: 'cpu' })]);
    });
    await store.start((runtime) => runtime.register(picture), { queues: [] });
    await store.start((runtime) => runtime.register(render), { queues: ['gpu'] });
    await store.start((runtime) => runtime.register(render), { queues: ['cpu', 'other'] });
    const [gpu, cpu] = await (await store.client.start(picture)).result({ timeout: SOON });
    expect(gpu).not.toBe(cpu);
  });

  it('the highest priority goes first, in a queue and among those that wait for a slot', async () => {
    const order: number[] = [];
    const gate = deferred();
    const rank = async (_: ActivityContext, n: number): Promise<void> => {
      order.push(n);
      if (n === 0) await gate.promise;
    };
    for (const queue of ['default', 'gpu']) {
      const runtimes = [
        await store.start(
          (runtime) =>
            runtime.registerActivity('rank', rank).registerOrchestration('ranked', function* (ctx) {
              const first = ctx.scheduleActivity('rank', 0, { queue, priority: 9 });
              const rest = [1, 5, 3, 5, 2].map((priority) =>
                ctx.scheduleActivity('rank', priority, { queue, priority }),
              );
              ctx.setCustomStatus('scheduled');
              yield ctx.all([first, ...rest]);
            }),
          { activityConcurrency: 1 },
        ),
      ];
      const id = store.id();
      await store.client.startOrchestration(id, 'ranked');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      if (queue === 'gpu') {
        runtimes.push(
          await store.start((runtime) => runtime.registerActivity('rank', rank), {
            queues: ['gpu'],
            activityConcurrency: 1,
          }),
        );
      }
      gate.resolve();
      await store.client.waitForOrchestration(id, SOON);
      expect(order.splice(0)).toEqual([0, 5, 5, 3, 2, 1]);
      for (const runtime of runtimes) await runtime.shutdown();
    }
  });

  it('names of queues and priorities are checked', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('checks', function* (ctx) {
        expect(() => ctx.scheduleActivity('a', 1, { queue: '' })).toThrow(TypeError);
        expect(() => ctx.scheduleActivity('a', 1, { priority: 1.5 })).toThrow('priority');
        expect(() => ctx.run('a', () => 1, { queue: 'gpu' } as object)).toThrow('unknown option `queue`');
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'checks');
    expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
    expect(() => store.runtime({ queues: 'gpu' as never })).toThrow("queues must be a list of names, or 'any'");
    expect(() => store.runtime({ queues: ['gpu', ''] })).toThrow('queues[1]');
  });
});

describe.each(SHARED_STORES)('between two processes on $name', (kind) => {
  const store = useStore(kind);

  it('tasks and their results pass as between two runtimes of one, and so do aborts', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('picture', function* (ctx, n) {
        return yield ctx.scheduleActivity('render', n, { queue: 'gpu' });
      }),
    );
    const begun = deferred();
    const stopped = deferred();
    // A write of another handle looks like one of another process.
    await store.start(
      (runtime) =>
        runtime.registerActivity('render', async (ctx, n: number) => {
          if (n < 20) return n * n;
          begun.resolve();
          await aborted(ctx.signal);
          stopped.resolve();
        }),
      { queues: ['gpu'] },
      await store.open(),
    );
    const ids = Array.from({ length: 20 }, () => store.id());
    await Promise.all(ids.map((id, n) => store.client.startOrchestration(id, 'picture', n)));
    for (const [n, id] of ids.entries()) expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(n * n);
    const last = store.id();
    await store.client.startOrchestration(last, 'picture', 20);
    await begun.promise;
    await store.client.cancelInstance(last);
    await stopped.promise;
    expect((await store.client.waitForOrchestration(last, SOON)).status).toBe('Cancelled');
  });

  it('an activity runs on the other worker if only it has registered it, or if the owner is full', async () => {
    const near = new Set<string>();
    const both = deferred();
    const meet = async ({ workerId }: ActivityContext): Promise<number> => {
      near.add(workerId);
      if (near.size === 2) both.resolve();
      await both.promise;
      return 1;
    };
    // Started first, so that the owner finds it there.
    await store.start(
      (runtime) => runtime.registerActivity('far', (ctx) => ctx.workerId).registerActivity('near', meet),
      { activityConcurrency: 2 },
      await store.open(),
    );
    await store.start(
      (runtime) =>
        runtime.registerActivity('near', meet).registerOrchestration('shared', function* (ctx) {
          const all = Array.from({ length: 8 }, () => ctx.scheduleActivity('near'));
          const far: string = yield ctx.scheduleActivity('far');
          return { far, near: yield ctx.all(all) };
        }),
      { activityConcurrency: 2 },
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'shared');
    const { output } = await store.client.waitForOrchestration(id, SOON);
    expect(output).toEqual({ far: expect.any(String), near: Array.from({ length: 8 }, () => 1) });
    expect(near.size).toBe(2);
  });
});

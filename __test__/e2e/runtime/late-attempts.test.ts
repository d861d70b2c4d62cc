import {
  ActivityError,
  type Duration,
  defineActivity,
  defineOrchestration,
  type OrchestrationContext,
  type Runtime,
  TimeoutError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred, eventually } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const limits = { queue: 'gpu', scheduleToStartTimeout: 50 };

/** Registers an orchestration that calls `render` and returns its error. */
const picture =
  (options: object = limits) =>
  (runtime: Runtime) =>
    runtime.registerOrchestration('picture', function* (ctx: OrchestrationContext) {
      try {
        return yield ctx.scheduleActivity('render', 1, options);
      } catch (error) {
        const { cause } = error as ActivityError;
        const isTyped = error instanceof ActivityError && cause instanceof TimeoutError;
        return { isTyped, attempt: (error as ActivityError).attempt, message: (cause as TimeoutError).message };
      }
    });

const waited = (attempt: number, ms: number, queue = 'gpu') => ({
  isTyped: true,
  attempt,
  message:
    `attempt ${attempt} of activity 'render' waited in queue '${queue}' for longer than its ` +
    `scheduleToStartTimeout of ${ms} ms`,
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  const run = async () => {
    const id = store.id();
    await store.client.startOrchestration(id, 'picture');
    return { id, output: (await store.client.waitForOrchestration(id, SOON)).output };
  };

  it.each([
    ['kept', {}],
    ['evicted', { cachedInstancesMax: 0 }],
  ])('an activity in a queue that no runtime serves fails once, for an instance that is %s', async (_, options) => {
    await store.start(picture({ ...limits, retry: { maxAttempts: 9, retryOn: ['TimeoutError'] } }), options);
    const { id, output } = await run();
    expect(output).toEqual(waited(1, 50));
    const history = await store.client.getHistory(id);
    expect(kinds(history).filter((what) => what.startsWith('Activity'))).toEqual([
      'ActivityScheduled',
      'ActivityFailed',
    ]);
    expect(historyViolations(history, 'Completed')).toEqual([]);
  });

  it('totalTimeout ends the wait, too, and the earlier time counts', async () => {
    await store.start(picture({ queue: 'gpu', totalTimeout: 50, scheduleToStartTimeout: '1h' }));
    expect((await run()).output).toMatchObject({
      isTyped: true,
      message: "activity 'render' took longer, with all its attempts, than its totalTimeout of 50 ms",
    });
  });

  it('a wait in the line of a full queue ends, and the next in line gets the slot', async () => {
    const begun = deferred();
    const gate = deferred();
    const render = defineActivity(
      'render',
      async (_, input: string) => {
        if (input !== 'first') return input;
        begun.resolve();
        await gate.promise;
        return input;
      },
      { queue: 'line' },
    );
    const one = defineOrchestration('one', function* (ctx, { name, within }: { name: string; within: Duration }) {
      return yield* ctx.call(render, name, { scheduleToStartTimeout: within });
    });
    const runtime = store.runtime({ queues: ['line'] });
    runtime.register(render, one);
    await runtime.start({ queues: { line: { concurrency: 1 } } });
    const first = await store.client.start(one, { name: 'first', within: '1h' });
    await begun.promise;
    const late = await store.client.start(one, { name: 'late', within: '30ms' });
    const last = await store.client.start(one, { name: 'last', within: '1h' });
    const error = await late.result({ timeout: SOON }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ cause: { name: 'TimeoutError', timeoutMs: 30 } });
    expect(await store.client.queues.get('line')).toMatchObject({ waiting: 1, running: 1 });
    gate.resolve();
    expect(await last.result({ timeout: SOON })).toBe('last');
    expect(await first.result({ timeout: SOON })).toBe('first');
  });

  it('a wait for a place of a full process ends, in the default queue', async () => {
    const [begun, gate] = [deferred(), deferred()];
    await store.start(
      (runtime) => {
        picture({ scheduleToStartTimeout: 30 })(runtime);
        runtime
          .registerActivity('render', () => 1)
          .registerActivity('long', async () => {
            begun.resolve();
            await gate.promise;
          })
          .registerOrchestration('long', function* (ctx) {
            yield ctx.scheduleActivity('long');
          });
      },
      { activityConcurrency: 1 },
    );
    const long = store.id('long');
    await store.client.startOrchestration(long, 'long');
    await begun.promise;
    expect((await run()).output).toEqual(waited(1, 30, 'default'));
    gate.resolve();
    await store.client.waitForOrchestration(long, SOON);
  });

  it('an attempt that begins in time may run for longer', async () => {
    await store.start(picture({ ...limits, scheduleToStartTimeout: '10s' }));
    const slow = (): Promise<string> => new Promise((done) => setTimeout(() => done('done'), 100));
    await store.start((runtime) => runtime.registerActivity('render', slow), { queues: ['gpu'] });
    expect((await run()).output).toBe('done');
  });
});

describe.each(SHARED_STORES)('over restarts, on $name', (kind) => {
  const store = useStore(kind);

  it('the wait goes on while no runtime runs, and any other one ends it', async () => {
    const first = await store.start(picture());
    const id = store.id();
    await store.client.startOrchestration(id, 'picture');
    const isScheduled = async () => kinds(await store.client.getHistory(id)).includes('ActivityScheduled');
    await eventually(30_000, 'the activity is scheduled', isScheduled);
    await first.shutdown();
    await store.start(picture(), { queues: ['other'] });
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(waited(1, 50));
  });
});

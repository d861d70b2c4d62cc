import {
  type ActivityContext,
  ActivityError,
  activityContext,
  CancelledError,
  DeterminismError,
  type OrchestrationContext,
  PayloadError,
  type Runtime,
  TimeoutError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, Counter, deferred } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const quick = { initialInterval: 1, jitter: 0 };

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function ended(
    name: string,
    fn: (ctx: OrchestrationContext) => Generator<any, any, any>,
    register?: (runtime: Runtime) => void,
  ) {
    const runtime = await store.start((r) => {
      r.registerOrchestration(name, fn);
      register?.(r);
    });
    const id = store.id();
    await store.client.startOrchestration(id, name);
    const { status, output, error } = await store.client.waitForOrchestration<any>(id, SOON);
    const history = await store.client.getHistory(id);
    expect(historyViolations(history, status)).toEqual([]);
    return { id, runtime, status, output, error: error as any, history };
  }

  it('runs a closure once, and records its result', async () => {
    const calls: string[] = [];
    const { output, history } = await ended('records', function* (ctx) {
      const unit = 'apples';
      const count: number = yield* ctx.run('count', async () => calls.push(unit));
      const [a, b] = yield ctx.all([ctx.run('a', () => new Date(5)), ctx.run('b', async () => undefined)]);
      return [count, a, b];
    });
    expect(output).toEqual([1, new Date(5), undefined]);
    expect(calls).toEqual(['apples']);
    expect(kinds(history).filter((name) => name.startsWith('Activity'))).toHaveLength(6);
    expect(history.find(({ name }) => name === 'count')?.meta).toMatchObject({ inline: true });
  });

  it('gets the context of an activity', async () => {
    const seen: any[] = [];
    const { id, output } = await ended('contexts', function* (ctx) {
      return yield ctx.run(
        'context',
        async (activity) => {
          await null;
          seen.push(activityContext() === activity, activity.lastHeartbeat, activity.attempt, activity.signal.aborted);
          activity.heartbeat({ seen: activity.attempt });
          if (activity.attempt === 1) throw new Error('again');
          const { instanceId, activityName, orchestrationName, idempotencyKey, client } = activity;
          return [
            instanceId,
            activityName,
            orchestrationName,
            idempotencyKey,
            (await client.getStatus(instanceId))?.name,
          ];
        },
        { retry: quick },
      );
    });
    expect(output).toEqual([
      id,
      'context',
      'contexts',
      expect.stringMatching(new RegExp(`^${id}/[0-9a-f]{16}/1/2$`)),
      'contexts',
    ]);
    expect(seen).toEqual([true, undefined, 1, false, true, { seen: 1 }, 2, false]);
  });

  it('has the options of any activity, and those of none that is registered under its name', async () => {
    const attempts = { retried: 0, slow: 0, named: 0 };
    const { output } = await ended(
      'options',
      function* (ctx) {
        const errors: any[] = [];
        const run = function* (
          name: 'retried' | 'slow' | 'named',
          fn: (activity: ActivityContext) => unknown,
          options?: object,
        ) {
          try {
            yield* ctx.run(name, (activity) => ((attempts[name] += 1), fn(activity)), options);
          } catch (error) {
            errors.push(error);
          }
        };
        yield* run('retried', () => Promise.reject(new RangeError('no')), { retry: { ...quick, maxAttempts: 4 } });
        yield* run('slow', ({ signal }) => aborted(signal), { timeout: 20, retry: { maxAttempts: 1 } });
        yield* run('named', () => Promise.reject(new Error('no')), { retry: quick });
        return errors;
      },
      (r) => r.registerActivity('named', () => 'another', { retry: { maxAttempts: 1 } }),
    );
    expect(attempts).toEqual({ retried: 4, slow: 1, named: 3 });
    for (const error of output) expect(error).toBeInstanceOf(ActivityError);
    expect(output[0]).toMatchObject({ activityName: 'retried', attempt: 4, cause: expect.any(RangeError) });
    expect(output[1].cause).toBeInstanceOf(TimeoutError);
  });

  it('is outside of the orchestration: neither guarded nor able to use its context', async () => {
    const { output } = await ended('outside', function* (ctx) {
      const before = ctx.now();
      yield ctx.sleep(5);
      return yield ctx.run('outside', async () => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        const errors = [() => ctx.scheduleActivity('x'), () => ctx.run('x', () => 1), () => ctx.now()].map((call) => {
          try {
            return call();
          } catch (error) {
            return error;
          }
        });
        return [Date.now() > before, Math.random() !== Math.random(), errors];
      });
    });
    expect(output.slice(0, 2)).toEqual([true, true]);
    for (const error of output[2]) expect(error).toBeInstanceOf(DeterminismError);
    expect(output[2][0].message).toContain('ctx.scheduleActivity was called while its orchestration was not running');
  });

  it('is there for its next attempt, however few orchestrations are kept in memory', async () => {
    const attempts: number[] = [];
    const runtime = await store.start(
      (r) =>
        r.registerOrchestration('kept', function* (ctx, n: number) {
          const local = n * 10;
          yield ctx.sleep(1);
          return yield ctx.run(
            'kept',
            async ({ attempt }) => {
              attempts.push(attempt);
              if (attempt < 3) throw new Error('again');
              return local + attempt;
            },
            { retry: { initialInterval: 20 } },
          );
        }),
      { cachedInstancesMax: 0 },
    );
    const ids = Array.from({ length: 20 }, () => store.id('kept'));
    await Promise.all(ids.map((id, n) => store.client.startOrchestration(id, 'kept', n)));
    for (const [n, id] of ids.entries()) {
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(n * 10 + 3);
    }
    expect(attempts).toHaveLength(60);
    await runtime.shutdown();
  });

  it('is cancelled as any activity', async () => {
    const [begun, told] = [deferred(), deferred<unknown>()];
    const { output } = await ended('cancels', function* (ctx) {
      const slow = ctx.run('slow', async ({ signal }) => {
        begun.resolve();
        told.resolve(await aborted(signal));
        return 'too late';
      });
      yield ctx.run('begun', () => begun.promise);
      slow.cancel('enough');
      try {
        yield slow;
      } catch (error) {
        return [error, yield ctx.run('reason', () => told.promise)];
      }
    });
    expect(output).toEqual([expect.any(CancelledError), expect.any(CancelledError)]);
  });

  it('fails as any activity with a value that cannot be stored, and is aborted with its orchestration', async () => {
    const never = deferred();
    const told = deferred<unknown>();
    const { status, error } = await ended('unhappy', function* (ctx) {
      ctx.run('left', async ({ signal }) => {
        void aborted(signal).then(told.resolve);
        await never.promise;
      });
      yield ctx.run('unstorable', async () => () => 1);
    });
    expect(status).toBe('Failed');
    expect(error).toMatchObject({ name: 'ActivityError', attempt: 1, cause: expect.any(PayloadError) });
    expect(await told.promise).toBeInstanceOf(CancelledError);
    never.resolve();
  });

  it('refuses a value that is not a function', async () => {
    const { output } = await ended('refuses', function* (ctx) {
      const calls: [unknown, unknown, object?][] = [
        ['', () => 1],
        ['x', 5],
        ['x', function* () {}],
        ['x', async function* () {}],
        ['x', () => 1, { totalTimout: 5 }],
      ];
      return calls.map(([name, fn, options]) => {
        try {
          ctx.run(name as string, fn as () => void, options as object);
        } catch (error) {
          return `${(error as Error).name}: ${(error as Error).message}`;
        }
        return 'taken';
      });
    });
    expect(output).toEqual([
      'TypeError: the activity name must not be empty',
      "TypeError: inline activity 'x' must be a function, often an async one, got the number 5",
      expect.stringContaining('got a function*'),
      expect.stringContaining('got a function*'),
      expect.stringContaining('`totalTimeout`'),
    ]);
  });

  it('no longer fits the history of an activity that was registered, and says so', async () => {
    const runtime = await store.start((r) =>
      r
        .registerActivity('step', () => 1)
        .registerOrchestration('changed', function* (ctx) {
          yield ctx.scheduleActivity('step');
          yield ctx.waitForEvent('go');
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'changed');
    await store.settled();
    await runtime.shutdown();
    const suspended = deferred();
    await store.start((r) =>
      r
        .registerOrchestration('changed', function* (ctx) {
          yield ctx.run('step', () => 1);
          yield ctx.waitForEvent('go');
        })
        .on('instance', () => suspended.resolve()),
    );
    await store.client.raiseEvent(id, 'go', null);
    await suspended.promise;
    const { status, error } = (await store.client.getStatus(id)) ?? {};
    expect(status).toBe('Suspended');
    expect(String(error)).toContain("attempted: inline activity 'step' is scheduled");
    expect(store.errors.splice(0)).toHaveLength(1);
    await store.client.terminateInstance(id);
  });
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('runs after the replay in the next runtime of the instance', async () => {
    const ran: string[] = [];
    const begun = new Counter();
    const register = (where: string) => (runtime: Runtime) =>
      runtime.registerOrchestration('moves', function* (ctx) {
        const local: string = yield ctx.run('before', () => ran.push(`before in ${where}`) && where);
        return yield ctx.run('hold', async ({ signal }) => {
          ran.push(`hold of ${local} in ${where}`);
          begun.add();
          if (where === 'first') await aborted(signal);
          return where;
        });
      });
    const first = await store.start(register('first'));
    const id = store.id();
    await store.client.startOrchestration(id, 'moves');
    await begun.reaches(1);
    await first.shutdown(0);
    await store.start(register('second'), {}, await store.open());
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('second');
    expect(ran).toEqual(['before in first', 'hold of first in first', 'hold of first in second']);
  });

  it('waits for its next attempt over a restart', async () => {
    const attempts: string[] = [];
    const begun = new Counter();
    const register = (where: string) => (runtime: Runtime) =>
      runtime.registerOrchestration('waits', function* (ctx) {
        const flaky = ctx.run(
          'flaky',
          async ({ attempt }) => {
            attempts.push(`${attempt} in ${where}`);
            begun.add();
            if (attempt === 1) throw new Error('first');
            return attempt;
          },
          { retry: { initialInterval: '300ms', jitter: 0 } },
        );
        yield ctx.run('after', () => begun.reaches(1));
        ctx.setCustomStatus('waits');
        return yield flaky;
      });
    const first = await store.start(register('first'));
    const id = store.id();
    await store.client.startOrchestration(id, 'waits');
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    await first.shutdown();
    await store.start(register('second'), {}, await store.open());
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(2);
    expect(attempts).toEqual(['1 in first', '2 in second']);
  });
});

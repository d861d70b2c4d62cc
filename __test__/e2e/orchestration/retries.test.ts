import {
  type ActivityOptions,
  defineActivity,
  NonRetryableError,
  RetryAfterError,
  type RetryOptions,
  type Runtime,
  TimeoutError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, deferred, nextTick } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

class Teapot extends Error {
  override readonly name = 'Teapot';
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /**
   * Runs one activity under a policy, and checks that each failed attempt that was followed by another is recorded.
   * Returns the number of attempts, their keys, the delays between them, the outcome, and the id of the instance.
   */
  async function run(fails: (attempt: number) => unknown, registered?: ActivityOptions, called?: ActivityOptions) {
    const attempts: { attempt: number; at: number; key: string }[] = [];
    const runtime = await store.start((r) =>
      r
        .registerActivity(
          'flaky',
          async (ctx) => {
            attempts.push({ attempt: ctx.attempt, at: Date.now(), key: ctx.idempotencyKey });
            const error = fails(ctx.attempt);
            if (error !== undefined) throw error;
            return `attempt ${ctx.attempt}`;
          },
          registered,
        )
        .registerOrchestration('retries', function* (ctx) {
          return yield ctx.scheduleActivity('flaky', null, called);
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'retries');
    const { status, output, error } = await store.client.waitForOrchestration(id, SOON);
    await runtime.shutdown();
    const history = await store.client.getHistory(id);
    expect(historyViolations(history, status)).toEqual([]);
    expect(attempts.map(({ attempt }) => attempt)).toEqual(attempts.map((_, i) => i + 1));
    const failures = history.filter((event) => event.kind === 'ActivityAttemptFailed');
    expect(failures).toHaveLength(attempts.length - 1);
    const delays = attempts.slice(1).map(({ at }, i) => at - (attempts[i]?.at ?? 0));
    return { attempts: attempts.length, keys: attempts.map(({ key }) => key), delays, output, error: error as any, id };
  }

  const quick = { initialInterval: 1, jitter: 0 };

  it('tries again until it succeeds', async () => {
    const { attempts, output } = await run((n) => (n < 4 ? new Error(`no ${n}`) : undefined), {
      retry: { ...quick, maxAttempts: 5 },
    });
    expect([attempts, output]).toEqual([4, 'attempt 4']);
  });

  it('gives up after the attempts it has, three by default, with the last error', async () => {
    const three = await run((n) => new Error(`no ${n}`), { retry: quick });
    expect(three.attempts).toBe(3);
    expect(three.error).toMatchObject({ name: 'ActivityError', attempt: 3, cause: { message: 'no 3' } });
    const one = await run((n) => new Error(`no ${n}`), { retry: { maxAttempts: 1 } });
    expect([one.attempts, one.error.cause.message]).toEqual([1, 'no 1']);
  });

  it('waits longer each time, up to the maximum', async () => {
    const retry: RetryOptions = { maxAttempts: 5, initialInterval: 30, backoff: 2, maxInterval: '70ms', jitter: 0 };
    const { delays } = await run(() => new Error('no'), { retry });
    expect(delays).toHaveLength(4);
    for (const [i, least] of [30, 60, 70, 70].entries()) expect(delays[i]).toBeGreaterThanOrEqual(least);
  });

  it('adds the first delay each time if the backoff is linear', async () => {
    const retry: RetryOptions = { maxAttempts: 5, initialInterval: 20, backoff: 'linear', maxInterval: 50, jitter: 0 };
    const { id, delays } = await run(() => new Error('no'), { retry });
    for (const [i, least] of [20, 40, 50, 50].entries()) expect(delays[i]).toBeGreaterThanOrEqual(least);
    const history = await store.client.getHistory(id);
    const recorded = history.flatMap(({ kind: event, time, meta }) =>
      event === 'ActivityAttemptFailed' ? [meta.retryAtMs - Number(time)] : [],
    );
    expect(recorded).toEqual([20, 40, 50, 50]);
    const scheduled = history.find((event) => event.kind === 'ActivityScheduled');
    expect(scheduled?.meta).toMatchObject({ retry: { backoff: 'linear', initialIntervalMs: 20 } });
  });

  it('spreads the delays by jitter, within its share', async () => {
    const retry = { maxAttempts: 9, initialInterval: 20, backoff: 1, jitter: 0.5 };
    const { id, delays } = await run((n) => (n < 9 ? new Error('no') : undefined), { retry });
    for (const delay of delays) expect(delay).toBeGreaterThanOrEqual(10);
    const recorded = (await store.client.getHistory(id)).flatMap(({ kind: event, time, meta }) =>
      event === 'ActivityAttemptFailed' ? [meta.retryAtMs - Number(time)] : [],
    );
    expect(recorded).toHaveLength(8);
    for (const delay of recorded) {
      expect(delay).toBeGreaterThanOrEqual(10);
      expect(delay).toBeLessThanOrEqual(30);
    }
    expect(new Set(recorded).size).toBeGreaterThan(1);
  });

  it('has the same key in every attempt, and no other call has it', async () => {
    const first = await run((n) => (n < 3 ? new Error('no') : undefined), { retry: quick });
    const second = await run(() => undefined);
    expect(new Set(first.keys).size).toBe(1);
    expect(new Set([...first.keys, ...second.keys]).size).toBe(2);
    expect(first.keys[0]).toContain(first.id);
  });

  it('lets the call override the registration, option by option', async () => {
    const slow: ActivityOptions = { retry: { maxAttempts: 2, initialInterval: '1h', jitter: 0 } };
    const { attempts } = await run(() => new Error('no'), slow, { retry: { initialInterval: 1 } });
    expect(attempts, 'maxAttempts of the registration, delay of the call').toBe(2);
    expect((await run(() => new Error('no'), { retry: quick }, { retry: { maxAttempts: 1 } })).attempts).toBe(1);
  });

  it('does not try again after NonRetryableError', async () => {
    const { attempts, error } = await run(() => new NonRetryableError('useless', { cause: 404 }));
    expect(attempts).toBe(1);
    expect(error.cause).toBeInstanceOf(NonRetryableError);
    expect(error.cause).toMatchObject({ message: 'useless', cause: 404 });
    class Worse extends NonRetryableError {}
    expect((await run(() => new Worse('useless'))).attempts).toBe(1);
  });

  it('does not try again after errors whose names are listed', async () => {
    const retry = { ...quick, nonRetryable: ['Teapot', 'RangeError'] };
    expect((await run(() => new Teapot('short and stout'), { retry })).attempts).toBe(1);
    expect((await run((n) => (n === 1 ? new TypeError('again') : new RangeError('enough')), { retry })).attempts).toBe(
      2,
    );
  });

  it('waits as RetryAfterError says, in place of the policy', async () => {
    const retry: RetryOptions = { maxAttempts: 3, initialInterval: '1h', jitter: 0 };
    const { delays, output } = await run((n) => (n < 3 ? new RetryAfterError(n * 40) : undefined), { retry });
    expect(output).toBe('attempt 3');
    expect(delays[0]).toBeGreaterThanOrEqual(40);
    expect(delays[1]).toBeGreaterThanOrEqual(80);
    const last = await run(() => new RetryAfterError(1, 'slow down'), { retry });
    expect(last.error).toMatchObject({
      attempt: 3,
      cause: { name: 'RetryAfterError', message: 'slow down', retryAfterMs: 1 },
    });
  });

  it('refuses options that are wrong, where they are given', async () => {
    const wrong: [any, RegExp][] = [
      [{ retry: { maxAttemps: 2 } }, /`maxAttempts`/],
      [{ retry: { maxAttempts: 0 } }, /maxAttempts/],
      [{ retry: { initialInterval: '1 h' } }, /initialInterval/],
      [{ retry: { backoff: 0.5 } }, /backoff/],
      [{ retry: { jitter: 2 } }, /jitter/],
      [{ retry: { backoff: 'square' } }, /backoff/],
      [{ retry: { nonRetryable: 'Teapot' } }, /nonRetryable/],
      [{ retry: { retryOn: 'Teapot' } }, /retryOn/],
      [{ retry: { retryOn: [] } }, /retryOn/],
      [{ retry: 3 }, /retry/],
      [{ timout: '1s' }, /`timeout`/],
      [{ totalTimeout: 0 }, /totalTimeout/],
      [{ scheduleToStartTimeout: 0 }, /scheduleToStartTimeout/],
      [{ scheduleToStartTimeout: -1 }, /scheduleToStartTimeout/],
      [{ scheduleToStartTimeout: 'soon' }, /scheduleToStartTimeout/],
      [{ scheduleToStartTimeout: 8.64e15 + 2 }, /scheduleToStartTimeout/],
      [{ heartbeatTimeout: 'soon' }, /heartbeatTimeout/],
    ];
    const runtime = store.runtime();
    for (const [options, message] of wrong) {
      expect(() => defineActivity('x', () => {}, options)).toThrow(TypeError);
      expect(() => runtime.registerActivity('x', () => {}, options)).toThrow(message);
    }
    await store.start((r) =>
      r
        .registerActivity('x', () => {})
        .registerOrchestration('wrong options', function* (ctx) {
          return wrong.map(([options, message]) => {
            try {
              ctx.scheduleActivity('x', null, options);
            } catch (error) {
              return error instanceof TypeError && message.test(error.message);
            }
            return false;
          });
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'wrong options');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(wrong.map(() => true));
  });

  describe('the total timeout', () => {
    it('ends the attempt that runs then, which is the last', async () => {
      const reasons: unknown[] = [];
      let begin = 0;
      await store.start((r) =>
        r
          .registerActivity(
            'slow',
            async (ctx) => {
              begin ||= performance.now();
              if (ctx.attempt === 1) throw new Error('first');
              reasons.push(await aborted(ctx.signal), performance.now() - begin);
            },
            { totalTimeout: '150ms', timeout: '1h', retry: quick },
          )
          .registerOrchestration('total', function* (ctx) {
            return yield ctx.scheduleActivity('slow');
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'total');
      const { error } = await store.client.waitForOrchestration(id, SOON);
      const message = "activity 'slow' took longer, with all its attempts, than its totalTimeout of 150 ms";
      expect(error).toMatchObject({
        name: 'ActivityError',
        attempt: 2,
        cause: { name: 'TimeoutError', message, timeoutMs: 150 },
      });
      expect(reasons).toEqual([expect.any(TimeoutError), expect.any(Number)]);
      expect(reasons[1]).toBeLessThan(10_000);
    });

    it('prevents attempts after it, despite the policy or the error', async () => {
      const slow: ActivityOptions = {
        retry: { initialInterval: '1h', maxInterval: '1h', jitter: 0, maxAttempts: 9 },
        totalTimeout: '30m',
      };
      const policy = await run((n) => new Error(`no ${n}`), slow);
      expect([policy.attempts, policy.error.cause.message]).toEqual([1, 'no 1']);
      const error = await run((n) => new RetryAfterError(n === 1 ? 0 : '31m', `no ${n}`), slow);
      expect([error.attempts, error.error.cause.message]).toEqual([2, 'no 2']);
    });

    it('prefers the option of the call to the registration', async () => {
      const slow = { retry: { initialInterval: 1, jitter: 0 }, totalTimeout: 1 };
      expect((await run(() => new Error('no'), slow, { totalTimeout: '1h' })).attempts).toBe(3);
    });
  });

  describe('the timeout of an attempt', () => {
    it('aborts the attempt, counts as a failure, and is tried again', async () => {
      const reasons: unknown[] = [];
      await store.start((r) =>
        r
          .registerActivity(
            'slow',
            async (ctx) => {
              if (ctx.attempt === 3) return 'in time';
              reasons.push(await aborted(ctx.signal));
              return 'too late';
            },
            { timeout: '30ms', retry: quick },
          )
          .registerOrchestration('timeouts', function* (ctx) {
            return yield ctx.scheduleActivity('slow');
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'timeouts');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('in time');
      expect(reasons).toHaveLength(2);
      for (const reason of reasons) expect(reason).toBeInstanceOf(TimeoutError);
      expect(kinds(await store.client.getHistory(id)).filter((k) => k === 'ActivityAttemptFailed')).toHaveLength(2);
    });

    it('fails an activity that ignores its signal, and drops its later result', async () => {
      const late = deferred();
      await store.start((r) =>
        r
          .registerActivity(
            'deaf',
            async () => {
              await late.promise;
              return 'too late';
            },
            { timeout: 20, retry: { maxAttempts: 1 } },
          )
          .registerOrchestration('times out', function* (ctx) {
            try {
              yield ctx.scheduleActivity('deaf');
            } catch (error) {
              ctx.setCustomStatus('timed out');
              return [yield ctx.waitForEvent('go'), (error as Error).cause];
            }
            return 'not thrown';
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'times out');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      late.resolve();
      await nextTick();
      await store.client.raiseEvent(id, 'go', 'went on');
      const { output } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual(['went on', expect.any(TimeoutError)]);
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('frees the slot of an activity that does not listen', async () => {
      const never = deferred();
      await store.start(
        (r) =>
          r
            .registerActivity('stuck', () => never.promise, { timeout: 20, retry: { maxAttempts: 1 } })
            .registerActivity('next', () => 'ran')
            .registerOrchestration('slot', function* (ctx) {
              const stuck = ctx.scheduleActivity('stuck');
              const next = ctx.scheduleActivity('next');
              const [first] = yield ctx.allSettled([stuck]);
              return [first.status, yield next];
            }),
        { activityConcurrency: 1 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'slot');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['rejected', 'ran']);
      never.resolve();
    });
  });
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('a wait for the next attempt survives a restart of the runtime, and its attempts are counted on', async () => {
    const attempts: { attempt: number; at: number; in: string }[] = [];
    const thrown = deferred();
    const register = (where: string) => (runtime: Runtime) =>
      runtime
        .registerActivity(
          'flaky',
          async (ctx) => {
            attempts.push({ attempt: ctx.attempt, at: Date.now(), in: where });
            if (ctx.attempt > 1) return ctx.attempt;
            // By the time this settles, the failure of this attempt has been handed over.
            setImmediate(thrown.resolve);
            throw new Error('first');
          },
          { retry: { initialInterval: '400ms', jitter: 0 } },
        )
        .registerActivity('after the failure', () => thrown.promise)
        .registerOrchestration('survives', function* (ctx) {
          const flaky = ctx.scheduleActivity('flaky');
          yield ctx.scheduleActivity('after the failure');
          ctx.setCustomStatus('waits for its second attempt');
          return yield flaky;
        });
    const first = await store.start(register('first'));
    const id = store.id();
    await store.client.startOrchestration(id, 'survives');
    // Events are recorded in the order in which they came, so the failure is stored by now.
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    await first.shutdown();
    const failed = (await store.client.getHistory(id)).find((event) => event.kind === 'ActivityAttemptFailed');
    expect(failed).toBeDefined();
    await store.start(register('second'), {}, await store.open());
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output: 2 });
    expect(attempts).toMatchObject([
      { attempt: 1, in: 'first' },
      { attempt: 2, in: 'second' },
    ]);
    // The times of events are the store's. The runtimes measure its clock once each, to a few milliseconds.
    expect(attempts[1]?.at).toBeGreaterThanOrEqual(Number(failed?.time) + 400 - 10);
  });
});

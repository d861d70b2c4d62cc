// Children with a retry policy: each attempt is an instance of its own.

import {
  defineOrchestration,
  InstanceExistsError,
  NonRetryableError,
  type OrchestrationContext,
  RetryAfterError,
  type RetryOptions,
  type Runtime,
  SubOrchestrationError,
} from 'perdure';
import { crashEverywhere } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { aborted, eventually } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const QUICK: RetryOptions = { initialInterval: 1, jitter: 0 };

const attemptOf = (id: string): number => Number(id.split('~')[1] ?? 1);

/** Fails until its attempt has this number. */
const flaky = defineOrchestration('flaky', function* (ctx, good: number) {
  const attempt = attemptOf(ctx.instanceId);
  yield* ctx.sleep(1);
  if (attempt < good) throw new RangeError(`no ${attempt}`);
  return `attempt ${attempt}`;
});

/** Calls `flaky` with the policy, under the id of the parent and `-child`. */
const asks = defineOrchestration('asks', function* (ctx, [good, retry]: [number, RetryOptions]) {
  return yield* ctx.callOrchestration(flaky, good, { id: `${ctx.instanceId}-child`, retry });
});

function* rejected(future: Generator<any, unknown, any> | Iterable<any>): Generator<any, any, any> {
  try {
    yield* future as Generator<any, unknown, any>;
  } catch (error) {
    return error;
  }
  throw new Error('it has not failed');
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function run(name: string, input?: unknown) {
    const id = store.id();
    await store.client.startOrchestration(id, name, input);
    const { status, output, error } = await store.client.waitForOrchestration<any>(id, SOON);
    const history = await store.client.getHistory(id);
    expect(historyViolations(history, status)).toEqual([]);
    const children = history.flatMap((event) => (event.kind === 'ChildScheduled' ? [event.meta.id as string] : []));
    return { id, status, output, error: error as any, children, history };
  }

  describe.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('instances that are %s', (_, options) => {
    it('a failed child is started again until one completes', async () => {
      await store.start((r) => r.register(asks, flaky), options);
      const { id, output, children, history } = await run('asks', [3, { initialInterval: 20, backoff: 'linear' }]);
      expect(output).toBe('attempt 3');
      expect(children).toEqual([`${id}-child`, `${id}-child~2`, `${id}-child~3`]);
      expect(kinds(history).slice(1, -1)).toEqual([
        ...['ChildScheduled', 'ChildFailed', 'TimerCreated', 'TimerFired'],
        ...['ChildScheduled', 'ChildFailed', 'TimerCreated', 'TimerFired'],
        ...['ChildScheduled', 'ChildCompleted'],
      ]);
      const statuses = await Promise.all(children.map((child) => store.client.getStatus(child)));
      expect(statuses).toMatchObject(['Failed', 'Failed', 'Completed'].map((status) => ({ status, parentId: id })));
    });

    it('the last error is thrown when no attempt is left', async () => {
      await store.start((r) => r.register(asks, flaky), options);
      const { id, error, children } = await run('asks', [9, { ...QUICK, maxAttempts: 2 }]);
      expect(children).toHaveLength(2);
      expect(error).toBeInstanceOf(SubOrchestrationError);
      expect(error).toMatchObject({
        instanceId: `${id}-child~2`,
        orchestrationName: 'flaky',
        cause: { message: 'no 2' },
      });
      expect((await run('asks', [9, QUICK])).children, 'three by default').toHaveLength(3);
      expect((await run('asks', [9, { maxAttempts: 1 }])).children).toHaveLength(1);
    });

    it('the attempts of a child without an id have the id of the first one', async () => {
      await store.start(
        (r) =>
          r.register(flaky).registerOrchestration('many', function* (ctx) {
            const retry = { ...QUICK, jitter: 0.5 };
            return yield* ctx.all([1, 2].map((good) => ctx.scheduleSubOrchestration('flaky', good, { retry })));
          }),
        options,
      );
      const { id, output, children } = await run('many');
      expect(output).toEqual(['attempt 1', 'attempt 2']);
      const [first, second, third] = children;
      expect(first).toMatch(new RegExp(`^${id}/[0-9a-f-]{36}$`));
      expect([third, children.length]).toEqual([`${second}~2`, 3]);
      expect(second).not.toBe(first);
    });

    it('the error of the child, and of its failed step, decides if there is another attempt', async () => {
      const errors: Record<string, unknown> = {
        code: Object.assign(new TypeError('no'), { code: 'E_MANY' }),
        final: new NonRetryableError('no'),
        later: new RetryAfterError(5),
      };
      await store.start(
        (r) =>
          r
            .registerActivity('throws', (_ctx, what: string) => {
              throw errors[what];
            })
            .registerOrchestration('throws', (_ctx: OrchestrationContext, what: string) => {
              throw errors[what];
            })
            .registerOrchestration('step', function* (ctx, what: string) {
              yield ctx.scheduleActivity('throws', what, { retry: { maxAttempts: 1 } });
            })
            .registerOrchestration('parent', function* (ctx, [name, what, retry]: [string, string, RetryOptions]) {
              yield ctx.scheduleSubOrchestration(name, what, { retry: { ...QUICK, maxAttempts: 2, ...retry } });
            }),
        options,
      );
      const cases: [what: string, retry: RetryOptions, attempts: number][] = [
        ['code', {}, 2],
        ['code', { nonRetryable: ['E_MANY'] }, 1],
        ['code', { nonRetryable: ['TypeError'] }, 1],
        ['code', { retryOn: ['E_MANY'] }, 2],
        ['code', { retryOn: ['TypeError'], nonRetryable: ['E_MANY'] }, 1],
        ['code', { retryOn: ['E_FEW'] }, 1],
        ['final', {}, 1],
        ['later', { initialInterval: '1h' }, 2],
      ];
      for (const name of ['throws', 'step']) {
        for (const [what, retry, attempts] of cases) {
          const { children } = await run('parent', [name, what, retry]);
          expect([name, what, retry, children.length]).toEqual([name, what, retry, attempts]);
        }
      }
      const byWrapper = await run('parent', ['step', 'code', { retryOn: ['ActivityError'] }]);
      expect(byWrapper.children).toHaveLength(2);
    });

    it('a child that was cancelled, terminated or not started is not retried', async () => {
      await store.start(
        (r) =>
          r
            .registerOrchestration('hangs', function* (ctx) {
              ctx.setCustomStatus('hangs');
              yield ctx.waitForEvent('never');
            })
            .registerOrchestration('parent', function* (ctx, id: string) {
              return yield* rejected(ctx.scheduleSubOrchestration('hangs', undefined, { id, retry: QUICK }));
            }),
        options,
      );
      const outcomes: unknown[] = [];
      for (const end of ['cancelInstance', 'terminateInstance'] as const) {
        const [id, child] = [store.id(), store.id('child')];
        await store.client.startOrchestration(id, 'parent', child);
        await eventually(20_000, 'the child', async () => (await store.client.getStatus(child)) !== null);
        await store.client[end](child, 'by hand');
        const { output } = await store.client.waitForOrchestration<any>(id, SOON);
        expect(kinds(await store.client.getHistory(id)).filter((k) => k === 'ChildScheduled')).toHaveLength(1);
        outcomes.push([output.name, output.cause.name]);
        const again = await run('parent', child);
        expect(again.children).toEqual([child]);
        expect(again.output.cause).toBeInstanceOf(InstanceExistsError);
      }
      expect(outcomes).toEqual([
        ['SubOrchestrationError', 'CancelledError'],
        ['SubOrchestrationError', 'CancelledError'],
      ]);
    });

    it('a cancelled parent, a lost race and a cancelled future cancel the attempt that runs', async () => {
      await store.start(
        (r) =>
          r
            .registerActivity('hold', (ctx) => aborted(ctx.signal))
            .registerOrchestration('second hangs', function* (ctx) {
              if (attemptOf(ctx.instanceId) === 1) throw new Error('first');
              ctx.setCustomStatus('hangs');
              yield ctx.scheduleActivity('hold');
            })
            .registerOrchestration('parent', function* (ctx, how: string) {
              const child = ctx.scheduleSubOrchestration('second hangs', null, {
                id: `${ctx.instanceId}-c`,
                retry: QUICK,
              });
              if (how === 'parent') return yield child;
              if (how === 'race')
                return (yield* ctx.race([child, ctx.waitForEvent('go')], { cancelLosers: true })).index;
              if (how === 'select') {
                const first = yield* ctx.select({ child, go: ctx.waitForEvent('go') }, { cancelLosers: true });
                return first.tag;
              }
              yield ctx.waitForEvent('go');
              child.cancel('no longer needed');
              return (yield* rejected(child)).name;
            }),
        options,
      );
      const outputs: unknown[] = [];
      for (const how of ['parent', 'race', 'select', 'future']) {
        const id = store.id();
        await store.client.startOrchestration(id, 'parent', how);
        const signal = AbortSignal.timeout(20_000);
        await eventually(20_000, 'attempt 2', async () => (await store.client.getStatus(`${id}-c~2`)) !== null);
        for await (const { customStatus } of store.client.statusChanges(`${id}-c~2`, { signal }))
          if (customStatus === 'hangs') break;
        if (how === 'parent') await store.client.cancelInstance(id);
        else await store.client.raiseEvent(id, 'go');
        const { status, output } = await store.client.waitForOrchestration(id, SOON);
        expect((await store.client.waitForOrchestration(`${id}-c~2`, SOON)).status).toBe('Cancelled');
        expect(await store.client.getStatus(`${id}-c~3`)).toBeNull();
        outputs.push([status, output]);
      }
      expect(outputs).toEqual([
        ['Cancelled', undefined],
        ['Completed', 1],
        ['Completed', 'go'],
        ['Completed', 'CancelledError'],
      ]);
    });

    it('a cancellation between two attempts ends the retries', async () => {
      await store.start((r) => r.register(asks, flaky), options);
      const id = store.id();
      await store.client.startOrchestration(id, 'asks', [9, { initialInterval: '1h', jitter: 0 }]);
      await eventually(20_000, 'the delay', async () =>
        kinds(await store.client.getHistory(id)).includes('TimerCreated'),
      );
      await store.client.cancelInstance(id);
      expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
      expect(await store.client.getStatus(`${id}-child~2`)).toBeNull();
    });

    it('a child that is cancelled before the code waits never exists', async () => {
      await store.start(
        (r) =>
          r.register(flaky).registerOrchestration('parent', function* (ctx) {
            const child = ctx.callOrchestration(flaky, 1, { id: `${ctx.instanceId}-child`, retry: QUICK });
            child.cancel();
            return (yield* rejected(child)).name;
          }),
        options,
      );
      const { id, output, children } = await run('parent');
      expect([output, children]).toEqual(['CancelledError', []]);
      expect(await store.client.getStatus(`${id}-child`)).toBeNull();
    });
  });

  it('each attempt has the input of the call, its tags and its priority', async () => {
    await store.start((r) =>
      r
        .registerOrchestration('told', function* (ctx, input: number[]) {
          if (attemptOf(ctx.instanceId) === 1) throw new Error('first');
          return input;
        })
        .registerOrchestration('parent', function* (ctx) {
          const input = [1];
          const tags = { team: 'a' };
          const child = ctx.scheduleSubOrchestration('told', input, {
            id: `${ctx.instanceId}-c`,
            tags,
            priority: 3,
            retry: QUICK,
          });
          input.push(2);
          return yield child;
        }),
    );
    const { output, children } = await run('parent');
    expect(output).toEqual([1]);
    for (const id of children)
      expect(await store.client.getStatus(id)).toMatchObject({ tags: { team: 'a' }, priority: 3 });
  });

  it('a description of the parent shows the attempt that runs', async () => {
    await store.start((r) =>
      r
        .registerOrchestration('hangs', function* (ctx) {
          if (attemptOf(ctx.instanceId) === 1) throw new Error('first');
          yield ctx.waitForEvent('go');
        })
        .registerOrchestration('parent', function* (ctx) {
          yield ctx.scheduleSubOrchestration('hangs', null, { id: `${ctx.instanceId}-c`, retry: QUICK });
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'parent');
    await eventually(20_000, 'attempt 2', async () => (await store.client.getStatus(`${id}-c~2`)) !== null);
    const described = await store.client.describe(id);
    expect(described?.children).toMatchObject([{ instanceId: `${id}-c~2`, name: 'hangs' }]);
    expect(JSON.stringify(described)).toContain("attempt 2 of child 'hangs'");
    await store.client.raiseEvent(`${id}-c~2`, 'go');
    expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
  });

  it('refuses options that are wrong, where they are given', async () => {
    const wrong: [any, RegExp][] = [
      [{ retry: 3 }, /^orchestration 'flaky': retry must be an object, got 3/],
      [{ retry: { maxAttemps: 2 } }, /^orchestration 'flaky': retry: unknown option `maxAttemps`/],
      [{ retry: { maxAttempts: 0 } }, /^orchestration 'flaky': retry\.maxAttempts must be/],
      [{ retry: { backoff: 'square' } }, /^orchestration 'flaky': retry\.backoff must be a number >= 1 or 'linear'/],
      [{ retry: { retryOn: [] } }, /^orchestration 'flaky': retry\.retryOn must name at least one error/],
      [
        { id: 'x'.repeat(255), retry: {} },
        /^orchestration 'flaky': id must have at most 254 characters, got 255: .* '~3'/,
      ],
    ];
    await store.start((r) =>
      r.register(flaky).registerOrchestration('wrong', function* (ctx) {
        return wrong.map(([options, message]) => {
          for (const call of [
            () => ctx.callOrchestration(flaky, 1, options),
            () => ctx.scheduleSubOrchestration('flaky', 1, options),
          ]) {
            try {
              call();
              return 'accepted';
            } catch (error) {
              if (!(error instanceof TypeError && message.test(error.message))) return String(error);
            }
          }
          return true;
        });
      }),
    );
    expect((await run('wrong')).output).toEqual(wrong.map(() => true));
  });
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('the delay between two attempts survives a restart of the runtime', async () => {
    const register = (runtime: Runtime) => runtime.register(asks, flaky);
    const first = await store.start(register);
    const id = store.id();
    await store.client.startOrchestration(id, 'asks', [2, { initialInterval: '400ms', jitter: 0 }]);
    await eventually(20_000, 'the delay', async () =>
      kinds(await store.client.getHistory(id)).includes('TimerCreated'),
    );
    await first.shutdown();
    await store.start(register, {}, await store.open());
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ output: 'attempt 2' });
    const history = await store.client.getHistory(id);
    const timeOf = (event: string) => Number(history.find((one) => one.kind === event)?.time);
    expect(timeOf('TimerFired') - timeOf('ChildFailed')).toBeGreaterThanOrEqual(390);
    expect(kinds(history).filter((one) => one === 'ChildScheduled')).toHaveLength(2);
  });
});

it('a crash at any event changes neither the attempts nor the result', async () => {
  const { result, crashes } = await crashEverywhere(async (test) => {
    test.register(asks, flaky);
    const handle = await test.start(asks, [3, {}], { id: 'asks' });
    const output = await handle.result();
    const all: string[] = [];
    for await (const { id, status } of test.client.listInstances()) all.push(`${id} ${status}`);
    return [output, all.sort()];
  });
  expect(result).toEqual([
    'attempt 3',
    ['asks Completed', 'asks-child Failed', 'asks-child~2 Failed', 'asks-child~3 Completed'],
  ]);
  expect(crashes).toBeGreaterThan(10);
});

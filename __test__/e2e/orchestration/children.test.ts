import {
  CancelledError,
  defineOrchestration,
  InstanceExistsError,
  InstanceNotFoundError,
  type OrchestrationContext,
  RuntimeStateError,
  SubOrchestrationError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, deferred } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('instances that are %s', (_, options) => {
    it('a parent gets the results of its children in any order', async () => {
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('square', async (_ctx, n: number) => n * n)
            .registerOrchestration('square', function* (ctx, n: number) {
              if (n % 2 === 0) yield ctx.sleep(5);
              return { from: ctx.parentId, square: yield ctx.scheduleActivity('square', n) };
            })
            .registerOrchestration('sum', function* (ctx, count: number) {
              const numbers = Array.from({ length: count }, (_unused, n) => n);
              const results = yield* ctx.all(
                numbers.map((n) => ctx.scheduleSubOrchestration<{ from: string; square: number }>('square', n)),
              );
              expect(new Set(results.map(({ from }) => from))).toEqual(new Set([ctx.instanceId]));
              return results.map(({ square }) => square);
            }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'sum', 20);
      const status = await store.client.waitForOrchestration(id, SOON);
      expect(status.output).toEqual(Array.from({ length: 20 }, (_unused, n) => n * n));
      const history = await store.client.getHistory(id);
      expect(historyViolations(history, 'Completed')).toEqual([]);
      const children = history.filter((event) => event.kind === 'ChildScheduled');
      for (const { meta } of children) {
        expect(meta.id).toMatch(new RegExp(`^${id}/[0-9a-f-]{36}$`));
        const child = await store.client.getStatus(meta.id);
        expect(child).toMatchObject({ status: 'Completed', parentId: id, version: '1.0.0' });
        expect(historyViolations(await store.client.getHistory(meta.id), 'Completed')).toEqual([]);
      }
    });

    it('a child without a result, or with an id in use, is a SubOrchestrationError', async () => {
      await store.start(
        (runtime) =>
          runtime
            .registerOrchestration('bad', function* () {
              throw Object.assign(new RangeError('too many'), { code: 'E_MANY', limit: 3 });
            })
            .registerOrchestration('hang', function* (ctx) {
              yield ctx.waitForEvent('never');
            })
            .registerOrchestration('parent', function* (ctx, [name, id]: [string, string]) {
              try {
                return yield ctx.scheduleSubOrchestration(name, undefined, { id });
              } catch (error) {
                return error;
              }
            }),
        options,
      );
      const run = async (name: string, childId: string, act: () => Promise<void>): Promise<SubOrchestrationError> => {
        const id = store.id();
        await store.client.startOrchestration(id, 'parent', [name, childId]);
        await act();
        const { output } = await store.client.waitForOrchestration(id, SOON);
        expect(output).toBeInstanceOf(SubOrchestrationError);
        expect(output).toMatchObject({ orchestrationName: name, instanceId: childId });
        return output as SubOrchestrationError;
      };
      const [bad, cancelled, terminated] = [store.id('child'), store.id('child'), store.id('child')];
      const failed = await run('bad', bad, async () => {});
      expect(failed.cause).toBeInstanceOf(RangeError);
      expect(failed.cause).toMatchObject({ message: 'too many', code: 'E_MANY', limit: 3 });
      expect(
        (await run('hang', cancelled, () => store.client.cancelInstance(cancelled, 'enough'))).cause,
      ).toBeInstanceOf(CancelledError);
      const { cause } = await run('hang', terminated, () => store.client.terminateInstance(terminated, 'now'));
      expect(cause).toMatchObject({ name: 'CancelledError', message: 'cancelled: terminated: now' });
      expect((await run('hang', bad, async () => {})).cause).toBeInstanceOf(InstanceExistsError);
    });

    it('cancelling a parent, its future, or ending it cancels the child, whose cleanup runs', async () => {
      const events: string[] = [];
      const begun = [deferred(), deferred(), deferred()];
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('hold', async (ctx, n: number) => {
              // Recorded in the listener, not after an `await`: the time at which the signal was raised counts.
              ctx.signal.addEventListener('abort', () =>
                events.push(`aborted ${n}: ${(ctx.signal.reason as Error).name}`),
              );
              begun[n]?.resolve();
              await aborted(ctx.signal);
            })
            .registerActivity('clean', async (_ctx, n: number) => {
              events.push(`cleaned ${n}`);
            })
            .registerActivity('begun', (_ctx, n: number) => begun[n]?.promise)
            .registerOrchestration('held', function* (ctx, n: number) {
              try {
                yield ctx.scheduleActivity('hold', n);
              } finally {
                yield ctx.scheduleActivity('clean', n);
              }
            })
            .registerOrchestration('parent', function* (ctx, n: number) {
              const child = ctx.scheduleSubOrchestration('held', n, { id: `${ctx.instanceId}-child` });
              if (n === 0) return yield child;
              yield ctx.scheduleActivity('begun', n);
              if (n === 1) {
                child.cancel('no longer needed');
                return yield ctx.allSettled([child]);
              }
              return 'not waited for';
            }),
        options,
      );
      const statuses = ['Cancelled', 'Completed', 'Completed'];
      for (const [n, status] of statuses.entries()) {
        const id = store.id();
        await store.client.startOrchestration(id, 'parent', n);
        await begun[n]?.promise;
        if (n === 0) await store.client.cancelInstance(id);
        expect((await store.client.waitForOrchestration(id, SOON)).status).toBe(status);
        expect((await store.client.waitForOrchestration(`${id}-child`, SOON)).status).toBe('Cancelled');
        expect(events.splice(0)).toEqual([`aborted ${n}: CancelledError`, `cleaned ${n}`]);
      }
    });

    it('detached instances go their own way, and messages reach others once and in order', async () => {
      await store.start(
        (runtime) =>
          runtime
            .registerOrchestration('collect', function* (ctx) {
              const { from } = yield ctx.waitForEvent('begin');
              const messages: unknown[] = [from];
              for (;;) {
                const message = yield ctx.dequeueEvent('numbers');
                if (message === 'end') return messages;
                messages.push(message);
              }
            })
            .registerOrchestration('send', function* (ctx, to: string) {
              const id = yield* ctx.startOrchestration('collect', to, undefined, {
                tags: { kind: 'sink' },
                version: '1.0.0',
              });
              yield ctx.raiseEvent(id, 'begin', { from: ctx.instanceId });
              for (let n = 0; n < 50; n += 1) ctx.enqueueEvent(id, 'numbers', n);
              yield ctx.enqueueEvent(id, 'numbers', 'end');
              return id;
            }),
        options,
      );
      const [id, sink] = [store.id(), store.id('sink')];
      await store.client.startOrchestration(id, 'send', sink);
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ output: sink });
      const status = await store.client.waitForOrchestration(sink, SOON);
      expect(status).toMatchObject({
        output: [id, ...Array.from({ length: 50 }, (_unused, n) => n)],
        tags: { kind: 'sink' },
      });
      expect(status.parentId).toBeUndefined();
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('a message that cannot reach another instance is a typed error without other effects', async () => {
      await store.start(
        (runtime) =>
          runtime.registerOrchestration('try', function* (ctx, [ended, absent]: [string, string]) {
            const sent = [
              ctx.startOrchestration('try', ended),
              ctx.raiseEvent(absent, 'go'),
              ctx.enqueueEvent(ended, 'jobs'),
              ctx.raiseEvent(ctx.instanceId, 'self', 'hello'),
            ];
            const results = yield* ctx.allSettled(sent);
            return [
              ...results.map((r) => (r.status === 'rejected' ? r.reason : r.status)),
              yield ctx.waitForEvent('self'),
            ];
          }),
        options,
      );
      const [ended, id] = [store.id('ended'), store.id()];
      await store.client.startOrchestration(ended, 'absent everywhere');
      await store.client.terminateInstance(ended);
      await store.client.startOrchestration(id, 'try', [ended, store.id('absent')]);
      const { output } = await store.client.waitForOrchestration<any>(id, SOON);
      expect(output[0]).toBeInstanceOf(InstanceExistsError);
      expect(output[1]).toBeInstanceOf(InstanceNotFoundError);
      expect(output[2]).toBeInstanceOf(RuntimeStateError);
      expect(output.slice(3)).toEqual(['fulfilled', 'hello']);
    });
  });

  it('a definition types its child, and its version is the one that runs', async () => {
    const double = defineOrchestration(
      'double',
      function* (ctx, n: number) {
        return { doubled: 2 * n, version: ctx.version };
      },
      { version: '1.5.0' },
    );
    const newer = defineOrchestration(
      'double',
      function* (ctx, n: number) {
        return { doubled: -n, version: ctx.version };
      },
      { version: '2.0.0' },
    );
    const parent = defineOrchestration('parent', function* (ctx) {
      const one = yield* ctx.callOrchestration(double, 21);
      const { version } = yield ctx.scheduleSubOrchestration('double', 1);
      return [one.doubled, one.version, version];
    });
    await store.start((runtime) => runtime.register(newer, double, parent));
    const handle = await store.client.start(parent);
    expect(await handle.result({ timeout: SOON })).toEqual([42, '1.5.0', '2.0.0']);
  });

  it('a child may continue as new, and its parent too; each result comes to the execution that waits', async () => {
    await store.start((runtime) =>
      runtime
        .registerOrchestration('count', function* (ctx, n: number) {
          if (n < 3) yield ctx.continueAsNew(n + 1);
          return `${ctx.parentId} ${ctx.executionId}`;
        })
        .registerOrchestration('parent', function* (ctx, seen: string[]) {
          ctx.scheduleSubOrchestration('count', 1, { id: `${ctx.instanceId}-left-${ctx.executionId}` });
          const all = [...seen, yield ctx.scheduleSubOrchestration('count', 1)];
          if (all.length === 3) return all;
          yield ctx.continueAsNew(all);
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'parent', []);
    const { output } = await store.client.waitForOrchestration(id, SOON);
    expect(output).toEqual([`${id} 3`, `${id} 3`, `${id} 3`]);
  });

  it('children go 1 000 deep', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('deep', function* (ctx: OrchestrationContext, depth: number): Generator<
        any,
        number,
        any
      > {
        if (depth === 0) return 0;
        return 1 + (yield ctx.scheduleSubOrchestration('deep', depth - 1));
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'deep', 1_000);
    // Two commits for each of the children, one after the other, take a while on a busy server.
    expect(await store.client.waitForOrchestration(id, '1m')).toMatchObject({ status: 'Completed', output: 1_000 });
  }, 90_000);

  it('children go 10 000 wide', async () => {
    await store.start((runtime) =>
      runtime
        .registerOrchestration('leaf', function* (_, n: number) {
          return n;
        })
        .registerOrchestration('wide', function* (ctx, width: number) {
          const numbers = yield* ctx.all(
            Array.from({ length: width }, (_unused, n) => ctx.scheduleSubOrchestration<number>('leaf', n)),
          );
          return numbers.reduce((sum, n) => sum + n, 0);
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'wide', 10_000);
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
      status: 'Completed',
      output: 49_995_000,
    });
    expect(kinds(await store.client.getHistory(id)).filter((what) => what === 'ChildCompleted')).toHaveLength(10_000);
  });

  it('a cancellation goes down a chain of children and comes up again as errors', async () => {
    const begun = deferred();
    const cleaned: number[] = [];
    await store.start((runtime) =>
      runtime
        .registerActivity('hold', async (ctx) => {
          begun.resolve();
          await aborted(ctx.signal);
        })
        .registerActivity('clean', async (_, depth: number) => {
          cleaned.push(depth);
        })
        .registerOrchestration('chain', function* (ctx, depth: number) {
          try {
            yield depth === 0 ? ctx.scheduleActivity('hold') : ctx.scheduleSubOrchestration('chain', depth - 1);
          } finally {
            yield ctx.scheduleActivity('clean', depth);
          }
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'chain', 20);
    await begun.promise;
    await store.client.cancelInstance(id);
    const status = await store.client.waitForOrchestration(id, SOON);
    expect(status.status).toBe('Cancelled');
    for (let at: string | undefined = id; at !== undefined; ) {
      const history = await store.client.getHistory(at);
      at = history.find((event) => event.kind === 'ChildScheduled')?.meta.id;
      if (at !== undefined) expect((await store.client.waitForOrchestration(at, SOON)).status).toBe('Cancelled');
    }
    expect(cleaned.sort((a, b) => a - b)).toEqual(Array.from({ length: 21 }, (_unused, n) => n));
  });

  it('terminating a parent cancels its children', async () => {
    await store.start((runtime) =>
      runtime
        .registerOrchestration('hang', function* (ctx) {
          yield ctx.waitForEvent('never');
        })
        .registerOrchestration('parent', function* (ctx) {
          ctx.setCustomStatus('started');
          yield ctx.scheduleSubOrchestration('hang', undefined, { id: `${ctx.instanceId}-child` });
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'parent');
    await store.client.waitForStatusChange(id, 0);
    await store.client.terminateInstance(id, 'now');
    expect((await store.client.waitForOrchestration(`${id}-child`, SOON)).status).toBe('Cancelled');
  });

  it('a child that is suspended keeps its parent waiting until it is resumed', async () => {
    const first = await store.start((runtime) =>
      runtime
        .registerOrchestration('child', function* (ctx) {
          yield ctx.sleep('1h');
        })
        .registerOrchestration('parent', function* (ctx) {
          return yield ctx.scheduleSubOrchestration('child', undefined, { id: `${ctx.instanceId}-child` });
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'parent');
    await store.settled();
    await first.shutdown();
    await store.start((runtime) =>
      runtime
        .registerOrchestration('child', function* (ctx) {
          return yield ctx.waitForEvent('go');
        })
        .registerOrchestration('parent', function* (ctx) {
          return yield ctx.scheduleSubOrchestration('child', undefined, { id: `${ctx.instanceId}-child` });
        }),
    );
    await store.client.raiseEvent(`${id}-child`, 'go', 'gone');
    await store.suspended(`${id}-child`);
    expect((await store.client.getStatus(id))?.status).toBe('Running');
    expect(store.errors.splice(0)).toHaveLength(1);
    await store.client.terminateInstance(`${id}-child`, 'for good');
    const status = await store.client.waitForOrchestration(id, SOON);
    expect(status.error).toBeInstanceOf(SubOrchestrationError);
  });
});

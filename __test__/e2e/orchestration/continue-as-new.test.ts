import { InstanceNotFoundError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('an eternal orchestration goes through 1 000 executions, and each can be read', async () => {
    await store.start((runtime) =>
      runtime
        .registerActivity('double', async (_, n: number) => 2 * n)
        .registerOrchestration('eternal', function* (ctx, { round, sum }: { round: number; sum: number }) {
          expect([ctx.executionId, ctx.historyLength]).toEqual([round, 1]);
          const doubled = yield ctx.scheduleActivity('double', round);
          expect(ctx.historyLength).toBe(3);
          if (round === 1_000) return sum + doubled;
          yield ctx.continueAsNew({ round: round + 1, sum: sum + doubled });
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'eternal', { round: 1, sum: 0 });
    const status = await store.client.waitForOrchestration(id, SOON);
    expect(status).toMatchObject({ status: 'Completed', output: 1_001_000, executionId: 1_000 });
    for (const execution of [1, 2, 500, 999]) {
      const history = await store.client.getHistory(id, execution);
      expect(kinds(history)).toEqual([
        'ExecutionStarted',
        'ActivityScheduled',
        'ActivityCompleted',
        'ExecutionContinuedAsNew',
      ]);
      expect(historyViolations(history, 'ContinuedAsNew')).toEqual([]);
      expect(history.at(-1)).toMatchObject({ payload: { round: execution + 1 }, meta: { version: '1.0.0' } });
    }
    const last = await store.client.getHistory(id);
    expect(historyViolations(last, 'Completed')).toEqual([]);
    expect(await store.client.getHistory(id, 1_000)).toEqual(last);
  });

  it('a history can be asked for only of an execution that was', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('twice', function* (ctx) {
        if (ctx.executionId === 1) yield ctx.continueAsNew();
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'twice');
    await store.client.waitForOrchestration(id, SOON);
    const error = await store.client.getHistory(id, 3).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InstanceNotFoundError);
    expect(error).toMatchObject({ instanceId: id, message: `instance '${id}' has no execution 3, its last one is 2` });
    for (const wrong of [0, -1, 1.5, '1'])
      await expect(store.client.getHistory(id, wrong as number)).rejects.toThrow(TypeError);
  });

  describe.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('instances that are %s', (_, options) => {
    it('unread messages and the custom status are kept; each message is read once, in order', async () => {
      await store.start(
        (runtime) =>
          runtime.registerOrchestration('drain', function* (ctx, read: number[]) {
            expect(ctx.getCustomStatus()).toEqual(read.length === 0 ? undefined : { read: read.length });
            const all = [...read, yield ctx.dequeueEvent('numbers')];
            all.push(yield ctx.dequeueEvent('numbers'));
            ctx.setCustomStatus({ read: all.length });
            if (all.length === 40) return all;
            yield ctx.continueAsNew(all);
          }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'drain', []);
      const numbers = Array.from({ length: 40 }, (_unused, n) => n);
      await Promise.all(numbers.map((n) => store.client.enqueueEvent(id, 'numbers', n)));
      const status = await store.client.waitForOrchestration(id, SOON);
      expect(status).toMatchObject({ status: 'Completed', output: numbers, executionId: 20 });
      expect(status).toMatchObject({ customStatus: { read: 40 }, customStatusVersion: 20 });
    });

    it('each execution has its own time, random numbers and activities, and aborts open work', async () => {
      const aborted: string[] = [];
      const all = deferred();
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('echo', async (_ctx, value: unknown) => value)
            .registerActivity('hang', async (ctx) => {
              await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
              if (aborted.push(`${ctx.executionId} ${(ctx.signal.reason as Error).name}`) === 3) all.resolve();
            })
            .registerOrchestration('own', function* (ctx, before: unknown[]) {
              ctx.scheduleActivity('hang');
              const now = [
                ctx.random(),
                ctx.randomUUID(),
                yield ctx.scheduleActivity('echo', ctx.executionId),
                ctx.random(),
              ];
              if (before.length === 2) return [...before, now];
              yield ctx.continueAsNew([...before, now]);
            }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'own', []);
      const { output } = (await store.client.waitForOrchestration(id, SOON)) as { output: unknown[][] };
      expect(output.map((execution) => execution[2])).toEqual([1, 2, 3]);
      expect(new Set(output.flatMap(([a, b, , c]) => [a, b, c])).size).toBe(9);
      await all.promise;
      expect(aborted).toEqual(['1 CancelledError', '2 CancelledError', '3 CancelledError']);
    });
  });

  it('the next execution can run another version, here or elsewhere', async () => {
    const register = (version: string) => (runtime: Parameters<Parameters<typeof store.start>[0]>[0]) =>
      runtime.registerOrchestration(
        'grow',
        function* (ctx, path: string[]) {
          const walked = [...path, ctx.version];
          if (ctx.version === '1.0.0') yield ctx.continueAsNew(walked, { version: '2.0.0' });
          return walked;
        },
        { version },
      );
    await store.start(register('1.0.0'));
    const id = store.id();
    await store.client.startOrchestration(id, 'grow', []);
    await store.settled();
    const second = await store.start(register('2.0.0'));
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
      output: ['1.0.0', '2.0.0'],
      version: '2.0.0',
      executionId: 2,
    });
    await second.shutdown();
  });

  it('a cancellation ends the instance in any execution', async () => {
    await store.start((runtime) =>
      runtime
        .registerActivity('cancel', async (ctx) => {
          await ctx.client.cancelInstance(ctx.instanceId, 'enough');
        })
        .registerOrchestration('stubborn', function* (ctx) {
          if (ctx.executionId === 1) {
            yield ctx.uncancellable(function* () {
              yield ctx.scheduleActivity('cancel');
            });
            return ctx.continueAsNew();
          }
          yield ctx.waitForEvent('never');
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'stubborn');
    expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
  });

  it('it can be terminated in any execution, and says of long histories that it is time', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('long', function* (ctx) {
        const suggestions: unknown[] = [];
        for (let i = 0; i < 10_001; i += 1) {
          if (ctx.continueAsNewSuggested) suggestions.push(ctx.historyLength);
          ctx.sleep('1h');
        }
        ctx.setCustomStatus(suggestions);
        yield ctx.waitForEvent('never');
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'long');
    await store.client.waitForStatusChange(id, 0);
    expect((await store.client.getStatus(id))?.customStatus).toEqual([10_000, 10_001]);
    await store.client.terminateInstance(id);
    expect((await store.client.getStatus(id))?.status).toBe('Terminated');
  });
});

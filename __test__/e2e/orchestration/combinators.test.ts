import { describe, expect, it } from 'vitest';

import { Counter, deferred } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('parallel work', () => {
    it('begins when it is scheduled, before the first yield', async () => {
      const gates = { a: deferred(), b: deferred() };
      await store.start((runtime) =>
        runtime
          // Each ends only when the other has begun.
          .registerActivity('meet', async (_, [mine, other]: ['a' | 'b', 'a' | 'b']) => {
            gates[mine].resolve();
            await gates[other].promise;
            return mine;
          })
          .registerOrchestration('meeting', function* (ctx) {
            const a = ctx.scheduleActivity('meet', ['a', 'b']);
            const b = ctx.scheduleActivity('meet', ['b', 'a']);
            return [yield a, yield b];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'meeting');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['a', 'b']);
      expect(kinds(await store.client.getHistory(id)).slice(0, 3)).toEqual([
        'ExecutionStarted',
        'ActivityScheduled',
        'ActivityScheduled',
      ]);
    });

    it('is awaited by all over many branches, in their order', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('square', async (_, n: number) => n * n)
          .registerOrchestration('squares', function* (ctx, n: number) {
            return yield ctx.all(Array.from({ length: n }, (_, i) => ctx.scheduleActivity('square', i)));
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'squares', 300);
      const { output } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual(Array.from({ length: 300 }, (_, i) => i * i));
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('is scheduled without a limit by activityConcurrency, which limits only running activities', async () => {
      let running = 0;
      let most = 0;
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('slow', async () => {
              running += 1;
              most = Math.max(most, running);
              await new Promise((resolve) => setImmediate(resolve));
              running -= 1;
            })
            .registerOrchestration('wide', function* (ctx) {
              yield ctx.all(Array.from({ length: 40 }, () => ctx.scheduleActivity('slow')));
            }),
        { activityConcurrency: 3 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'wide');
      expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
      expect(most).toBe(3);
    });

    it('ends all with the first failure, and the other branches continue', async () => {
      const [failed, late] = [deferred(), deferred()];
      await store.start((runtime) =>
        runtime
          .registerActivity(
            'fails',
            () => {
              throw new Error('no');
            },
            { retry: { maxAttempts: 1 } },
          )
          .registerActivity('late', async (ctx) => {
            await failed.promise;
            late.resolve();
            return ctx.signal.aborted;
          })
          .registerOrchestration('all fails', function* (ctx) {
            const branches = [ctx.scheduleActivity('late'), ctx.scheduleActivity('fails')];
            let message = 'nothing';
            try {
              yield ctx.all(branches);
            } catch (error) {
              message = (error as Error).message;
            }
            ctx.setCustomStatus(message);
            return [message, yield branches[0]!];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'all fails');
      const change = await store.client.waitForStatusChange(id, 0, undefined, SOON);
      expect(change?.customStatus).toBe("activity 'fails' failed at its first attempt: no");
      failed.resolve();
      await late.promise;
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([change?.customStatus, false]);
    });

    it('is won in race by the branch that settles first, of many', async () => {
      const gate = deferred<number>();
      const begun = new Counter();
      await store.start((runtime) =>
        runtime
          .registerActivity('contender', async (ctx, n: number) => {
            begun.add();
            if ((await gate.promise) !== n)
              await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
            return `value ${n}`;
          })
          .registerOrchestration('race of 60', function* (ctx) {
            const branches = Array.from({ length: 60 }, (_, i) => ctx.scheduleActivity('contender', i));
            return yield ctx.race(branches);
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'race of 60');
      await begun.reaches(60);
      gate.resolve(41);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({ index: 41, value: 'value 41' });
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('throws from race when the first to settle failed, and any takes the next', async () => {
      const gate = deferred();
      await store.start((runtime) =>
        runtime
          .registerActivity(
            'fails',
            () => {
              throw new TypeError('first');
            },
            { retry: { maxAttempts: 1 } },
          )
          .registerActivity('gated', async () => {
            await gate.promise;
            return 'second';
          })
          .registerOrchestration('race fails', function* (ctx) {
            const branches = [ctx.scheduleActivity('gated'), ctx.scheduleActivity('fails')];
            let message = '';
            try {
              yield ctx.race(branches);
            } catch (error) {
              message = (error as Error).message;
            }
            ctx.setCustomStatus('failed');
            return [message, yield ctx.any(branches), yield ctx.allSettled(branches)];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'race fails');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      gate.resolve();
      const [message, value, settled] = (await store.client.waitForOrchestration<any>(id, SOON)).output;
      expect(message).toBe("activity 'fails' failed at its first attempt: first");
      expect(value).toBe('second');
      expect(settled).toEqual([
        { status: 'fulfilled', value: 'second' },
        { status: 'rejected', reason: expect.objectContaining({ name: 'ActivityError' }) },
      ]);
    });

    it('is cancelled where a race says so, and told by its signal', async () => {
      const [begun, told] = [deferred(), deferred<unknown>()];
      await store.start((runtime) =>
        runtime
          .registerActivity('loser', async (ctx) => {
            begun.resolve();
            ctx.signal.addEventListener('abort', () => told.resolve(ctx.signal.reason));
            await told.promise;
          })
          .registerOrchestration('cancel losers', function* (ctx) {
            const loser = ctx.scheduleActivity('loser');
            const first = yield ctx.race(loser, ctx.waitForEvent('go'), { cancelLosers: true });
            let error: unknown;
            try {
              yield loser;
            } catch (caught) {
              error = caught;
            }
            return [first, error];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'cancel losers');
      await begun.promise;
      await store.client.raiseEvent(id, 'go', 1);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        { index: 1, value: 1 },
        expect.objectContaining({ name: 'CancelledError' }),
      ]);
      expect(await told.promise).toMatchObject({ name: 'CancelledError', code: 'CANCELLED' });
      expect(kinds(await store.client.getHistory(id))).toContain('OperationCancelled');
    });

    it('nests: combinators in combinators, and blocks of several steps as branches', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('add', (_, [a, b]: [number, number]) => a + b)
          .registerOrchestration('nested', function* (ctx) {
            const block = function* (n: number) {
              let sum = n;
              for (let i = 0; i < 5; i += 1) sum = yield* ctx.scheduleActivity<number>('add', [sum, i]);
              return sum;
            };
            const never = ctx.waitForEvent('never');
            return yield ctx.all([
              block(100),
              ctx.race(never, ctx.all([block(200), ctx.scheduleActivity('add', [1, 1])])),
              ctx.spawn(() => block(300)),
              ctx.select({ never, block: block(400) }),
            ]);
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'nested');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        110,
        { index: 1, value: [210, 2] },
        310,
        { tag: 'block', value: 410 },
      ]);
    });
  });
});

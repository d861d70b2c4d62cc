import type { IsoTime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { query } from '../../support/rows.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('a timer', () => {
    it('wins a race when nothing else comes, and never early', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('expires', function* (ctx) {
          const before = ctx.now();
          const answer = yield ctx.race(ctx.waitForEvent('approve'), ctx.scheduleTimer('80ms'));
          return { answer, waited: ctx.now() - before };
        }),
      );
      const id = store.id();
      const before = Date.now();
      await store.client.startOrchestration(id, 'expires');
      const { output } = await store.client.waitForOrchestration<any>(id, SOON);
      expect(Date.now() - before).toBeGreaterThanOrEqual(80);
      expect(output.answer).toEqual({ index: 1, value: undefined });
      expect(output.waited).toBeGreaterThanOrEqual(80);
      const history = await store.client.getHistory(id);
      expect(kinds(history)).toEqual(['ExecutionStarted', 'TimerCreated', 'TimerFired', 'ExecutionCompleted']);
      const [, created, fired] = history;
      expect(Number(fired?.time)).toBeGreaterThanOrEqual(Number(created?.time) + 80);
    });

    it('takes a Date, ISO text, a past time and zero', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('times', function* (ctx) {
          const start = ctx.now();
          const times: number[] = [];
          const text = new Date(start + 60).toISOString() as IsoTime;
          for (const due of [new Date(start + 40), text, new Date(0), 0, '0ms'] as const) {
            yield ctx.sleep(due);
            times.push(ctx.now() - start);
          }
          return times;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'times');
      const [date, iso] = (await store.client.waitForOrchestration<any>(id, SOON)).output;
      expect(date).toBeGreaterThanOrEqual(40);
      expect(iso).toBeGreaterThanOrEqual(60);
    });

    it('fires in the order of the times, with any order of the calls', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('order of timers', function* (ctx) {
          const order: number[] = [];
          const sleeper = function* (ms: number) {
            yield ctx.scheduleTimer(ms);
            order.push(ms);
          };
          yield ctx.all([90, 30, 60, 1].map(sleeper));
          return order;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'order of timers');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([1, 30, 60, 90]);
    });

    it('is not reported while it is not awaited, and is due when it is awaited', async () => {
      await store.start((runtime) =>
        runtime
          .registerOrchestration('unawaited', function* (ctx) {
            const timer = ctx.scheduleTimer(5);
            yield ctx.waitForEvent('go');
            ctx.setCustomStatus('the timer is long due');
            yield ctx.waitForEvent('go');
            yield timer;
            return 'both';
          })
          .registerOrchestration('clock', function* (ctx) {
            yield ctx.scheduleTimer(60);
          }),
      );
      const [id, clock] = [store.id(), store.id()];
      await store.client.startOrchestration(id, 'unawaited');
      await store.client.startOrchestration(clock, 'clock');
      await store.client.waitForOrchestration(clock, SOON);
      await store.client.raiseEvent(id, 'go');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      expect(kinds(await store.client.getHistory(id))).not.toContain('TimerFired');
      await store.client.raiseEvent(id, 'go');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('both');
      expect(kinds(await store.client.getHistory(id)).slice(-3)).toEqual([
        'EventReceived',
        'TimerFired',
        'ExecutionCompleted',
      ]);
    });
  });

  describe('a timer that lost a race', () => {
    it.each([false, true])(
      'leaves nothing but its creation, and wakes nothing (cancelLosers: %s)',
      async (cancelLosers) => {
        const runtime = await store.start((runtime) =>
          runtime.registerOrchestration('races', function* (ctx) {
            yield* ctx.select({ go: ctx.waitForEvent('go'), late: ctx.sleep('1h') }, { cancelLosers });
            ctx.setCustomStatus('went');
            return yield* ctx.waitForEvent('end');
          }),
        );
        runtime.registerOrchestration('sleeps', function* (ctx) {
          ctx.setCustomStatus('sleeps');
          yield* ctx.sleep('1h');
        });
        const [id, sleeper] = [store.id(), store.id('sleeper')];
        await store.client.startOrchestration(sleeper, 'sleeps');
        await store.client.waitForStatusChange(sleeper, 0, undefined, SOON);
        await store.client.startOrchestration(id, 'races');
        await store.client.raiseEvent(id, 'go');
        await store.client.waitForStatusChange(id, 0, undefined, SOON);
        await runtime.shutdown();
        expect(kinds(await store.client.getHistory(id))).toEqual(['ExecutionStarted', 'TimerCreated', 'EventReceived']);
        // The store has one due time for each instance, that of the first timer which its code waits for.
        if (store.address.kind !== 'postgres') return;
        const isDue = (name: string) =>
          query(store.address, `SELECT wake_at IS NOT NULL AS due FROM instances WHERE id = '${name}'`);
        expect([isDue(id), isDue(sleeper)]).toEqual([[{ due: false }], [{ due: true }]]);
      },
    );

    it('leaves nothing but its creation when withTimeout is in time', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('quick', () => 1)
          .registerOrchestration('in time', function* (ctx) {
            return yield* ctx.withTimeout('1h', ctx.scheduleActivity('quick'));
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'in time');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(1);
      expect(kinds(await store.client.getHistory(id))).toEqual([
        'ExecutionStarted',
        'ActivityScheduled',
        'TimerCreated',
        'ActivityCompleted',
        'ExecutionCompleted',
      ]);
    });
  });
});

import { describe, expect, it } from 'vitest';

import { kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
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
      const { output } = await store.client.waitForOrchestration(id, SOON);
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
          for (const due of [new Date(start + 40), new Date(start + 60).toISOString(), new Date(0), 0, '0ms']) {
            yield ctx.sleep(due);
            times.push(ctx.now() - start);
          }
          return times;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'times');
      const [date, iso] = (await store.client.waitForOrchestration(id, SOON)).output;
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
});

// The memory of a runtime: generators in the cache, and nothing of instances that sleep or have ended.

import type { Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { keyedMapSizes, runtimeSizes } from '../../../dist/runtime/internal.js';
import { aborted, Counter, deferred, nextTick } from '../../support/async.ts';
import { historyViolations } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const NOTHING_IN_MEMORY = { native: { instances: 0, turns: 0, activities: 0 }, instances: 0, activities: 0 };

/**
 * Resolves when the lane has no job left. Some work, such as dropping generators, is done by jobs, which run with the
 * event loop.
 */
async function drained(runtime: Runtime): Promise<void> {
  do await nextTick();
  while (runtime.metrics().queuedJobs > 0);
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('memory', () => {
    it('holds no more generators than cachedInstancesMax, and replays the others', async () => {
      let passes = 0;
      const runtime = await store.start(
        (r) =>
          r
            .registerActivity('add', (_, [a, b]: [number, number]) => a + b)
            .registerOrchestration('cached', function* (ctx, n: number) {
              passes += 1;
              let sum = n;
              for (let i = 1; i <= 3; i += 1) {
                ctx.setCustomStatus(i);
                sum += yield ctx.waitForEvent('add');
                sum = yield ctx.scheduleActivity('add', [sum, 100]);
              }
              return sum;
            }),
        { cachedInstancesMax: 2 },
      );
      const ids = Array.from({ length: 50 }, (_, i) => ({ id: store.id('cached'), i }));
      await Promise.all(ids.map(({ id, i }) => store.client.startOrchestration(id, 'cached', i)));
      for (let round = 1; round <= 3; round += 1) {
        await Promise.all(ids.map(({ id }) => store.client.waitForStatusChange(id, round - 1, undefined, SOON)));
        await store.settled();
        expect(runtime.metrics().cachedInstances).toBeLessThanOrEqual(2);
        await drained(runtime);
        const { native, instances } = runtimeSizes(runtime);
        expect(native.instances, 'all wait for events: nothing but the cache is loaded').toBeLessThanOrEqual(2);
        expect(instances).toBeLessThanOrEqual(2);
        await Promise.all(ids.map(({ id }) => store.client.raiseEvent(id, 'add', round)));
      }
      for (const { id, i } of ids) {
        expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(i + 306);
        expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
      }
      // At most 2 of 50 instances could be kept from round to round.
      expect(passes).toBeGreaterThanOrEqual(50 + 3 * 48);
    });

    it('holds the generators that the cache has room for, and does not replay them', async () => {
      let passes = 0;
      const runtime = await store.start((r) =>
        r.registerOrchestration('kept', function* (ctx) {
          passes += 1;
          for (let i = 1; i <= 5; i += 1) {
            ctx.setCustomStatus(i);
            yield ctx.waitForEvent('next');
          }
        }),
      );
      const ids = Array.from({ length: 20 }, () => store.id('kept'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'kept')));
      for (let round = 0; round < 5; round += 1) {
        await Promise.all(ids.map((id) => store.client.waitForStatusChange(id, round, undefined, SOON)));
        await Promise.all(ids.map((id) => store.client.raiseEvent(id, 'next')));
      }
      await Promise.all(ids.map((id) => store.client.waitForOrchestration(id, SOON)));
      expect(passes).toBe(20);
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
    });

    it('holds none of 1 000 instances that sleep on a timer', async () => {
      const runtime = await store.start((r) =>
        r
          .registerActivity('before', () => 1)
          .registerOrchestration('sleeps', function* (ctx) {
            yield ctx.scheduleActivity('before');
            ctx.traceDebug('going to sleep');
            ctx.setCustomStatus('asleep');
            ctx.state.set('asleep', true);
            yield ctx.scheduleTimer('1h');
          }),
      );
      const ids = Array.from({ length: 1_000 }, () => store.id('sleeps'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'sleeps')));
      await Promise.all(ids.map((id) => store.client.waitForStatusChange(id, 0, undefined, SOON)));
      await store.settled();
      expect(runtime.metrics()).toMatchObject({
        ownedInstances: 0,
        cachedInstances: 0,
        openActivities: 0,
        turnsInProgress: 0,
      });
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
      expect(keyedMapSizes()).toEqual({ customStatus: 0, state: 0, trace: 0 });

      // Each instance can be woken.
      await Promise.all(ids.map((id) => store.client.cancelInstance(id)));
      for (const id of ids) expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
    });

    it('lets go of those that sleep for more than a second, and wakes them in time', async () => {
      const runtime = await store.start((r) =>
        r.registerOrchestration('naps', function* (ctx) {
          const before = ctx.now();
          ctx.setCustomStatus('asleep');
          yield ctx.scheduleTimer('1500ms');
          return ctx.now() - before;
        }),
      );
      const ids = Array.from({ length: 50 }, () => store.id('naps'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'naps')));
      await Promise.all(ids.map((id) => store.client.waitForStatusChange(id, 0, undefined, SOON)));
      await store.settled();
      expect(runtime.metrics()).toMatchObject({ ownedInstances: 0 });
      for (const id of ids) {
        const { output } = await store.client.waitForOrchestration(id, SOON);
        expect(output).toBeGreaterThanOrEqual(1_500);
        expect(output).toBeLessThan(4_000);
      }
    });

    it('holds nothing of instances that are done, however they ended', async () => {
      const runtime = await store.start((r) =>
        r
          .registerActivity('echo', (_, value) => value)
          .registerActivity(
            'fails',
            () => {
              throw new Error('no');
            },
            { retry: { maxAttempts: 2, initialInterval: 1 } },
          )
          .registerActivity('holds', (ctx) => aborted(ctx.signal))
          .registerOrchestration('ends', function* (ctx, how) {
            ctx.traceInfo('begins');
            ctx.setCustomStatus({ how });
            ctx.scheduleActivity('holds');
            yield ctx.scheduleActivity('echo', how);
            if (how === 'Failed') yield ctx.scheduleActivity('fails');
            if (how === 'Cancelled') yield ctx.scheduleTimer('1m');
            if (how === 'Terminated') yield ctx.waitForEvent('never');
          }),
      );
      const ids = Array.from({ length: 200 }, (_, i) => {
        const how = ['Completed', 'Failed', 'Cancelled', 'Terminated'][i % 4] as string;
        return { how, id: store.id(how) };
      });
      await Promise.all(ids.map(({ id, how }) => store.client.startOrchestration(id, 'ends', how)));
      await Promise.all(
        ids.map(async ({ id, how }) => {
          if (how === 'Cancelled') await store.client.cancelInstance(id);
          if (how === 'Terminated') await store.client.terminateInstance(id);
          expect((await store.client.waitForOrchestration(id, SOON)).status).toBe(how);
        }),
      );
      await store.settled();
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
      expect(keyedMapSizes()).toEqual({ customStatus: 0, state: 0, trace: 0 });
      expect(runtime.metrics()).toMatchObject({
        ownedInstances: 0,
        cachedInstances: 0,
        runningActivities: 0,
        openActivities: 0,
        queuedJobs: 0,
        turnsInProgress: 0,
      });
    });

    it('counts instances and activities while they are there', async () => {
      const gate = deferred();
      const begun = new Counter();
      const runtime = await store.start((r) =>
        r
          .registerActivity('gated', async () => {
            begun.add();
            await gate.promise;
          })
          .registerOrchestration('counted', function* (ctx) {
            ctx.traceInfo('x');
            ctx.setCustomStatus('x');
            ctx.state.set('x', 1);
            yield ctx.scheduleActivity('gated');
          }),
      );
      const ids = Array.from({ length: 7 }, () => store.id());
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'counted')));
      await begun.reaches(7);
      expect(runtimeSizes(runtime)).toEqual({
        native: { instances: 7, turns: 0, activities: 7 },
        instances: 7,
        activities: 7,
      });
      expect(keyedMapSizes()).toEqual({ customStatus: 7, state: 7, trace: 7 });
      expect(runtime.metrics()).toMatchObject({
        ownedInstances: 7,
        cachedInstances: 7,
        runningActivities: 7,
        openActivities: 7,
      });
      gate.resolve();
      await Promise.all(ids.map((id) => store.client.waitForOrchestration(id, SOON)));
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
    });
  });
});

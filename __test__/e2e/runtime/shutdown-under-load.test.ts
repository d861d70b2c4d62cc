import { RuntimeStateError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, Counter, deferred, nextTick } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('shutdown under load', () => {
    it('lets running activities finish, starts no other, and returns as soon as it is drained', async () => {
      const gate = deferred();
      const begun = new Counter();
      const ran = { first: 0, second: 0 };
      const runtime = store.runtime();
      runtime
        .registerActivity('first', async () => {
          ran.first += 1;
          begun.add();
          await gate.promise;
        })
        .registerActivity('second', () => void (ran.second += 1))
        .registerOrchestration('loaded', function* (ctx) {
          yield ctx.scheduleActivity('first');
          yield ctx.scheduleActivity('second');
          return 'done';
        });
      await runtime.start();
      const ids = Array.from({ length: 20 }, () => store.id('loaded'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'loaded')));
      await begun.reaches(20);

      // The timeout is an hour: if the shutdown waited for anything but the activities, the test would not end.
      const stopping = runtime.shutdown('1h');
      // An instance that is not taken shows that the runtime takes no more work. The instances before it came in time
      // and are like the others.
      const intime: string[] = [];
      let late: string;
      for (;;) {
        late = store.id('loaded');
        const { ownedInstances } = runtime.metrics();
        await store.client.startOrchestration(late, 'loaded');
        if (runtime.metrics().ownedInstances === ownedInstances) break;
        intime.push(late);
      }
      expect(await Promise.race([stopping.then(() => 'stopped'), nextTick().then(() => 'waiting')])).toBe('waiting');
      gate.resolve();
      await stopping;
      expect(ran.first).toBeLessThanOrEqual(20 + intime.length);
      expect(ran.second).toBe(0);
      for (const id of ids) {
        expect(kinds(await store.client.getHistory(id)), 'what finished is stored').toContain('ActivityCompleted');
      }
      expect(await store.client.getStatus(late)).toMatchObject({ status: 'Pending' });

      await runtime.start();
      const all = [...ids, ...intime, late];
      for (const id of all) expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('done');
      expect(ran, 'nothing that had finished ran again').toEqual({ first: all.length, second: all.length });
    });

    it('aborts running activities at the deadline, and the next runtime runs them again', async () => {
      const reasons: unknown[] = [];
      const [begun, stopped] = [new Counter(), new Counter()];
      const late = deferred();
      let round = 1;
      const starts: string[] = [];
      const runtime = store.runtime();
      runtime
        .registerActivity('stubborn', async (ctx) => {
          starts.push(`${round} ${ctx.idempotencyKey} ${ctx.attempt}`);
          begun.add();
          if (round === 2) return 'second';
          reasons.push(await aborted(ctx.signal));
          stopped.add();
          await late.promise;
          return 'first';
        })
        .registerOrchestration('aborted', function* (ctx) {
          return yield ctx.scheduleActivity('stubborn');
        });
      await runtime.start();
      const ids = Array.from({ length: 10 }, () => store.id('aborted'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'aborted')));
      await begun.reaches(10);
      const before = performance.now();
      await runtime.shutdown('80ms');
      const took = performance.now() - before;
      expect(took).toBeGreaterThanOrEqual(79);
      expect(took, 'the deadline is kept').toBeLessThan(1_000);
      await stopped.reaches(10);
      for (const reason of reasons) expect(reason).toBeInstanceOf(RuntimeStateError);

      round = 2;
      await runtime.start();
      late.resolve();
      for (const id of ids) {
        expect((await store.client.waitForOrchestration(id, SOON)).output, 'the late result was dropped').toBe(
          'second',
        );
        expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
      }
      expect(starts).toHaveLength(20);
      expect(new Set(starts.map((line) => line.slice(2))).size, 'an abort is no failed attempt').toBe(10);
    });

    it('tells every activity that it leaves running, every time', async () => {
      const runtime = store.runtime();
      let [begun, told] = [new Counter(), new Counter()];
      const never = deferred();
      runtime
        .registerActivity('deaf', async (ctx) => {
          begun.add();
          void aborted(ctx.signal).then(() => told.add());
          await never.promise;
        })
        .registerOrchestration('left running', function* (ctx) {
          yield ctx.scheduleActivity('deaf');
        });
      const ids = Array.from({ length: 10 }, () => store.id('left'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'left running')));
      // Repeated many times: the message and the closing of the lane race between threads.
      for (let round = 0; round < 20; round += 1) {
        [begun, told] = [new Counter(), new Counter()];
        await runtime.start();
        await begun.reaches(10);
        await runtime.shutdown(1);
        await told.reaches(10);
      }
      for (const id of ids) await store.client.terminateInstance(id);
      never.resolve();
    }, 10_000);

    it('in the middle of many turns loses and repeats nothing that was recorded', async () => {
      const starts = new Map<string, number>();
      const runtime = store.runtime({ activityConcurrency: 8 });
      runtime
        .registerActivity('count', async (ctx, n: number) => {
          starts.set(ctx.idempotencyKey, (starts.get(ctx.idempotencyKey) ?? 0) + 1);
          await nextTick();
          return n + 1;
        })
        .registerOrchestration('chain', function* (ctx) {
          let n = 0;
          while (n < 20) n = yield ctx.scheduleActivity('count', n);
          return n;
        });
      await runtime.start();
      const ids = Array.from({ length: 40 }, () => store.id('chain'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'chain')));
      for (const id of ids.slice(0, 5)) {
        const waiting = store.client.waitForOrchestration(id, SOON);
        await runtime.shutdown('10s');
        await runtime.start();
        await waiting;
      }
      for (const id of ids) expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(20);
      expect(starts.size).toBe(800);
      // Each shutdown waited for the running activities, so each of them ran exactly once.
      expect([...starts.values()].filter((n) => n !== 1)).toEqual([]);
    });
  });
});

import { describe, expect, it } from 'vitest';

import { deferred } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

// Events and queues: no acknowledged message is lost, and no message is consumed that no wait asks for.

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('an event', () => {
    it('is kept if it is raised before a runtime exists', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'early');
      for (const n of [1, 2, 3]) await store.client.raiseEvent(id, 'number', n);
      await store.client.raiseEvent(id, 'name', 'ada');
      expect(await store.client.getStatus(id)).toMatchObject({ status: 'Pending' });
      await store.start((runtime) =>
        runtime.registerOrchestration('early', function* (ctx) {
          return [
            yield ctx.waitForEvent('name'),
            yield ctx.waitForEvent('number'),
            yield ctx.waitForEvent('number'),
            yield ctx.waitForEvent('number'),
          ];
        }),
      );
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['ada', 1, 2, 3]);
    });

    it('is kept if it is raised while an activity runs', async () => {
      const [begun, gate] = [deferred(), deferred()];
      await store.start((runtime) =>
        runtime
          .registerActivity('gated', async () => {
            begun.resolve();
            await gate.promise;
          })
          .registerOrchestration('busy', function* (ctx) {
            yield ctx.scheduleActivity('gated');
            return yield ctx.waitForEvent('go');
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'busy');
      await begun.promise;
      await store.client.raiseEvent(id, 'go', { n: 1 });
      gate.resolve();
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({ n: 1 });
    });

    it('is not eaten by a wait that lost a race', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('fast', () => 'fast')
          .registerOrchestration('lost', function* (ctx) {
            const lost = ctx.waitForEvent('x');
            const first = yield ctx.race(lost, ctx.scheduleActivity('fast'));
            const second = yield ctx.race(ctx.waitForEvent('x'), ctx.waitForEvent('y'));
            ctx.setCustomStatus('waiting');
            // The wait that lost the race can still be awaited.
            return [first, second, yield ctx.waitForEvent('x'), yield lost];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'lost');
      await store.client.raiseEvent(id, 'y', 'y1');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await store.client.raiseEvent(id, 'x', 'x1');
      await store.client.raiseEvent(id, 'x', 'x2');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        { index: 1, value: 'fast' },
        { index: 1, value: 'y1' },
        'x1',
        'x2',
      ]);
    });

    it('without a waiter wakes no instance and stays out of the history', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('picky', function* (ctx) {
          ctx.setCustomStatus('waiting');
          return yield ctx.waitForEvent('right');
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'picky');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      for (let i = 0; i < 10; i += 1) await store.client.raiseEvent(id, 'wrong', i);
      await store.client.raiseEvent(id, 'right', 'yes');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('yes');
      expect(kinds(await store.client.getHistory(id))).toEqual([
        'ExecutionStarted',
        'EventReceived',
        'ExecutionCompleted',
      ]);
    });

    it('goes to the fiber that has waited longest, each to one', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('fibers', function* (ctx) {
          const waiter = function* (name: string): Generator<any, string, any> {
            return `${name} got ${yield ctx.waitForEvent('e')}`;
          };
          const all = ctx.all(['a', 'b', 'c'].map(waiter));
          ctx.setCustomStatus('waiting');
          return yield all;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'fibers');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      for (const n of [1, 2, 3]) await store.client.raiseEvent(id, 'e', n);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['a got 1', 'b got 2', 'c got 3']);
    });

    it('and a queue of the same name are two things', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('same name', function* (ctx) {
          return [yield ctx.dequeueEvent('inbox'), yield ctx.waitForEvent('inbox')];
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'same name');
      await store.client.raiseEvent(id, 'inbox', 'event');
      await store.client.enqueueEvent(id, 'inbox', 'message');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['message', 'event']);
    });
  });

  describe('a queue', () => {
    const count = 300;

    it('is first in, first out, whether filled before or while it is read', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'reader');
      const fill = async (from: number, to: number) => {
        const sent: Promise<void>[] = [];
        for (let i = from; i < to; i += 1) sent.push(store.client.enqueueEvent(id, 'q', i));
        await Promise.all(sent);
      };
      await fill(0, count / 2);
      await store.start((runtime) =>
        runtime
          .registerActivity('work', (_, n: number) => n)
          .registerOrchestration('reader', function* (ctx) {
            const got: number[] = [];
            while (got.length < count) {
              const n = yield ctx.dequeueEvent('q');
              got.push(n % 7 === 0 ? yield ctx.scheduleActivity('work', n) : n);
            }
            return got;
          }),
      );
      await fill(count / 2, count);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(
        Array.from({ length: count }, (_, i) => i),
      );
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('gives each message to exactly one of many readers', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('work', async (_, n: number) => n)
          .registerOrchestration('readers', function* (ctx) {
            const reader = function* (): Generator<any, number[], any> {
              const got: number[] = [];
              for (;;) {
                const n = yield ctx.dequeueEvent('q');
                if (n === null) return got;
                got.push(yield ctx.scheduleActivity('work', n));
              }
            };
            return yield ctx.all(Array.from({ length: 5 }, reader));
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'readers');
      for (let i = 0; i < 100; i += 1) await store.client.enqueueEvent(id, 'q', i);
      for (let i = 0; i < 5; i += 1) await store.client.enqueueEvent(id, 'q', null);
      const got: number[][] = (await store.client.waitForOrchestration<any>(id, SOON)).output;
      expect(got.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i));
      for (const own of got) expect(own).toEqual([...own].sort((a, b) => a - b));
    });

    it('keeps unread messages when a wait on it is cancelled', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('nothing', () => {})
          .registerOrchestration('cancelled wait', function* (ctx) {
            const wait = ctx.dequeueEvent('q');
            const fiber = ctx.spawn(function* () {
              return yield wait;
            });
            yield ctx.scheduleActivity('nothing');
            wait.cancel('enough');
            let error: unknown;
            try {
              yield fiber;
            } catch (caught) {
              error = caught;
            }
            ctx.setCustomStatus('cancelled');
            return [error, yield ctx.dequeueEvent('q')];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'cancelled wait');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await store.client.enqueueEvent(id, 'q', 'kept');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        expect.objectContaining({ name: 'CancelledError', reason: 'enough' }),
        'kept',
      ]);
    });
  });

  describe('a crowd of messages', () => {
    const CROWD = 10_000;

    const crowd = (id: string): Promise<void[]> =>
      Promise.all(
        Array.from({ length: CROWD }, (_, i) => store.client.enqueueEvent(id, i % 2 === 0 ? 'even' : 'odd', i)),
      );

    it.each([
      ['kept', {}],
      ['replayed for every turn', { cachedInstancesMax: 0 }],
    ])(
      'hides no message behind it, and is read in the order of each queue: by an instance that is %s',
      async (_, options) => {
        const gate = deferred();
        await store.start(
          (runtime) =>
            runtime
              .registerActivity('gated', () => gate.promise)
              .registerOrchestration('crowded', function* (ctx) {
                const busy = ctx.scheduleActivity('gated');
                const first = yield ctx.waitForEvent('go');
                yield busy;
                const second = yield ctx.waitForEvent('go');
                const read: Record<string, number[]> = { even: [], odd: [] };
                const queues = { even: ctx.dequeueEvent<number>('even'), odd: ctx.dequeueEvent<number>('odd') };
                for (let i = 0; i < CROWD; i += 1) {
                  const { tag, value } = yield* ctx.select(queues);
                  read[tag]?.push(value);
                  queues[tag] = ctx.dequeueEvent(tag);
                }
                const isInOrder = (list: number[] | undefined, from: number): boolean =>
                  list?.every((n, i) => n === from + 2 * i) === true;
                return [
                  first,
                  second,
                  read.even?.length,
                  read.odd?.length,
                  isInOrder(read.even, 0),
                  isInOrder(read.odd, 1),
                ];
              }),
          options,
        );
        const id = store.id();
        await store.client.startOrchestration(id, 'crowded');
        await crowd(id);
        await store.client.raiseEvent(id, 'go', 'first');
        gate.resolve();
        await store.client.raiseEvent(id, 'go', 'second');
        const { output } = await store.client.waitForOrchestration(id, SOON);
        expect(output).toEqual(['first', 'second', CROWD / 2, CROWD / 2, true, true]);
      },
    );
  });
});

import { type ActivityContext, type Runtime, TimeoutError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, deferred } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Returns an activity that runs until it is aborted or released, and records which. */
  function holding(events: string[]) {
    const begun = deferred<ActivityContext>();
    const release = deferred();
    const register = (runtime: Runtime): Runtime =>
      runtime
        .registerActivity('hold', async (ctx) => {
          events.push('hold began');
          // Recorded in the listener, not after an `await`: the time at which the signal was raised counts.
          ctx.signal.addEventListener('abort', () => events.push(`hold aborted: ${(ctx.signal.reason as Error).name}`));
          begun.resolve(ctx);
          await Promise.race([release.promise, aborted(ctx.signal)]);
          ctx.signal.throwIfAborted();
          events.push('hold done');
          return 'held';
        })
        .registerActivity('note', async (ctx, text: string) => {
          events.push(`${text}${ctx.signal.aborted ? ' (aborted)' : ''}`);
          return text;
        });
    return { register, begun: begun.promise, release: () => release.resolve() };
  }

  describe.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('instances that are %s', (_, options) => {
    it('withTimeout stops a block when the time is up: its activity is aborted, its cleanup runs', async () => {
      const events: string[] = [];
      const { register, begun } = holding(events);
      await store.start(
        (runtime) =>
          register(runtime).registerOrchestration('limited', function* (ctx) {
            const block = ctx.spawn(function* () {
              try {
                return yield ctx.scheduleActivity('hold');
              } finally {
                yield ctx.scheduleActivity('note', 'cleanup');
              }
            });
            yield ctx.waitForEvent('begun');
            try {
              return yield ctx.withTimeout(20, block);
            } catch (error) {
              yield ctx.allSettled([block]);
              return [error instanceof TimeoutError, (error as TimeoutError).timeoutMs];
            }
          }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'limited');
      await begun;
      await store.client.raiseEvent(id, 'begun');
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Completed',
        output: [true, 20],
      });
      expect(events).toEqual(['hold began', 'hold aborted: CancelledError', 'cleanup']);
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('withTimeout gives the value of a block that is in time, and leaves no timer', async () => {
      const events: string[] = [];
      const { register } = holding(events);
      await store.start(
        (runtime) =>
          register(runtime).registerOrchestration('in time', function* (ctx) {
            const value = yield ctx.withTimeout('30d', ctx.scheduleActivity('note', 'quick'));
            yield ctx.scheduleActivity('note', 'after');
            return value;
          }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'in time');
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output: 'quick' });
      expect(kinds(await store.client.getHistory(id))).toEqual([
        'ExecutionStarted',
        'ActivityScheduled',
        'TimerCreated',
        'ActivityCompleted',
        'ActivityScheduled',
        'ActivityCompleted',
        'ExecutionCompleted',
      ]);
    });

    it('a cancellation waits for an uncancellable block, then comes, and cleanup has a fresh signal', async () => {
      const events: string[] = [];
      const { register, begun, release } = holding(events);
      await store.start(
        (runtime) =>
          register(runtime).registerOrchestration('transfer', function* (ctx) {
            try {
              yield ctx.uncancellable(function* () {
                ctx.setCustomStatus('begun');
                events.push(yield ctx.scheduleActivity('hold'));
                yield ctx.scheduleActivity('note', 'second half');
              });
              yield ctx.scheduleTimer('1h');
            } finally {
              yield ctx.scheduleActivity('note', 'cleanup');
            }
          }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'transfer');
      const { signal } = await begun;
      await store.client.cancelInstance(id, 'stop');
      await store.settled();
      expect(signal.aborted).toBe(false);
      release();
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Cancelled',
        error: { message: 'cancelled: stop' },
      });
      expect([...new Set(events)]).toEqual(['hold began', 'hold done', 'held', 'second half', 'cleanup']);
      expect(historyViolations(await store.client.getHistory(id), 'Cancelled')).toEqual([]);
    });

    it('a cancelled instance ends after its blocks, also when the main fiber has left', async () => {
      const events: string[] = [];
      const { register, begun, release } = holding(events);
      await store.start(
        (runtime) =>
          register(runtime).registerOrchestration('side block', function* (ctx) {
            ctx.uncancellable(function* () {
              yield ctx.scheduleActivity('hold');
              yield ctx.scheduleActivity('note', 'finished');
            });
            yield ctx.waitForEvent('never');
          }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'side block');
      await begun;
      await store.client.cancelInstance(id);
      await store.settled();
      release();
      expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
      expect(events).toEqual(['hold began', 'hold done', 'finished']);
      expect(historyViolations(await store.client.getHistory(id), 'Cancelled')).toEqual([]);
    });

    it('an uncancellable block continues after its runtime was replaced', async () => {
      const events: string[] = [];
      const define = (runtime: Runtime): Runtime =>
        runtime
          .registerActivity('note', (_, text) => void events.push(text as string))
          .registerOrchestration('moved', function* (ctx) {
            yield ctx.uncancellable(function* () {
              ctx.setCustomStatus('inside');
              yield ctx.waitForEvent('go');
              ctx.setCustomStatus('went');
              yield ctx.waitForEvent('go');
              yield ctx.scheduleActivity('note', 'inside done');
            });
            yield ctx.scheduleTimer('1h');
          });
      const first = await store.start(define, options);
      const id = store.id();
      await store.client.startOrchestration(id, 'moved');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await store.client.cancelInstance(id, 'stop');
      await store.client.raiseEvent(id, 'go');
      await store.client.waitForStatusChange(id, 1, undefined, SOON);
      await first.shutdown();
      await store.start(define, options);
      await store.client.raiseEvent(id, 'go');
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Cancelled',
        error: { message: 'cancelled: stop' },
      });
      expect(events).toEqual(['inside done']);
    });

    it('a cancellation aborts every fiber and combinator before any cleanup begins', async () => {
      const events: string[] = [];
      const { register, begun } = holding(events);
      await store.start(
        (runtime) =>
          register(runtime).registerOrchestration('deep', function* (ctx) {
            const block = function* (): Generator<any, void, any> {
              try {
                yield ctx.scheduleActivity('hold');
              } finally {
                yield ctx.scheduleActivity('note', 'inner cleanup');
              }
            };
            try {
              yield ctx.all([ctx.race(block(), ctx.scheduleTimer('1h')), ctx.waitForEvent('never')]);
            } catch (error) {
              yield ctx.scheduleActivity('note', 'outer cleanup');
              throw error;
            }
          }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'deep');
      await begun;
      await store.client.cancelInstance(id);
      expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
      expect(events.slice(0, 2)).toEqual(['hold began', 'hold aborted: CancelledError']);
      expect(events).toContain('outer cleanup');
      expect(historyViolations(await store.client.getHistory(id), 'Cancelled')).toEqual([]);
    });
  });
});

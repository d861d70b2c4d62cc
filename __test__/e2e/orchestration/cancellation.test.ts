import {
  type ActivityContext,
  CancelledError,
  DeterminismError,
  defineOrchestration,
  type Future,
  type Runtime,
} from 'perdure';
import { replay } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { aborted, Counter, deferred, rejection } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Returns an activity that runs until it is aborted. It reports its begin and the reason of its abort. */
  function holding() {
    const begun = deferred<ActivityContext>();
    const stopped = deferred<unknown>();
    const register = (runtime: Runtime): Runtime =>
      runtime.registerActivity('hold', async (ctx) => {
        begun.resolve(ctx);
        stopped.resolve(await aborted(ctx.signal));
        throw ctx.signal.reason;
      });
    return { register, begun: begun.promise, stopped: stopped.promise };
  }

  describe('cancelling a suspended instance', () => {
    const family = (runtime: Runtime): Runtime =>
      runtime
        .registerOrchestration('child', function* (ctx) {
          ctx.setCustomStatus('waiting');
          yield ctx.waitForEvent('never');
        })
        .registerOrchestration('parent', function* (ctx, child: string) {
          return yield ctx.scheduleSubOrchestration('child', undefined, { id: child });
        });

    /** Waits until the parent has started the child, in a turn of its own. */
    async function isWaiting(id: string): Promise<void> {
      await expect.poll(async () => (await store.client.getStatus(id))?.customStatus).toBe('waiting');
    }

    it('ends a suspended child with its parent, which was left behind', async () => {
      await store.start(family);
      const [parent, child] = [store.id('parent'), store.id('child')];
      await store.client.startOrchestration(parent, 'parent', child);
      await isWaiting(child);
      await store.client.suspend(child, 'under review');
      await store.client.cancelInstance(parent);
      expect((await store.client.waitForOrchestration(parent, SOON)).status).toBe('Cancelled');
      const { status, error } = await store.client.waitForOrchestration(child, SOON);
      expect([status, error?.message]).toEqual([
        'Cancelled',
        `cancelled: instance '${child}' was suspended, and none of its code ran`,
      ]);
      expect(historyViolations(await store.client.getHistory(child), 'Cancelled')).toEqual([]);
    });

    it('ends the child alone, of which its parent hears', async () => {
      await store.start(family);
      const [parent, child] = [store.id('parent'), store.id('child')];
      await store.client.startOrchestration(parent, 'parent', child);
      await isWaiting(child);
      await store.client.suspend(child);
      await store.client.cancelInstance(child, 'no');
      const { status, error } = await store.client.waitForOrchestration(parent, SOON);
      expect([status, error?.name]).toEqual(['Failed', 'SubOrchestrationError']);
      expect((error?.cause as Error).message).toBe(
        `cancelled: instance '${child}' was suspended, and none of its code ran`,
      );
    });

    it('ends one that nothing can run at all: its process has no code', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'nobody has it');
      await store.client.suspend(id);
      await store.client.cancelInstance(id);
      expect((await store.client.getStatus(id))?.status).toBe('Cancelled');
    });
  });

  describe('cancelling code that never waits', () => {
    it('ends an instance whose executions follow each other, and its history replays', async () => {
      const rounds = new Counter();
      const register = (runtime: Runtime): Runtime =>
        runtime.registerOrchestration('round and round', function* (ctx, n: number) {
          rounds.add();
          return yield ctx.continueAsNew(n + 1);
        });
      await store.start(register);
      const id = store.id();
      await store.client.startOrchestration(id, 'round and round', 1);
      await rounds.reaches(10);
      await store.client.cancelInstance(id, 'enough');
      const { status, error, executionId } = await store.client.waitForOrchestration(id, SOON);
      expect([status, error?.message]).toEqual(['Cancelled', 'cancelled: enough']);
      const history = await store.client.getHistory(id);
      expect(history.map(({ kind }) => kind)).toEqual(['ExecutionStarted', 'CancelRequested', 'ExecutionCancelled']);
      expect(historyViolations(history, 'Cancelled')).toEqual([]);
      expect(executionId).toBeGreaterThan(10);
    });

    it('lets it clean up in the execution that it comes to', async () => {
      const rounds = new Counter();
      await store.start((runtime) =>
        runtime
          .registerActivity('clean', async () => 'cleaned')
          .registerOrchestration('tidy', function* (ctx, n: number) {
            rounds.add();
            try {
              return yield ctx.continueAsNew(n + 1);
            } catch (error) {
              ctx.setCustomStatus(yield ctx.scheduleActivity('clean'));
              throw error;
            }
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'tidy', 1);
      await rounds.reaches(10);
      await store.client.cancelInstance(id);
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Cancelled',
        customStatus: 'cleaned',
      });
    });

    it('ends code that asks for steps without end and waits for none, and its history replays', async () => {
      const asked: number[] = [];
      const greedy = defineOrchestration('greedy', function* (ctx) {
        for (let n = 0; ; n += 1) {
          asked.push(n);
          ctx.scheduleActivity('step', n);
          yield ctx.all([]);
        }
      });
      const id = store.id();
      await store.client.startOrchestration(id, 'greedy');
      await store.client.cancelInstance(id, 'enough');
      await store.start((runtime) => runtime.registerActivity('step', (_ctx, n: number) => n).register(greedy));
      const { status, error } = await store.client.waitForOrchestration(id, SOON);
      expect([status, error?.message]).toEqual(['Cancelled', 'cancelled: enough']);
      // See INTERRUPT_EVERY.
      expect(asked).toHaveLength(256);
      expect(historyViolations(await store.client.getHistory(id), 'Cancelled')).toEqual([]);
      expect(replay(await store.client.exportHistory(id), greedy).executions).toMatchObject([{ outcome: 'cancelled' }]);
    });

    it('ends such a child with its parent', async () => {
      const rounds = new Counter();
      await store.start((runtime) =>
        runtime
          .registerOrchestration('for ever', function* (ctx, n: number) {
            rounds.add();
            return yield ctx.continueAsNew(n + 1);
          })
          .registerOrchestration('parent', function* (ctx, child: string) {
            yield ctx.scheduleSubOrchestration('for ever', 1, { id: child });
          }),
      );
      const [parent, child] = [store.id('parent'), store.id('child')];
      await store.client.startOrchestration(parent, 'parent', child);
      await rounds.reaches(10);
      await store.client.cancelInstance(parent);
      expect((await store.client.waitForOrchestration(parent, SOON)).status).toBe('Cancelled');
      expect((await store.client.waitForOrchestration(child, SOON)).status).toBe('Cancelled');
    });
  });

  describe('cancelling', () => {
    it('throws at the pending yield, aborts the activity at once, and lets cleanup run', async () => {
      const { register, begun, stopped } = holding();
      const steps: string[] = [];
      await store.start((runtime) =>
        register(runtime)
          .registerActivity('refund', async (_, amount: number) => `refunded ${amount}`)
          .registerOrchestration('careful', function* (ctx) {
            try {
              yield ctx.scheduleActivity('hold');
            } catch (error) {
              steps.push(`${error instanceof CancelledError} ${(error as CancelledError).reason}`);
              steps.push(yield ctx.scheduleActivity('refund', 12));
            } finally {
              yield ctx.scheduleTimer(1);
              steps.push('finally');
            }
            return 'done anyway';
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'careful');
      await begun;
      await store.client.cancelInstance(id, 'changed my mind');
      expect(await stopped).toMatchObject({ name: 'CancelledError', code: 'CANCELLED' });
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Completed',
        output: 'done anyway',
      });
      expect(steps).toEqual(['true changed my mind', 'refunded 12', 'finally']);
      const history = await store.client.getHistory(id);
      expect(historyViolations(history, 'Completed')).toEqual([]);
      expect(kinds(history)).toEqual(expect.arrayContaining(['CancelRequested', 'OperationCancelled']));
    });

    it('ends as Cancelled when the error leaves the function, after finally', async () => {
      const { register, begun } = holding();
      const released: unknown[] = [];
      const unaware = defineOrchestration('unaware', function* (ctx) {
        try {
          yield ctx.scheduleActivity('hold');
        } finally {
          yield ctx.scheduleActivity('release', ctx.instanceId);
        }
      });
      await store.start((runtime) =>
        register(runtime)
          .register(unaware)
          .registerActivity('release', (_, what) => void released.push(what)),
      );
      const handle = await store.client.start(unaware);
      await begun;
      await handle.cancel('enough');
      const error = await rejection(handle.result({ timeout: SOON }));
      expect(error).toBeInstanceOf(CancelledError);
      expect(error).toMatchObject({ reason: 'enough' });
      expect(await handle.status()).toMatchObject({ status: 'Cancelled', error: { name: 'CancelledError' } });
      expect(released).toEqual([handle.id]);
      expect(historyViolations(await store.client.getHistory(handle.id), 'Cancelled')).toEqual([]);
    });

    it('reaches every fiber, wherever it waits', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('strands', function* (ctx) {
          const ends: string[] = [];
          const strand = function* (name: string, wait: () => any): Generator<any, void, any> {
            try {
              yield wait();
            } catch (error) {
              ends.push(`${name}: ${(error as Error).name}`);
            }
          };
          const all = [
            strand('event', () => ctx.waitForEvent('e')),
            strand('queue', () => ctx.dequeueEvent('q')),
            strand('timer', () => ctx.scheduleTimer('1h')),
            strand('race', () => ctx.race(ctx.waitForEvent('e'), ctx.scheduleTimer('1h'))),
          ].map((generator) => ctx.spawn(generator));
          ctx.setCustomStatus('waiting');
          try {
            yield ctx.waitForEvent('main');
          } catch {
            ends.push('main');
          }
          yield ctx.all(all);
          return ends.sort();
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'strands');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await store.client.cancelInstance(id);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        'event: CancelledError',
        'main',
        'queue: CancelledError',
        'race: CancelledError',
        'timer: CancelledError',
      ]);
    });

    it('survives a wait without a runtime, and comes before everything else', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'not begun');
      await store.client.raiseEvent(id, 'go', 1);
      await store.client.cancelInstance(id, 'early');
      let got: unknown;
      await store.start((runtime) =>
        runtime.registerOrchestration('not begun', function* (ctx) {
          got = yield ctx.waitForEvent('go');
        }),
      );
      const { status, error } = await store.client.waitForOrchestration(id, SOON);
      expect([status, (error as CancelledError).reason, got]).toEqual(['Cancelled', 'early', undefined]);
    });

    it('wakes an instance that sleeps in the store', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('sleeper', function* (ctx) {
          ctx.setCustomStatus('asleep');
          yield ctx.scheduleTimer('30d');
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'sleeper');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await store.client.cancelInstance(id);
      expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
    });

    it('gives one replay the same as the other', async () => {
      const passes: string[][] = [];
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('note', (_, text) => text)
            .registerOrchestration('replayed', function* (ctx) {
              const pass: string[] = [];
              passes.push(pass);
              try {
                ctx.setCustomStatus('waiting');
                yield ctx.waitForEvent('never');
              } catch (error) {
                pass.push((error as Error).message, yield ctx.scheduleActivity('note', 'cleaned'));
                ctx.setCustomStatus('cleaned');
              }
              pass.push(yield ctx.waitForEvent('last'));
              return pass;
            }),
        { cachedInstancesMax: 0 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'replayed');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await store.client.cancelInstance(id, 'why');
      await store.client.waitForStatusChange(id, 1, undefined, SOON);
      await store.client.raiseEvent(id, 'last', 'last');
      const { output } = await store.client.waitForOrchestration<any>(id, SOON);
      expect(output).toEqual(['cancelled: why', 'cleaned', 'last']);
      expect(passes.length).toBeGreaterThan(2);
      for (const pass of passes) expect(output.slice(0, pass.length)).toEqual(pass);
    });

    it('of one operation affects only this operation', async () => {
      const { register, begun, stopped } = holding();
      await store.start((runtime) =>
        register(runtime)
          .registerActivity('other', () => 'other')
          .registerOrchestration('one', function* (ctx) {
            const held = ctx.scheduleActivity('hold');
            const other = ctx.scheduleActivity('other');
            const timer = ctx.scheduleTimer('1h');
            yield ctx.waitForEvent('begun');
            held.cancel('not needed');
            timer.cancel();
            const ends = yield ctx.allSettled([held, other, timer]);
            return ends.map((end: any) => end.value ?? end.reason.message);
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'one');
      await begun;
      await store.client.raiseEvent(id, 'begun');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        'cancelled: not needed',
        'other',
        'cancelled',
      ]);
      expect(await stopped).toBeInstanceOf(CancelledError);
    });

    it('is asked for by the code of its own orchestration alone', async () => {
      let kept: Future<unknown> | undefined;
      const refused: string[] = [];
      const giveUp = () => {
        try {
          kept?.cancel();
        } catch (error) {
          expect(error).toBeInstanceOf(DeterminismError);
          refused.push((error as Error).message);
        }
      };
      await store.start((runtime) =>
        runtime
          .registerOrchestration('keeps', function* (ctx) {
            kept = ctx.scheduleTimer('1h');
            yield ctx.run('giveUp', async () => giveUp());
            ctx.setCustomStatus('waiting');
            return yield ctx.race([kept, ctx.waitForEvent('go')]);
          })
          .registerOrchestration('other', function* () {
            giveUp();
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'keeps');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      giveUp();
      const other = store.id();
      await store.client.startOrchestration(other, 'other');
      await store.client.waitForOrchestration(other, SOON);
      await store.client.raiseEvent(id, 'go', 'on');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({ index: 1, value: 'on' });
      const asleep = 'while its orchestration was not running (in a promise callback, a timer or an activity?)';
      expect(refused).toEqual(
        [asleep, asleep, 'from another orchestration'].map(
          (where) => `future.cancel was called ${where}: a future belongs to its own function*`,
        ),
      );
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('and ending an instance aborts the activities that it leaves running', async () => {
      const { register, begun, stopped } = holding();
      await store.start((runtime) =>
        register(runtime).registerOrchestration('leaves', function* (ctx) {
          ctx.scheduleActivity('hold');
          yield ctx.waitForEvent('go');
          return 'left';
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'leaves');
      await begun;
      await store.client.raiseEvent(id, 'go');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('left');
      expect(await stopped).toBeInstanceOf(CancelledError);
    });

    it('an instance that has ended changes nothing', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('quick', function* () {
          return 1;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'quick');
      const ended = await store.client.waitForOrchestration(id, SOON);
      await store.client.cancelInstance(id);
      await store.client.terminateInstance(id);
      expect(await store.client.getStatus(id)).toEqual(ended);
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });
  });

  describe('terminating', () => {
    it('ends at once, runs no more code, and aborts running activities', async () => {
      const { register, begun, stopped } = holding();
      const ran: string[] = [];
      const late = deferred();
      await store.start((runtime) =>
        register(runtime)
          .registerActivity('deaf', async () => {
            await late.promise;
            ran.push('deaf returned');
            return 'late';
          })
          .registerOrchestration('doomed', function* (ctx) {
            try {
              yield ctx.all([ctx.scheduleActivity('hold'), ctx.scheduleActivity('deaf')]);
            } finally {
              ran.push('finally');
            }
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'doomed');
      await begun;
      await store.client.terminateInstance(id, 'now');
      const status = await store.client.getStatus(id);
      expect(status).toMatchObject({ status: 'Terminated', completedAt: expect.any(Date) });
      expect(status?.error?.message).toContain('now');
      expect(await stopped).toBeInstanceOf(CancelledError);
      late.resolve();
      await store.settled();
      expect(ran).toEqual(['deaf returned']);
      expect(await store.client.waitForOrchestration(id, SOON)).toEqual(status);
      const history = await store.client.getHistory(id);
      expect(historyViolations(history, 'Terminated')).toEqual([]);
      expect(kinds(history)).toEqual([
        'ExecutionStarted',
        'ActivityScheduled',
        'ActivityScheduled',
        'ExecutionTerminated',
      ]);
    });

    it('needs no runtime, and wakes waiting clients', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'nobody registers this');
      const waiting = store.client.waitForOrchestration(id, SOON);
      await store.client.terminateInstance(id);
      expect(await waiting).toMatchObject({ status: 'Terminated' });
      await store.client.terminateInstance(id);
      expect(kinds(await store.client.getHistory(id))).toEqual(['ExecutionStarted', 'ExecutionTerminated']);
    });

    it('many while they work leaves nothing running', async () => {
      const begun = new Counter();
      const stopped = new Counter();
      const runtime = await store.start((r) =>
        r
          .registerActivity('hold', async (ctx) => {
            begun.add();
            await aborted(ctx.signal);
            stopped.add();
          })
          .registerOrchestration('many', function* (ctx) {
            yield ctx.scheduleActivity('hold');
          }),
      );
      const ids = Array.from({ length: 60 }, () => store.id('many'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'many')));
      await begun.reaches(60);
      await Promise.all(ids.map((id) => store.client.terminateInstance(id)));
      await stopped.reaches(60);
      expect(runtime.metrics()).toMatchObject({ ownedInstances: 0, runningActivities: 0, openActivities: 0 });
    });
  });
});

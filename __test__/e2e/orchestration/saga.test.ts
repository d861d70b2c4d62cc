import { CancelledError, CompensationError, defineActivity, defineOrchestration, type Undo } from 'perdure';
import { crashEverywhere } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { deferred } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

// `ctx.saga`: compensations, in reverse order, when nothing of the saga goes on any more.

const ONCE = { retry: { maxAttempts: 1 } };

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  function steps() {
    const log: string[] = [];
    const step = defineActivity('step', (_ctx, name: string) => void log.push(name), ONCE);
    const fail = defineActivity(
      'fail',
      (_ctx, name: string) => {
        log.push(name);
        throw new Error(`${name} failed`);
      },
      ONCE,
    );
    return { log, step, fail };
  }

  it('undoes its steps in reverse order, and throws the error of the failed one', async () => {
    const { log, step, fail } = steps();
    const trip = defineOrchestration('trip', function* (ctx) {
      return yield* ctx.saga(function* (undo) {
        undo(() => ctx.call(step, 'cancel flight'));
        yield* ctx.call(step, 'book flight');
        undo(function* () {
          yield* ctx.call(step, 'cancel hotel');
          yield* ctx.call(step, 'tell the hotel');
        });
        yield* ctx.call(step, 'book hotel');
        undo(() => ctx.call(step, 'cancel car'));
        yield* ctx.call(fail, 'book car');
        return 'booked';
      });
    });
    await store.start((runtime) => runtime.register(step, fail, trip));
    const error = await (await store.client.start(trip)).result().catch((caught) => caught);
    expect(error.name).toBe('ActivityError');
    expect(error.cause.message).toBe('book car failed');
    expect(log).toEqual([
      'book flight',
      'book hotel',
      'book car',
      'cancel car',
      'cancel hotel',
      'tell the hotel',
      'cancel flight',
    ]);
  });

  it('undoes nothing when it completes', async () => {
    const { log, step } = steps();
    const trip = defineOrchestration('trip', function* (ctx) {
      return yield* ctx.saga(function* (undo) {
        undo(() => ctx.call(step, 'cancel'));
        yield* ctx.call(step, 'book');
        return 'booked';
      });
    });
    await store.start((runtime) => runtime.register(step, trip));
    expect(await (await store.client.start(trip)).result()).toBe('booked');
    expect(log).toEqual(['book']);
  });

  it('runs all compensations although some fail, and names both errors', async () => {
    const { log, step, fail } = steps();
    const trip = defineOrchestration('trip', function* (ctx) {
      yield* ctx.saga(function* (undo) {
        undo(() => ctx.call(step, 'undo 1'));
        undo(() => ctx.call(fail, 'undo 2'));
        undo(() => ctx.call(fail, 'undo 3'));
        yield* ctx.call(fail, 'work');
      });
    });
    await store.start((runtime) => runtime.register(step, fail, trip));
    const error = await (await store.client.start(trip)).result().catch((caught) => caught);
    expect(error).toBeInstanceOf(CompensationError);
    expect(error.code).toBe('COMPENSATION');
    expect(error.cause.cause.message).toBe('work failed');
    expect(error.errors.map(({ cause }: Error) => (cause as Error).message)).toEqual([
      'undo 3 failed',
      'undo 2 failed',
    ]);
    expect(error.message).toContain('Then 2 of 3 compensations failed:');
    expect(log).toEqual(['work', 'undo 3', 'undo 2', 'undo 1']);
  });

  it('undoes its steps when the instance is cancelled, and no second request stops that', async () => {
    const { log, step } = steps();
    const [begun, gate] = [deferred(), deferred()];
    const slow = defineActivity('slow', async () => {
      begun.resolve();
      await gate.promise;
      log.push('undone slowly');
    });
    const trip = defineOrchestration('trip', function* (ctx) {
      yield* ctx.saga(function* (undo) {
        undo(() => ctx.call(step, 'undone last'));
        undo(() => ctx.call(slow));
        ctx.setCustomStatus('waiting');
        yield* ctx.waitForEvent('never');
      });
    });
    await store.start((runtime) => runtime.register(step, slow, trip));
    const handle = await store.client.start(trip);
    await store.client.waitForStatusChange(handle.id, 0, undefined, SOON);
    await handle.cancel('enough');
    await begun.promise;
    await handle.cancel('really');
    gate.resolve();
    const error = await handle.result().catch((caught) => caught);
    expect(error).toBeInstanceOf(CancelledError);
    expect(error.reason).toBe('enough');
    expect(log).toEqual(['undone slowly', 'undone last']);
    expect(await store.client.getStatus(handle.id)).toMatchObject({ status: 'Cancelled' });
  });

  // Each way leaves a step running when another one fails.
  it.each(['all without options', 'all with awaitLosers', 'map'] as const)(
    'undoes a parallel step that succeeded after another had failed: %s',
    async (way) => {
      const { log, step, fail } = steps();
      const [begun, gate] = [deferred(), deferred()];
      const slow = defineActivity('slow', async () => {
        begun.resolve();
        await gate.promise;
        log.push('book slowly');
      });
      const late = defineActivity(
        'late',
        async (_ctx, name: string) => {
          await begun.promise;
          log.push(name);
          throw new Error(`${name} failed`);
        },
        ONCE,
      );
      const trip = defineOrchestration('trip', function* (ctx) {
        yield* ctx.saga(function* (undo) {
          const slowly = function* () {
            undo(() => ctx.call(step, 'cancel slowly'));
            yield* ctx.call(slow);
            log.push('never again');
            yield* ctx.call(step, 'pay');
          };
          const fails = function* () {
            undo(() => ctx.call(step, 'cancel late'));
            try {
              yield* ctx.call(late, 'book late');
            } finally {
              ctx.setCustomStatus('failed');
            }
          };
          if (way === 'map') yield* ctx.map([slowly, fails], (block) => block());
          else if (way === 'all without options') yield* ctx.all([slowly(), fails()]);
          else yield* ctx.all([slowly(), fails()], { cancelLosers: true, awaitLosers: true });
        });
      });
      await store.start((runtime) => runtime.register(step, fail, slow, late, trip));
      const handle = await store.client.start(trip);
      await store.client.waitForStatusChange(handle.id, 0, undefined, SOON);
      gate.resolve();
      const error = await handle.result().catch((caught) => caught);
      expect(error.message).toContain('book late failed');
      expect(log).toEqual(['book late', 'book slowly', 'never again', 'cancel late', 'cancel slowly']);
    },
  );

  it('waits for an activity that is a branch itself', async () => {
    const { log, step } = steps();
    const [begun, gate] = [deferred(), deferred()];
    const slow = defineActivity('slow', async () => {
      begun.resolve();
      await gate.promise;
      log.push('slow');
      return 'slow';
    });
    const waits = defineOrchestration('waits', function* (ctx) {
      const losers = { cancelLosers: true, awaitLosers: true } as const;
      const fails = function* () {
        yield* ctx.run('begun', () => begun.promise);
        ctx.setCustomStatus('failed');
        throw new Error('failed');
      };
      try {
        yield* ctx.all([ctx.call(slow), fails(), ctx.waitForEvent('never')], losers);
      } catch (error) {
        yield* ctx.call(step, 'after');
        return (error as Error).message;
      }
    });
    await store.start((runtime) => runtime.register(step, slow, waits));
    const handle = await store.client.start(waits);
    await store.client.waitForStatusChange(handle.id, 0, undefined, SOON);
    gate.resolve();
    expect(await handle.result()).toBe('failed');
    expect(log).toEqual(['slow', 'after']);
  });

  it('refuses a compensation after its end', async () => {
    const late = defineOrchestration('late undo', function* (ctx) {
      let kept: Undo | undefined;
      yield* ctx.saga(function* (undo) {
        kept = undo;
      });
      try {
        kept?.(function* () {});
      } catch (error) {
        return (error as Error).name;
      }
    });
    await store.start((runtime) => runtime.register(late));
    expect(await (await store.client.start(late)).result()).toBe('DeterminismError');
  });
});

it('undoes the same with a crash at each place', async () => {
  const step = defineActivity('step', (_ctx, name: string) => name);
  const fail = defineActivity('fail', () => Promise.reject(new Error('no')), ONCE);
  const trip = defineOrchestration('trip', function* (ctx) {
    const undone: string[] = [];
    try {
      yield* ctx.saga(function* (undo) {
        undo(function* () {
          undone.push(yield* ctx.call(step, 'flight'));
        });
        yield* ctx.call(step, 'book flight');
        undo(function* () {
          undone.push(yield* ctx.call(step, 'hotel'));
        });
        yield* ctx.call(fail);
      });
    } catch {
      return undone;
    }
  });
  const { result } = await crashEverywhere(async (test) => {
    test.register(step, fail, trip);
    return (await test.start(trip)).result();
  });
  expect(result).toEqual(['hotel', 'flight']);
});

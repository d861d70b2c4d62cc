import { describe, expect, test } from 'vitest';

import { contextLocal } from '../../js/driver/context-local.ts';
import type { Deferred } from '../../js/driver/deferred.ts';
import { DeterminismError } from '../../js/errors/errors.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { outputOf, Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

describe('a deferred value', () => {
  test('reaches all current and later waiters once', () => {
    expect(
      outputOf(function* (ctx): Block {
        const ready = ctx.deferred<number>();
        const early = [1, 2].map(() =>
          ctx.spawn(function* (): Block {
            return yield* ready;
          }),
        );
        const raced = ctx.spawn(() => ctx.race(ready, ctx.waitForEvent('never')) as unknown as Block);
        yield ctx.spawn(function* () {});
        const settled = [
          ready.isSettled,
          ready.resolve(5),
          ready.resolve(6),
          ready.reject(new Error('late')),
          ready.isSettled,
        ];
        raced.cancel();
        return [...settled, ...(yield* ctx.all(early)), yield* ready];
      }),
    ).toEqual([false, true, false, false, true, 5, 5, 5]);
  });

  test('can fail, and can be cancelled', () => {
    expect(
      outputOf(function* (ctx): Block {
        const outcome = function* (deferred: Deferred<unknown>): Block {
          try {
            return yield* deferred;
          } catch (error) {
            return String(error);
          }
        };
        const [failed, cancelled] = [ctx.deferred(), ctx.deferred()];
        const waiting = ctx.all([outcome(failed), outcome(cancelled)]);
        failed.reject(new RangeError('no'));
        cancelled.cancel('never');
        return [...(yield* waiting), cancelled.resolve()];
      }),
    ).toEqual(['RangeError: no', 'CancelledError: cancelled: never', false]);
  });

  test('is a deadlock if it is never settled', () => {
    const script = new Script(function* (ctx): Block {
      yield ctx.deferred();
    });
    expect(script.turn()).toBe('failed');
    expect(script.engine.end?.payload).toMatch(/the main fiber waits for a deferred value/);
  });

  test('is settled by its own orchestration alone', () => {
    let leaked: Deferred<void> | undefined;
    const script = new Script(function* (ctx): Block {
      leaked = ctx.deferred();
      yield ctx.waitForEvent('never');
    });
    script.turn();
    expect(() => leaked?.resolve()).toThrow(DeterminismError);
    expect(() => leaked?.reject(1)).toThrow(/outside|not running/);
  });
});

describe('a value of a tree of fibers', () => {
  test('goes from a fiber to those that it spawns, and not back', () => {
    const user = contextLocal('nobody');
    const other = contextLocal<number>();
    const read = function* (ctx: OrchestrationContext): Block {
      yield ctx.spawn(function* () {});
      return `${user.get()} ${other.get()}`;
    };
    expect(
      outputOf(function* (ctx): Block {
        const before = yield* read(ctx);
        user.set('ada');
        const child = ctx.spawn(function* (): Block {
          const inherited = user.get();
          user.set('grace');
          other.set(5);
          return [inherited, ...(yield* ctx.all([read(ctx)]))];
        });
        user.set('alan');
        const changed = yield* ctx.all([read(ctx)]);
        return [before, yield* child, changed, user.get()];
      }),
    ).toEqual(['nobody undefined', ['ada', 'grace 5'], ['alan undefined'], 'alan']);
  });

  test('is of one orchestration, and nothing outside of one', () => {
    const user = contextLocal<string>();
    const scripts = ['a', 'b'].map(
      (name) =>
        new Script(function* (ctx): Block {
          user.set(name);
          yield ctx.scheduleActivity('step');
          return user.get();
        }),
    );
    for (const script of scripts) script.turn();
    for (const script of scripts) script.engine.succeed(2);
    expect(scripts.map((script) => script.output())).toEqual(['a', 'b']);
    expect(() => user.get()).toThrow(DeterminismError);
    expect(() => user.set('x')).toThrow(/contextLocal\(\)\.set was called while no orchestration was running/);
  });
});

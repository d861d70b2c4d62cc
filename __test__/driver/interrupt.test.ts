import { describe, expect, test } from 'vitest';

import { DeterminismError } from '../../js/errors/errors.ts';
import { Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

describe('interrupt', () => {
  class Reload extends Error {}

  test('throws where the fiber waits, again and again, and gives up nothing', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const work = ctx.scheduleActivity('work');
      const fiber = ctx.spawn(function* (): Block {
        for (;;) {
          try {
            return yield* work;
          } catch (error) {
            log.push((error as Error).message);
          }
        }
      });
      for (const n of [1, 2]) {
        yield ctx.scheduleActivity(`step ${n}`);
        fiber.interrupt(new Reload(`reload ${n}`));
      }
      const value = yield* fiber;
      fiber.interrupt(new Reload('too late'));
      return value;
    });
    script.turn();
    script.engine.succeed(3);
    script.turn();
    script.engine.succeed(4);
    script.turn();
    script.engine.succeed(2, 'done');
    expect(script.output()).toBe('done');
    expect(log).toEqual(['reload 1', 'reload 2']);
    expect(script.engine.commands).toEqual(['activity work', 'activity step 1', 'activity step 2']);
  });

  test('reaches all spawned fibers but uncancellable blocks, and a fiber that has not begun never begins', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const noting = function* (name: string): Block {
        try {
          yield ctx.waitForEvent('never');
        } catch (error) {
          log.push(`${name}: ${(error as Error).message}`);
          throw error;
        }
      };
      const fiber = ctx.spawn(function* (): Block {
        ctx.spawn(() => noting('beside'));
        ctx.uncancellable(() => noting('block'));
        yield* ctx.all([noting('branch'), ctx.spawn(() => noting('joined'))]);
      });
      yield ctx.scheduleActivity('step');
      const unbegun = ctx.spawn(() => noting('unbegun'));
      fiber.interrupt(new Reload('go'));
      unbegun.interrupt(new Reload('go'));
      for (const ended of [fiber, unbegun]) {
        try {
          yield ended;
        } catch (error) {
          log.push(`ended: ${(error as Error).message}`);
        }
      }
    });
    script.turn();
    script.engine.succeed(2);
    expect(script.turn()).toBe('completed');
    expect(log).toEqual(['beside: go', 'joined: go', 'branch: go', 'ended: go', 'ended: go']);
  });

  test('comes after an uncancellable block, and interrupts cleanup', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const fiber = ctx.spawn(function* (): Block {
        try {
          log.push(
            yield ctx.uncancellable(function* () {
              return yield ctx.scheduleActivity('block');
            }),
          );
          yield ctx.waitForEvent('never');
        } finally {
          yield ctx.scheduleActivity('cleanup');
          log.push('cleaned');
        }
      });
      yield ctx.scheduleActivity('step');
      fiber.interrupt(new Reload('one'));
      yield ctx.scheduleActivity('step');
      fiber.interrupt(new Reload('two'));
      try {
        yield fiber;
      } catch (error) {
        return [...log, (error as Error).message];
      }
    });
    script.turn();
    script.engine.succeed(2);
    script.turn();
    script.engine.succeed(3, 'block is done');
    script.turn();
    expect(script.engine.commands.at(-1)).toBe('activity cleanup');
    script.engine.succeed(4);
    expect(script.output()).toEqual(['block is done', 'two']);
  });

  test('leaves a cancellation that is on its way alone', () => {
    const script = new Script(function* (ctx): Block {
      const fiber = ctx.spawn(function* (): Block {
        yield ctx.all([
          (function* (): Block {
            try {
              yield ctx.waitForEvent('never');
            } finally {
              yield ctx.scheduleActivity('undo');
            }
          })(),
        ]);
      });
      yield ctx.scheduleActivity('step');
      fiber.cancel('stop');
      fiber.interrupt(new Reload('no'));
      try {
        yield fiber;
      } catch (error) {
        return String(error);
      }
    });
    script.turn();
    script.engine.succeed(2);
    script.turn();
    script.engine.succeed(script.engine.commands.indexOf('activity undo') + 2);
    expect(script.output()).toBe('CancelledError: cancelled: stop');
  });

  test('takes an error, within its orchestration', () => {
    let leaked: { interrupt(error: Error): void } | undefined;
    const script = new Script(function* (ctx): Block {
      leaked = ctx.spawn(function* (): Block {
        yield ctx.waitForEvent('never');
      });
      for (const wrong of [undefined, 'text', {}])
        expect(() => leaked?.interrupt(wrong as never)).toThrow(/fiber\.interrupt takes an error/);
      yield ctx.waitForEvent('never');
    });
    script.turn();
    expect(() => leaked?.interrupt(new Error('x'))).toThrow(DeterminismError);
  });
});

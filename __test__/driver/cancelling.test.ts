import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import { CancelledError } from '../../js/errors/errors.ts';
import { Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

import { outcome } from './outcome.ts';

describe('a cancellation', () => {
  test('that comes while a fiber cleans up after one does not interrupt it', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const fiber = ctx.spawn(function* (): Block {
        try {
          yield ctx.scheduleActivity('work');
        } finally {
          log.push(String(yield* outcome(ctx.scheduleActivity('undo'))));
        }
      });
      yield ctx.spawn(function* () {});
      fiber.cancel('one');
      yield ctx.spawn(function* () {});
      fiber.cancel('two');
      ctx.all([fiber]).cancel('three');
      return yield* outcome(fiber);
    });
    script.turn();
    script.engine.succeed(4, 'undone');
    expect(script.output()).toBe('CancelledError: cancelled: one');
    expect(log).toEqual(['undone']);
    expect(script.engine.commands).toEqual(['activity work', 'cancel 2', 'activity undo']);
  });

  test('of a fiber that is ready reaches it all the same, at the yield where it is', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const shared = ctx.scheduleActivity('a');
      const second: Future<unknown>[] = [];
      ctx.spawn(function* (): Block {
        yield shared;
        second[0]?.cancel('late');
      });
      second.push(
        ctx.spawn(function* (): Block {
          try {
            yield shared;
            log.push('went on');
          } finally {
            log.push('finally');
          }
        }),
      );
      return yield* outcome(second[0] as Future<unknown>);
    });
    script.turn();
    script.engine.succeed(2);
    expect(script.output()).toBe('CancelledError: cancelled: late');
    expect(log).toEqual(['finally']);
  });

  test('of a fiber in a combinator gives up the whole combination, unless others wait for parts of it', () => {
    const script = new Script(function* (ctx): Block {
      const [mine, shared] = [ctx.scheduleActivity('mine'), ctx.scheduleActivity('shared')];
      const fiber = ctx.spawn(function* (): Block {
        yield* ctx.all([
          mine,
          ctx.race(
            ctx.sleep(5),
            (function* (): Block {
              try {
                yield ctx.scheduleActivity('deep');
              } finally {
                yield ctx.scheduleActivity('undo deep');
              }
            })(),
          ),
        ]);
      });
      yield ctx.scheduleActivity('go');
      fiber.cancel();
      return [yield* outcome(fiber), yield shared];
    });
    script.turn();
    expect(script.engine.commands).toEqual([
      'activity mine',
      'activity shared',
      'activity go',
      'timer +5',
      'activity deep',
    ]);
    script.engine.succeed(4);
    script.turn();
    expect(script.engine.commands.slice(5)).toEqual(['cancel 6', 'cancel 2', 'cancel 5', 'activity undo deep']);
    script.engine.succeed(3, 'shared');
    expect(script.turn()).toBe('waiting'); // for the block's cleanup
    script.engine.succeed(10);
    expect(script.output()).toEqual(['CancelledError: cancelled', 'shared']);
  });

  test('of the instance gives up sends that wait', () => {
    const script = new Script(function* (ctx): Block {
      const channel = ctx.channel<string>(0);
      ctx.spawn(function* (): Block {
        yield* channel.send('gone');
      });
      try {
        yield ctx.waitForEvent('never');
      } catch {
        channel.close();
        return typeof (yield* channel.receive());
      }
    });
    script.turn();
    script.engine.cancel();
    expect(script.output()).toBe('symbol');
  });

  test('runs every finally, the innermost first, and cleanup waits for fresh work', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const level = function* (depth: number): Block {
        try {
          if (depth === 0) yield ctx.waitForEvent('never');
          else yield* level(depth - 1);
        } finally {
          log.push(`${depth}:${yield ctx.scheduleActivity(`undo${depth}`)}`);
        }
      };
      yield* level(2);
    });
    script.turn();
    script.engine.cancel();
    for (const operation of [2, 3, 4]) {
      expect(script.turn()).toBe('waiting');
      script.engine.succeed(operation, 'ok');
    }
    expect(script.turn()).toBe('cancelled');
    expect(log).toEqual(['0:ok', '1:ok', '2:ok']);
  });

  test('that is caught by one fiber is still thrown in the others', () => {
    const script = new Script(function* (ctx): Block {
      const stubborn = ctx.spawn(function* (): Block {
        for (;;) {
          try {
            return yield ctx.waitForEvent('e');
          } catch (error) {
            if (!(error instanceof CancelledError)) throw error;
          }
        }
      });
      const soft = ctx.spawn(() => outcome(ctx.waitForEvent('f')));
      try {
        yield ctx.waitForEvent('g');
      } catch {
        return yield ctx.all([stubborn, soft]);
      }
    });
    script.turn();
    script.engine.cancel();
    expect(script.turn()).toBe('waiting');
    script.engine.post('ee', 'here');
    expect(script.output()).toEqual(['here', 'CancelledError: cancelled']);
  });
});

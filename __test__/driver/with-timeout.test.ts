import { describe, expect, test } from 'vitest';

import { TimeoutError } from '../../js/errors/errors.ts';
import { Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

import { outcome } from './outcome.ts';

describe('withTimeout', () => {
  test("gives the branch's value, and cancels its timer", () => {
    const script = new Script(function* (ctx): Block {
      const value = yield* ctx.withTimeout('1s', ctx.scheduleActivity<string>('a'));
      yield ctx.scheduleActivity('b');
      return value;
    });
    script.turn();
    expect(script.engine.commands).toEqual(['activity a', 'timer +1000']);
    expect(script.engine.lastAwaited.timers).toEqual([3]);
    script.engine.succeed(2, 'A');
    script.turn();
    expect(script.engine.commands.slice(2)).toEqual(['cancel 3', 'activity b']);
    expect(script.engine.lastAwaited.timers).toBeNull();
    script.engine.succeed(5);
    expect(script.output()).toBe('A');
  });

  test('throws TimeoutError when the time is up, and cancels the branch', () => {
    const script = new Script(function* (ctx): Block {
      try {
        yield* ctx.withTimeout(250, ctx.scheduleActivity('a'));
      } catch (error) {
        const { name, code, timeoutMs, message } = error as TimeoutError;
        return [error instanceof TimeoutError, name, code, timeoutMs, message];
      }
    });
    script.turn();
    script.engine.due(3);
    expect(script.output()).toEqual([true, 'TimeoutError', 'TIMEOUT', 250, 'timed out after 250 ms']);
    expect(script.engine.commands).toEqual(['activity a', 'timer +250', 'cancel 2']);
  });

  test('fails as the branch fails', () => {
    const script = new Script(function* (ctx): Block {
      return yield* outcome(
        ctx.withTimeout(
          250,
          (function* (): Block {
            yield ctx.scheduleActivity('a');
            throw new RangeError('mine');
          })(),
        ),
      );
    });
    script.turn();
    script.engine.succeed(3); // the fiber began after the timer was made
    expect(script.output()).toBe('RangeError: mine');
    expect(script.engine.commands).toEqual(['timer +250', 'activity a', 'cancel 2']);
  });

  test('waits until its block has cleaned up', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const block = ctx.spawn(function* (): Block {
        try {
          yield ctx.scheduleActivity('slow');
        } catch (error) {
          log.push((error as Error).message);
        } finally {
          yield ctx.scheduleActivity('undo');
          log.push('undone');
        }
      });
      log.push((yield* outcome(ctx.withTimeout(5, block))) as string);
      yield block;
    });
    script.turn();
    script.engine.due(2);
    script.turn();
    expect(log).toEqual(['cancelled: timed out after 5 ms']);
    expect(script.engine.commands).toEqual(['timer +5', 'activity slow', 'cancel 3', 'activity undo']);
    script.engine.succeed(5);
    script.output();
    expect(log).toEqual(['cancelled: timed out after 5 ms', 'undone', 'TimeoutError: timed out after 5 ms']);
  });

  test('holds for a fiber that is not awaited yet', () => {
    const script = new Script(function* (ctx): Block {
      const limited = ctx.withTimeout(
        5,
        (function* (): Block {
          yield ctx.scheduleActivity('slow');
        })(),
      );
      const first = yield ctx.scheduleActivity('first');
      return [first, yield* outcome(limited)];
    });
    script.turn();
    expect(script.engine.lastAwaited.timers).toEqual([2]);
    script.engine.due(2);
    script.turn();
    expect(script.engine.commands).toEqual(['timer +5', 'activity first', 'activity slow', 'cancel 4']);
    script.engine.succeed(3, 1);
    expect(script.output()).toEqual([1, 'TimeoutError: timed out after 5 ms']);
  });

  test('cancels the timer of a fiber that ends before it is awaited', () => {
    const script = new Script(function* (ctx): Block {
      const limited = ctx.withTimeout(
        5,
        (function* (): Block {
          return yield ctx.scheduleActivity('quick');
        })(),
      );
      yield ctx.scheduleActivity('first');
      return yield* outcome(limited);
    });
    script.turn();
    script.engine.succeed(4, 'Q');
    script.turn();
    expect(script.engine.commands.at(-1)).toBe('cancel 2');
    expect(script.engine.lastAwaited.timers).toBeNull();
    script.engine.succeed(3);
    expect(script.output()).toBe('Q');
  });

  test('of a wait takes no message while it is not awaited', () => {
    const script = new Script(function* (ctx): Block {
      const limited = ctx.withTimeout(5, ctx.waitForEvent('e'));
      yield ctx.scheduleActivity('first');
      return [yield ctx.waitForEvent('e'), yield* outcome(limited)];
    });
    script.turn();
    expect(script.engine.lastAwaited).toEqual({ mailboxes: null, timers: [2] });
    script.engine.post('ee', 'mine');
    script.engine.succeed(3);
    script.turn();
    expect(script.engine.lastAwaited).toEqual({ mailboxes: ['ee'], timers: [2] });
    script.engine.due(2);
    expect(script.output()).toEqual(['mine', 'TimeoutError: timed out after 5 ms']);
  });

  test('has the outcome of the earlier event, also when it is awaited late', () => {
    for (const [first, expected] of [
      ['timer', 'TimeoutError: timed out after 5 ms'],
      ['event', 'E'],
    ] as const) {
      const script = new Script(function* (ctx): Block {
        const event = ctx.waitForEvent('e');
        const watch = ctx.spawn(() => outcome(event));
        const limited = ctx.withTimeout(5, event);
        yield ctx.scheduleActivity('late');
        return [yield* outcome(limited), yield watch];
      });
      script.turn();
      if (first === 'timer') script.engine.due(2);
      else script.engine.post('ee', 'E');
      script.turn();
      script.engine.succeed(3);
      const [result] = script.output() as unknown[];
      expect(result).toBe(expected);
    }
  });

  test('nests in combinators and in itself', () => {
    const script = new Script(function* (ctx): Block {
      const inner = ctx.withTimeout(10, ctx.waitForEvent('a'));
      return yield* outcome(ctx.withTimeout(20, ctx.all([inner, ctx.scheduleActivity('b')])));
    });
    script.turn();
    script.engine.due(2);
    expect(script.output()).toBe('TimeoutError: timed out after 10 ms');
    expect(script.engine.commands).toEqual(['timer +10', 'activity b', 'timer +20', 'cancel 4']);
  });

  test('of a settled future needs no time, and wrong arguments are named', () => {
    const script = new Script(function* (ctx): Block {
      const a = ctx.scheduleActivity('a');
      yield a;
      const value = yield* ctx.withTimeout(1, a);
      const messages: string[] = [];
      for (const wrong of [
        () => ctx.withTimeout('soon' as never, a),
        () => ctx.withTimeout(-1, a),
        () => ctx.withTimeout(1, 5 as never),
        () => ctx.withTimeout(1, function* () {} as never),
      ]) {
        try {
          wrong();
        } catch (error) {
          messages.push(`${(error as Error).name}: ${(error as Error).message}`);
        }
      }
      return [value, ...messages];
    });
    script.turn();
    script.engine.succeed(2, 'A');
    expect(script.output()).toEqual([
      'A',
      expect.stringMatching(/^TypeError: ctx\.withTimeout: the duration must be .*'soon'/),
      expect.stringMatching(/^TypeError: ctx\.withTimeout: the duration .*-1/),
      'TypeError: ctx.withTimeout: the branch must be a future or a generator, not the number 5',
      expect.stringMatching(/^TypeError: ctx\.withTimeout: the branch .*a function: call it/),
    ]);
    expect(script.engine.commands).toEqual(['activity a', 'timer +1', 'cancel 3']);
  });

  test('lets a cancelled instance clean up in peace: its block is told once', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      ctx.withTimeout(
        5,
        (function* (): Block {
          try {
            yield ctx.scheduleActivity('slow');
          } finally {
            log.push('cleans');
            log.push(String(yield* outcome(ctx.scheduleActivity('undo'))));
          }
        })(),
      );
      try {
        yield ctx.waitForEvent('never');
      } finally {
        yield ctx.waitForEvent('end');
      }
    });
    script.turn();
    script.engine.cancel('stop');
    script.turn();
    expect(script.engine.commands).toEqual(['timer +5', 'activity slow', 'cancel 2', 'cancel 3', 'activity undo']);
    script.engine.succeed(6, 'undone');
    script.turn();
    expect(log).toEqual(['cleans', 'undone']);
    script.engine.post('eend');
    expect(script.turn()).toBe('cancelled');
  });
});

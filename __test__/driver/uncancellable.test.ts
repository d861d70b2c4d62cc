import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import { CancelledError, TimeoutError } from '../../js/errors/errors.ts';
import { outputOf, Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

/** Returns the value of a future, or the name and message of its error. */
function* outcome(future: Future<unknown>): Generator<any, unknown, any> {
  try {
    return yield future;
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`;
  }
}

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

  test('holds for a fiber that nobody waits for yet', () => {
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

  test('cancels the timer of a fiber that ends while nobody waits for it', () => {
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

  test('of a wait eats no message while nobody waits for it', () => {
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

  test('decides by what came first, whenever it is looked at', () => {
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

  test('of what has settled needs no time, and says what is wrong with its arguments', () => {
    const script = new Script(function* (ctx): Block {
      const a = ctx.scheduleActivity('a');
      yield a;
      const value = yield* ctx.withTimeout(1, a);
      const messages: string[] = [];
      for (const wrong of [
        () => ctx.withTimeout('soon', a),
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

describe('uncancellable', () => {
  test('gives the value of its block, and what it throws', () => {
    expect(
      outputOf(function* (ctx): Block {
        return [
          yield* ctx.uncancellable(function* () {
            return 1;
          }),
          yield* outcome(
            ctx.uncancellable(function* () {
              throw new Error('mine');
            }),
          ),
          yield* outcome(
            ctx.uncancellable(
              (function* () {
                return 2;
              })(),
            ),
          ),
        ];
      }),
    ).toEqual([1, 'Error: mine', 2]);
  });

  test('is not interrupted when the instance is cancelled; that comes at the next wait', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const outside = ctx.scheduleActivity('outside');
      const sum: number = yield* ctx.uncancellable(function* () {
        const a: number = yield ctx.scheduleActivity('a');
        const b: number = yield ctx.scheduleActivity('b');
        return a + b;
      });
      log.push(`sum ${sum}`);
      log.push(String(yield* outcome(outside)));
      log.push(String(yield* outcome(ctx.scheduleActivity('after'))));
      return yield ctx.scheduleActivity('cleanup');
    });
    script.turn();
    script.engine.cancel('stop');
    script.turn();
    expect(script.engine.commands).toEqual(['activity outside', 'activity a', 'cancel 2']);
    script.engine.succeed(3, 1);
    script.turn();
    expect(script.engine.commands.slice(3)).toEqual(['activity b']);
    script.engine.succeed(5, 2);
    script.turn();
    expect(log).toEqual(['sum 3', 'CancelledError: cancelled: stop', 'CancelledError: cancelled: stop']);
    // The operation that it was about to wait for is given up, as if it had waited already.
    expect(script.engine.commands.slice(4)).toEqual(['activity after', 'cancel 6', 'activity cleanup']);
    script.engine.succeed(8, 'clean');
    expect(script.output()).toBe('clean');
  });

  test('protects the fibers, branches, timers and waits of its block', () => {
    const script = new Script(function* (ctx): Block {
      return yield* ctx.uncancellable(function* () {
        return yield* ctx.all([
          (function* (): Block {
            return yield ctx.scheduleActivity('a');
          })(),
          ctx.spawn(function* (): Block {
            yield ctx.sleep(5);
            return 't';
          }),
          ctx.waitForEvent('e'),
        ]);
      });
    });
    script.turn();
    script.engine.cancel();
    script.turn();
    expect(script.engine.lastAwaited).toEqual({ mailboxes: ['ee'], timers: [2] });
    script.engine.succeed(3, 'a');
    script.engine.due(2);
    script.engine.post('ee', 'e');
    expect(script.output()).toEqual(['a', 't', 'e']);
    expect(script.engine.commands).toEqual(['timer +5', 'activity a']);
  });

  test('nests', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      yield* ctx.uncancellable(function* () {
        yield* ctx.uncancellable(function* () {
          log.push(yield ctx.scheduleActivity('inner'));
        });
        log.push(yield ctx.scheduleActivity('outer'));
      });
      yield ctx.scheduleActivity('after');
    });
    script.turn();
    script.engine.cancel();
    script.engine.succeed(2, 'inner');
    script.turn();
    script.engine.succeed(3, 'outer');
    expect(script.turn()).toBe('cancelled');
    expect(log).toEqual(['inner', 'outer']);
    expect(script.engine.commands.slice(2)).toEqual(['activity after', 'cancel 4']);
  });

  test('two blocks in a row are both done before the cancellation comes', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      for (const name of ['one', 'two']) {
        yield* ctx.uncancellable(function* () {
          log.push(yield ctx.scheduleActivity(name));
        });
      }
      yield ctx.sleep(1);
    });
    script.turn();
    script.engine.cancel();
    script.engine.succeed(2, 'one');
    script.turn();
    script.engine.succeed(3, 'two');
    expect(script.turn()).toBe('cancelled');
    expect(log).toEqual(['one', 'two']);
  });

  test('holds for a fiber that is cancelled by another one', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const fiber = ctx.spawn(function* (): Block {
        log.push(
          yield* ctx.uncancellable(function* () {
            return yield ctx.scheduleActivity('a');
          }),
        );
        yield ctx.waitForEvent('never');
      });
      yield ctx.scheduleActivity('go');
      fiber.cancel('enough');
      return yield* outcome(fiber);
    });
    script.turn();
    script.engine.succeed(2);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(3, 'A');
    expect(script.output()).toBe('CancelledError: cancelled: enough');
    expect(log).toEqual(['A']);
  });

  test('is not ended by cancel() of its future, by a race that it lost or by a timeout', () => {
    const script = new Script(function* (ctx): Block {
      const block = ctx.uncancellable(function* () {
        return yield ctx.scheduleActivity('a');
      });
      block.cancel();
      const raced = yield* ctx.race(block, ctx.scheduleActivity('b'), { cancelLosers: true });
      const timed = yield* outcome(ctx.withTimeout(5, block));
      return [raced.index, timed, yield block];
    });
    script.turn();
    script.engine.succeed(2, 'b'); // its call came first
    script.turn();
    script.engine.due(4);
    script.turn();
    script.engine.succeed(3, 'a');
    expect(script.output()).toEqual([1, 'TimeoutError: timed out after 5 ms', 'a']);
  });

  test('lets its own fibers be cancelled from within', () => {
    const script = new Script(function* (ctx): Block {
      return yield* ctx.uncancellable(function* () {
        const fiber = ctx.spawn(function* (): Block {
          yield ctx.scheduleActivity('a');
        });
        yield ctx.scheduleActivity('b');
        fiber.cancel('inside');
        return yield* outcome(fiber);
      });
    });
    script.turn();
    script.engine.succeed(2);
    expect(script.output()).toBe('CancelledError: cancelled: inside');
  });

  test('is done before a cancelled instance ends, wherever the others are', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const transfer = (name: string) =>
        ctx.uncancellable(function* () {
          yield ctx.scheduleActivity(`debit ${name}`);
          yield ctx.scheduleActivity(`credit ${name}`);
          log.push(name);
        });
      ctx.spawn(function* (): Block {
        yield transfer('spawned');
      });
      yield ctx.all([transfer('x'), transfer('y')]);
    });
    script.turn();
    script.engine.cancel('stop');
    expect(script.turn()).toBe('waiting');
    for (const operation of [2, 3, 4]) script.engine.succeed(operation);
    expect(script.turn()).toBe('waiting');
    for (const operation of [7, 6]) script.engine.succeed(operation);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(5);
    expect(script.turn()).toBe('cancelled');
    expect(log).toHaveLength(3);
    expect(JSON.parse(script.engine.end?.payload ?? '')).toMatchObject({ message: 'cancelled: stop' });
    expect(script.engine.commands.filter((command) => command.startsWith('cancel'))).toEqual([]);
  });

  test('is dropped like every fiber when the orchestration returns without having been cancelled', () => {
    expect(
      outputOf(function* (ctx): Block {
        ctx.uncancellable(function* () {
          yield ctx.scheduleActivity('a');
        });
        yield ctx.spawn(function* () {});
        return 'done';
      }),
    ).toBe('done');
  });

  test('says what it takes', () => {
    const script = new Script(function* (ctx): Block {
      ctx.uncancellable(5 as never);
    });
    expect(script.turn()).toBe('failed');
    expect(script.engine.end?.payload).toMatch(/ctx\.uncancellable takes a function\*.*not the number 5/);
  });
});

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

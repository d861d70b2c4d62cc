import { describe, expect, test } from 'vitest';

import { outputOf, Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

import { outcome } from './outcome.ts';

describe('uncancellable', () => {
  test('gives the value of its block, and throws its error', () => {
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

  test('names the expected argument when it is given another', () => {
    const script = new Script(function* (ctx): Block {
      ctx.uncancellable(5 as never);
    });
    expect(script.turn()).toBe('failed');
    expect(script.engine.end?.payload).toMatch(/ctx\.uncancellable takes a function\*.*not the number 5/);
  });
});

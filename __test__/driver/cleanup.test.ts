import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import { CancelledError } from '../../js/errors/errors.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { type Block, book, undoAll } from './cleanup-blocks.ts';
import { Script } from './scripted-engine.ts';

/** Waits for a future and logs its outcome. */
function* noting(log: string[], name: string, future: Future<unknown>): Block {
  try {
    log.push(`${name}: ${JSON.stringify(yield future)}`);
  } catch (error) {
    log.push(`${name}: ${String(error)}`);
    throw error;
  }
}

describe('an instance that is cancelled ends after the cleanup', () => {
  const shapes: Record<string, (ctx: OrchestrationContext, a: Block, b: Block) => Block> = {
    *all(ctx, a, b) {
      yield ctx.all([a, b]);
    },
    *allSettled(ctx, a, b) {
      yield ctx.allSettled([a, b]);
    },
    *race(ctx, a, b) {
      yield ctx.race(a, b);
    },
    *'a race that cancels losers'(ctx, a, b) {
      yield ctx.race([a, b], { cancelLosers: true });
    },
    *select(ctx, a, b) {
      yield ctx.select({ a, b });
    },
    *'fibers that are joined'(ctx, a, b) {
      yield ctx.allSettled([ctx.spawn(a), ctx.spawn(b)]);
    },
    *'fibers that are not awaited'(ctx, a, b) {
      ctx.spawn(a);
      ctx.spawn(b);
      yield ctx.waitForEvent('never');
    },
    *withTimeout(ctx, a, b) {
      yield ctx.withTimeout('1h', ctx.all([a, b]));
    },
    *'combinators in combinators'(ctx, a, b) {
      yield ctx.all([ctx.race(a, ctx.sleep('1h')), ctx.withTimeout('1h', ctx.any([b]))]);
    },
    *'fibers of fibers'(ctx, a, b) {
      yield ctx.spawn(function* () {
        ctx.spawn(a);
        yield ctx.spawn(b);
      });
    },
    *'fibers left by an ended fiber'(ctx, a, b) {
      yield ctx.spawn(function* () {
        ctx.spawn(a);
        ctx.spawn(b);
      });
      yield ctx.waitForEvent('never');
    },
  };

  test.each(Object.entries(shapes))('of %s', (name, shape) => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      try {
        yield* shape(ctx, book(ctx, log, 'a'), book(ctx, log, 'b'));
      } catch (error) {
        log.push(`main: ${String(error)}`);
        throw error;
      }
    });
    expect(script.turn()).toBe('waiting');
    script.engine.cancel('stop');
    expect(undoAll(script)).toBe('cancelled');
    const isJoined = !/not awaited|left/.test(name);
    const cleanup = ['a undoes', 'b undoes', 'a undone', 'b undone'];
    const main = 'main: CancelledError: cancelled: stop';
    expect(log).toEqual(isJoined ? [...cleanup, main] : [main, ...cleanup]);
    expect(script.engine.patches).toEqual(['perdure.scopes']);
    expect(JSON.parse(script.engine.end?.payload ?? '')).toMatchObject({ message: 'cancelled: stop' });
  });

  test('which runs from the inside out, and with steps that cannot be cancelled', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const nested = function* (depth: number): Block {
        try {
          if (depth === 3) yield ctx.waitForEvent('never');
          else yield ctx.all([nested(depth + 1)]);
        } finally {
          yield ctx.uncancellable(function* () {
            yield ctx.scheduleActivity(`undo ${depth}`);
          });
          log.push(`undone ${depth}`);
        }
      };
      yield* nested(0);
    });
    script.turn();
    script.engine.cancel();
    expect(undoAll(script)).toBe('cancelled');
    expect(log).toEqual(['undone 3', 'undone 2', 'undone 1', 'undone 0']);
  });

  test('that a second request does not interrupt, nor one that comes while a single fiber cleans up', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const fiber = ctx.spawn(book(ctx, log, 'a'));
      ctx.spawn(book(ctx, log, 'b'));
      yield ctx.scheduleActivity('go');
      fiber.cancel('first');
      yield* noting(log, 'fiber', fiber);
    });
    script.turn();
    script.engine.succeed(2);
    script.turn();
    expect(script.engine.commands.slice(3)).toEqual(['cancel 3', 'activity undo a']);
    script.engine.cancel('second');
    script.turn();
    script.engine.cancel('third');
    expect(undoAll(script)).toBe('cancelled');
    expect(script.engine.commands.slice(5)).toEqual(['cancel 4', 'activity undo b']);
    expect(log).toEqual(['a undoes', 'b undoes', 'a undone', 'fiber: CancelledError: cancelled: second', 'b undone']);
  });

  test('also when the code never waits', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const fiber = ctx.spawn(book(ctx, log, 'a'));
      yield ctx.scheduleActivity('first');
      ctx.spawn(function* () {
        log.push('begun all the same');
      });
      for (let i = 0; i < 300; i += 1) ctx.scheduleActivity('more');
      yield* noting(log, 'fiber', fiber);
    });
    script.engine.interruptAt = 1;
    script.turn();
    script.engine.succeed(2);
    expect(undoAll(script)).toBe('cancelled');
    expect(log).toEqual(['a undoes', 'a undone', 'fiber: CancelledError: cancelled: stop']);
  });

  test('with the failure of a cleanup as the cause of its error', () => {
    const script = new Script(function* (ctx): Block {
      const failing = function* (name: string): Block {
        try {
          yield ctx.waitForEvent('never');
        } finally {
          throw new RangeError(name);
        }
      };
      try {
        yield ctx.all([failing('x'), book(ctx, [], 'fine')]);
      } catch (error) {
        expect((error as Error).cause).toMatchObject({ name: 'RangeError', message: 'x' });
        try {
          const both = ctx.all([failing('y'), failing('z')]);
          const waiting = ctx.spawn(() => noting([], 'both', both));
          yield ctx.sleep(1);
          waiting.cancel('again');
          yield waiting;
        } catch (again) {
          expect(again).toBeInstanceOf(CancelledError);
          expect((again as Error).message).toBe('cancelled: again');
          expect(((again as Error).cause as AggregateError).errors.map(String)).toEqual([
            'RangeError: y',
            'RangeError: z',
          ]);
        }
        throw error;
      }
    });
    script.turn();
    script.engine.cancel('stop');
    script.turn();
    script.engine.succeed(script.engine.commands.indexOf('activity undo fine') + 2);
    script.turn();
    script.engine.due(script.engine.commands.indexOf('timer +1') + 2);
    expect(script.turn()).toBe('cancelled');
  });

  test('that waits for each other: the youngest goes first', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const waitsFor = function* (name: string, other: () => Future<unknown>): Block {
        try {
          yield other();
        } finally {
          log.push(name);
        }
      };
      const first: Future<unknown> = ctx.spawn(() => waitsFor('first', () => second));
      const second: Future<unknown> = ctx.spawn(() => waitsFor('second', () => first));
      const parent: Future<unknown> = ctx.spawn(function* () {
        ctx.spawn(() => waitsFor('child', () => parent));
        yield* waitsFor('parent', () => ctx.waitForEvent('never'));
      });
      yield* noting(log, 'main', ctx.all([first, second, parent]));
    });
    script.turn();
    script.engine.cancel('stop');
    expect(script.turn()).toBe('cancelled');
    expect(log).toEqual(['parent', 'child', 'second', 'first', 'main: CancelledError: cancelled: stop']);
  });

  test('unless that can never end: then it is a deadlock', () => {
    const script = new Script(function* (ctx): Block {
      yield ctx.all([
        (function* (): Block {
          try {
            yield ctx.waitForEvent('never');
          } finally {
            yield ctx.channel().receive();
          }
        })(),
      ]);
    });
    script.turn();
    script.engine.cancel('stop');
    expect(script.turn()).toBe('cancelled');
  });

  test('and asks nothing of the engine where only the main fiber lives', () => {
    const script = new Script(function* (ctx): Block {
      yield ctx.spawn(function* () {});
      yield ctx.race([ctx.scheduleActivity('a'), ctx.sleep('1h')], { cancelLosers: true });
    });
    script.turn();
    script.engine.cancel();
    expect(script.turn()).toBe('cancelled');
    expect(script.engine.patches).toEqual([]);
  });
});

describe('losers that are cancelled', () => {
  test('clean up before the race settles', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      yield* noting(
        log,
        'race',
        ctx.race([ctx.scheduleActivity('quick'), book(ctx, log, 'slow')], { cancelLosers: true }),
      );
    });
    script.turn();
    script.engine.succeed(2, 1);
    expect(undoAll(script)).toBe('completed');
    expect(log).toEqual(['slow undoes', 'slow undone', 'race: {"index":0,"value":1}']);
  });

  test('count for a combinator around theirs as late as they end', () => {
    const script = new Script(function* (ctx): Block {
      const inner = ctx.race([ctx.scheduleActivity('quick'), book(ctx, [], 'slow')], { cancelLosers: true });
      const timer = ctx.sleep(5);
      // A fiber waits for `inner`, so its race is decided.
      ctx.spawn(() => noting([], 'inner', inner));
      const first = yield* ctx.race(timer, inner);
      yield ctx.scheduleActivity('later');
      return [first.index, (yield* ctx.race(timer, inner)).index];
    });
    script.turn();
    script.engine.succeed(2);
    script.turn();
    script.engine.due(3);
    script.turn();
    script.engine.succeed(script.engine.commands.indexOf('activity undo slow') + 2);
    script.turn();
    script.engine.succeed(script.engine.commands.indexOf('activity later') + 2);
    expect(script.output()).toEqual([0, 0]);
  });

  test('that have not begun never begin, and are not waited for', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const done = ctx.scheduleActivity('done');
      yield done;
      const race = ctx.race([done, book(ctx, log, 'late')], { cancelLosers: true });
      yield race;
      return log;
    });
    script.turn();
    script.engine.succeed(2);
    expect(script.output()).toEqual([]);
    expect(script.engine.patches).toEqual([]);
  });

  test('do not hold a race up where they are blocks that nothing cancels', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const block = ctx.uncancellable(function* () {
        yield ctx.scheduleActivity('block');
        log.push('block');
      });
      yield* noting(log, 'race', ctx.race([ctx.scheduleActivity('quick'), block], { cancelLosers: true }));
      yield block;
    });
    script.turn();
    script.engine.succeed(2);
    script.turn();
    script.engine.succeed(3);
    script.turn();
    expect(log).toEqual(['race: {"index":0}', 'block']);
  });
});

describe('a fiber that is cancelled', () => {
  test('cancels its own fibers and blocks, and settles after their cleanup', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const fiber = ctx.spawn(function* () {
        ctx.spawn(book(ctx, log, 'a'));
        ctx.uncancellable(function* () {
          yield ctx.scheduleActivity('undo block');
          log.push('block done');
        });
        yield ctx.waitForEvent('never');
      });
      yield ctx.scheduleActivity('go');
      fiber.cancel('stop');
      try {
        yield* noting(log, 'fiber', fiber);
      } catch {
        return 'goes on';
      }
    });
    script.turn();
    script.engine.succeed(2);
    expect(undoAll(script)).toBe('completed');
    expect(log).toEqual(['a undoes', 'block done', 'a undone', 'fiber: CancelledError: cancelled: stop']);
  });

  test('keeps operations that other fibers wait for, also within a combination', () => {
    const script = new Script(function* (ctx): Block {
      const shared = ctx.scheduleActivity('shared');
      const [one, two] = ['one', 'two'].map((name) =>
        ctx.spawn(function* () {
          return yield* ctx.all([ctx.withTimeout('1h', shared), ctx.scheduleActivity(name)]);
        }),
      ) as Future<unknown>[] as [Future<unknown>, Future<unknown>];
      yield ctx.scheduleActivity('go');
      one.cancel();
      return yield two;
    });
    script.turn();
    script.engine.succeed(3);
    script.turn();
    const { commands } = script.engine;
    expect(commands.slice(commands.indexOf('activity two') + 1)).toEqual(['cancel 5', 'cancel 4']);
    script.engine.succeed(2, 'shared');
    script.engine.succeed(commands.indexOf('activity two') + 2, 'two');
    expect(script.output()).toEqual(['shared', 'two']);
  });

  test('by itself gets its error after the cleanup of the fiber that it waits for', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      let self: Future<unknown>;
      self = ctx.spawn(function* () {
        const child = ctx.spawn(book(ctx, log, 'a'));
        yield ctx.scheduleActivity('go');
        self.cancel();
        yield* noting(log, 'child', child);
      });
      yield ctx.allSettled([self]);
    });
    script.turn();
    script.engine.succeed(2);
    expect(undoAll(script)).toBe('completed');
    expect(log).toEqual(['a undoes', 'a undone', 'child: CancelledError: cancelled']);
  });
});

test('a combination that is cancelled settles when its branches have cleaned up', () => {
  const log: string[] = [];
  const script = new Script(function* (ctx): Block {
    const both = ctx.all([book(ctx, log, 'a'), ctx.scheduleActivity('b')]);
    ctx.spawn(function* () {
      yield ctx.scheduleActivity('go');
      both.cancel('not needed');
    });
    yield* noting(log, 'both', both);
  });
  script.turn();
  script.engine.succeed(script.engine.commands.indexOf('activity go') + 2);
  expect(undoAll(script)).toBe('failed');
  expect(log).toEqual(['a undoes', 'a undone', 'both: CancelledError: cancelled: not needed']);
});

describe('an execution that came here before these rules', () => {
  test('tells all at once, and ends with its main fiber', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      yield* noting(log, 'all', ctx.all([book(ctx, log, 'a'), book(ctx, log, 'b')]));
    });
    script.engine.lacksPatches = true;
    script.turn();
    script.engine.cancel('stop');
    expect(script.turn()).toBe('cancelled');
    expect(log).toEqual(['all: CancelledError: cancelled: stop']);
    expect(script.engine.patches).toEqual(['perdure.scopes']);
  });

  test('does not wait for losers, and gives up operations that other fibers wait for', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx): Block {
      const shared = ctx.scheduleActivity('shared');
      const one = ctx.spawn(() => noting(log, 'one', ctx.all([shared, ctx.waitForEvent('never')])));
      ctx.spawn(() => noting(log, 'two', shared));
      yield* noting(
        log,
        'race',
        ctx.race([ctx.scheduleActivity('quick'), book(ctx, log, 'slow')], { cancelLosers: true }),
      );
      one.cancel();
      yield ctx.waitForEvent('never');
    });
    script.engine.lacksPatches = true;
    script.turn();
    script.engine.succeed(3);
    script.turn();
    expect(log).toEqual([
      'race: {"index":0}',
      'slow undoes',
      'one: CancelledError: cancelled',
      'two: CancelledError: cancelled',
    ]);
  });
});

test('a chain of fibers that each begin the next one and end leaves none behind', () => {
  let ended = 0;
  const script = new Script(function* (ctx): Block {
    const link = function* (n: number): Block {
      if (n > 0) ctx.spawn(() => link(n - 1));
      else yield ctx.waitForEvent('never');
      ended += 1;
    };
    ctx.spawn(() => link(20_000));
    yield ctx.waitForEvent('go');
  });
  script.turn();
  expect(ended).toBe(20_000);
  script.engine.cancel();
  expect(script.turn()).toBe('cancelled');
});

test('a deep tree of fibers is cancelled from the inside out with a flat stack', () => {
  const order: number[] = [];
  const script = new Script(function* (ctx): Block {
    const level = function* (depth: number): Block {
      try {
        if (depth < 5_000) yield ctx.spawn(() => level(depth + 1));
        else yield ctx.waitForEvent('never');
      } finally {
        order.push(depth);
      }
    };
    yield* level(0);
  });
  script.turn();
  script.engine.cancel();
  expect(script.turn()).toBe('cancelled');
  expect(order).toEqual(Array.from({ length: 5_001 }, (_, i) => 5_000 - i));
});

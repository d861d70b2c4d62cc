import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import { ActivityError, DeterminismError } from '../../js/errors/errors.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { outputOf, Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

function thrown(): never {
  throw new Error('a trap');
}

describe('a future', () => {
  test('gives its value to `yield` and to `yield*`', () => {
    const script = new Script(function* (ctx) {
      const a = yield ctx.scheduleActivity('a', 1);
      const b = yield* ctx.scheduleActivity<number>('b');
      return [a, b];
    });
    expect(script.turn()).toBe('waiting');
    expect(script.engine.commands).toEqual(['activity a 1']);
    script.engine.succeed(2, 'A');
    expect(script.turn()).toBe('waiting');
    expect(script.engine.commands).toEqual(['activity a 1', 'activity b']);
    script.engine.succeed(3, 7);
    expect(script.output()).toEqual(['A', 7]);
  });

  test('is started by the call: two calls before the first yield run in parallel', () => {
    const script = new Script(function* (ctx) {
      const a = ctx.scheduleActivity('a');
      const b = ctx.scheduleActivity('b');
      return [yield b, yield a];
    });
    script.turn();
    expect(script.engine.commands).toEqual(['activity a', 'activity b']);
    script.engine.succeed(2, 1);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(3, 2);
    expect(script.output()).toEqual([2, 1]);
  });

  test('can be waited for again, and by several fibers, which go on in the order in which they came', () => {
    const order: string[] = [];
    const script = new Script(function* (ctx) {
      const shared = ctx.scheduleActivity('a');
      const wait = (name: string) =>
        ctx.spawn(function* () {
          const value = yield shared;
          order.push(`${name}${value}`);
        });
      yield ctx.all([wait('x'), wait('y'), wait('z')]);
      return yield shared;
    });
    script.turn();
    script.engine.succeed(2, 1);
    expect(script.output()).toBe(1);
    expect(order).toEqual(['x1', 'y1', 'z1']);
  });

  test('throws what failed at the yield, and the code can go on', () => {
    for (const wait of [
      function* (future: Future<any>): Generator<any, any, any> {
        return yield future;
      },
      function* (future: Future<any>): Generator<any, any, any> {
        return yield* future;
      },
    ]) {
      const script = new Script(function* (ctx) {
        try {
          return yield* wait(ctx.scheduleActivity('a'));
        } catch (error) {
          if (!(error instanceof ActivityError)) throw error;
          const { activityName, attempt, message } = error;
          return { activityName, attempt, message, cause: (error.cause as Error).message };
        }
      });
      script.turn();
      script.engine.fail(2, new RangeError('too much'), 3);
      expect(script.output()).toEqual({
        activityName: 'a',
        attempt: 3,
        message: "activity 'a' failed after 3 attempts: too much",
        cause: 'too much',
      });
    }
  });

  test('that failed shows the stack of the activity, then the line that scheduled it, and nothing of Perdure', () => {
    let stack = '';
    const script = new Script(function* orderOrchestration(ctx) {
      try {
        yield ctx.scheduleActivity('a');
      } catch (error) {
        stack = (error as Error).stack ?? '';
      }
    });
    script.turn();
    const cause = new Error('no');
    cause.stack = 'Error: no\n    at pay (file:///app/pay.ts:1:2)';
    script.engine.fail(2, cause);
    script.output();
    const lines = stack.split('\n');
    expect(lines[0]).toBe("ActivityError: activity 'a' failed at its first attempt: no");
    expect(lines[1]).toBe('    at pay (file:///app/pay.ts:1:2)');
    expect(lines[2]).toMatch(/orderOrchestration .*fibers\.test\.ts/);
    expect(stack).not.toMatch(/\/js\/(fiber|scheduler|orchestration)\.ts/);
  });
});

describe('the trampoline', () => {
  const COUNT = 100_000;

  test.each([
    [
      'yield',
      function* (future: Future<number>): Generator<any, number, any> {
        return yield future;
      },
    ],
    [
      'yield*',
      function* (future: Future<number>): Generator<any, number, any> {
        return yield* future;
      },
    ],
  ])('keeps the stack flat over 100 000 settled `%s`', (_name, wait) => {
    const script = new Script(function* (ctx) {
      const one = ctx.scheduleActivity<number>('one');
      yield one;
      let sum = 0;
      for (let i = 0; i < COUNT; i += 1) sum += yield* wait(one);
      return sum;
    });
    script.turn();
    script.engine.succeed(2, 1);
    expect(script.output()).toBe(COUNT);
  });

  test('keeps the stack flat over 100 000 settled failures', () => {
    const script = new Script(function* (ctx) {
      const bad = ctx.scheduleActivity('bad');
      let caught = 0;
      for (let i = 0; i < COUNT; i += 1) {
        try {
          yield bad;
        } catch {
          caught += 1;
        }
      }
      return caught;
    });
    script.turn();
    script.engine.fail(2, new Error('no'));
    expect(script.output()).toBe(COUNT);
  });

  test('lets 10 000 fibers wait in a chain', () => {
    const script = new Script(function* (ctx) {
      let last: Future<number> = ctx.scheduleActivity<number>('a');
      for (let i = 0; i < 10_000; i += 1) {
        const before = last;
        last = ctx.spawn(function* () {
          return (yield* before) + 1;
        });
      }
      return yield* last;
    });
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(2, 0);
    expect(script.output()).toBe(10_000);
  });

  test('cancels a chain of 10 000 fibers', () => {
    const script = new Script(function* (ctx) {
      let last: Future<unknown> = ctx.scheduleActivity('a');
      for (let i = 0; i < 10_000; i += 1) {
        const before = last;
        last = ctx.spawn(function* () {
          yield before;
        });
      }
      yield ctx.race(last, ctx.waitForEvent('stop'));
      last.cancel('enough');
      try {
        yield last;
      } catch (error) {
        return (error as Error).message;
      }
    });
    script.turn();
    script.engine.post('estop');
    expect(script.output()).toBe('cancelled: enough');
    expect(script.engine.commands).toEqual(['activity a', 'cancel 2']);
  });
});

describe('fibers', () => {
  test('run in the order in which they became ready, and only when the running one waits', () => {
    const order: string[] = [];
    const script = new Script(function* (ctx) {
      const strand = function* (name: string): Generator<any, void, any> {
        order.push(`${name}1`);
        yield ctx.scheduleActivity(name);
        order.push(`${name}2`);
      };
      const a = ctx.spawn(() => strand('a'));
      const b = ctx.spawn(strand('b'));
      order.push('main1');
      yield ctx.all([a, b]);
      order.push('main2');
    });
    script.turn();
    expect(order).toEqual(['main1', 'a1', 'b1']);
    script.engine.succeed(3);
    script.engine.succeed(2);
    script.output();
    expect(order).toEqual(['main1', 'a1', 'b1', 'b2', 'a2', 'main2']);
  });

  test('all run until they wait before the next delivery, so a turn with two deliveries is as two turns', () => {
    const code = (log: string[]) =>
      function* (ctx: OrchestrationContext): Generator<any, void, any> {
        const a = ctx.scheduleActivity('a');
        const b = ctx.scheduleActivity('b');
        const first = ctx.spawn(function* () {
          yield a;
          log.push('a is here');
          yield ctx.scheduleActivity('after a');
        });
        yield b;
        log.push('b is here');
        yield ctx.scheduleActivity('after b');
        yield first;
      };
    const logs: string[][] = [];
    for (const together of [true, false]) {
      const log: string[] = [];
      const script = new Script(code(log));
      script.turn();
      script.engine.succeed(2);
      if (!together) script.turn();
      script.engine.succeed(3);
      script.turn();
      logs.push([...log, ...script.engine.commands]);
    }
    expect(logs[0]).toEqual([
      'a is here',
      'b is here',
      'activity a',
      'activity b',
      'activity after a',
      'activity after b',
    ]);
    expect(logs[1]).toEqual(logs[0]);
  });

  test('are named to the engine with what they ask for and receive, all but the main one', () => {
    const script = new Script(function* (ctx) {
      yield ctx.scheduleActivity('before');
      const asks = ctx.spawn(function* () {
        ctx.scheduleActivity('a');
        ctx.scheduleTimer(10);
        ctx.scheduleTimer(new Date(5_000));
        ctx.scheduleSubOrchestration('child', 1, { id: 'c' });
        ctx.startOrchestration('audit', 'audit-1');
        ctx.raiseEvent('other', 'go');
        ctx.enqueueEvent('other', 'jobs', 1);
      });
      const receives = function* (): Generator<any, void, any> {
        yield ctx.waitForEvent('go');
        yield ctx.race([ctx.dequeueEvent('jobs'), ctx.sleep(1)]);
      };
      yield ctx.all([asks, receives(), ctx.waitForEvent('stop')]);
    });
    script.turn();
    script.engine.succeed(2);
    for (const mailbox of ['ego', 'qjobs', 'estop']) script.engine.post(mailbox);
    script.output();
    const asked = script.engine.commands.slice(1, 8).map((command) => `1: ${command}`);
    expect(script.engine.fibers).toEqual([...asked, '2: ego', '2: timer +1', '2: qjobs']);
    expect(asked.map((text) => text.split(' ')[1])).toEqual([
      'activity',
      'timer',
      'timer',
      'child',
      'start',
      'send',
      'send',
    ]);
  });

  test('are dropped without `finally` when the main fiber ends', () => {
    let ranFinally = false;
    const output = outputOf(function* (ctx) {
      ctx.spawn(function* () {
        try {
          yield ctx.scheduleTimer('1h');
        } finally {
          ranFinally = true;
        }
      });
      yield ctx.spawn(function* () {});
      return 'done';
    });
    expect(output).toBe('done');
    expect(ranFinally).toBe(false);
  });

  test('that throw fail their future, wherever it is waited for', () => {
    const output = outputOf(function* (ctx) {
      const bad = ctx.spawn(function* () {
        throw new RangeError('in the fiber');
      });
      yield ctx.spawn(function* () {});
      try {
        yield bad;
      } catch (error) {
        return `${(error as Error).name}: ${(error as Error).message}`;
      }
    });
    expect(output).toBe('RangeError: in the fiber');
  });

  test('can be cancelled: before they began, while they wait, and by themselves', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx) {
      const early = ctx.spawn(function* () {
        log.push('never');
      });
      early.cancel();
      const waits = ctx.spawn(function* () {
        try {
          yield ctx.scheduleActivity('a');
        } finally {
          log.push('cleaned');
        }
      });
      const self: Future<string> = ctx.spawn(function* () {
        self.cancel('myself');
        log.push('still running');
        try {
          yield ctx.scheduleTimer(1);
        } catch (error) {
          return (error as Error).message;
        }
        return 'not interrupted';
      });
      const how = yield self;
      waits.cancel('not needed');
      const results = yield* ctx.allSettled([early, waits]);
      return [how, ...results.map((result) => (result.status === 'rejected' ? result.reason.message : 'ok'))];
    });
    expect(script.output()).toEqual(['cancelled: myself', 'cancelled', 'cancelled: not needed']);
    expect(log).toEqual(['still running', 'cleaned']);
    expect(script.engine.commands).toEqual(['activity a', 'timer +1', 'cancel 3', 'cancel 2']);
  });

  test('do not give up what others wait for too', () => {
    const script = new Script(function* (ctx) {
      const shared = ctx.scheduleActivity('shared');
      const one = ctx.spawn(function* () {
        yield shared;
      });
      const other = ctx.spawn(function* () {
        return yield shared;
      });
      yield ctx.spawn(function* () {});
      one.cancel();
      return yield other;
    });
    script.turn();
    script.engine.succeed(2, 'kept');
    expect(script.output()).toBe('kept');
    expect(script.engine.commands).toEqual(['activity shared']);
  });
});

describe('what cannot be waited for', () => {
  test.each([
    ['a promise', () => Promise.resolve(1), /do the asynchronous work in an activity/],
    ['an async generator', async function* () {}, /without `async`/],
    ['a generator', function* () {}, /yield\* block\(\)/],
    ['an array', () => [], /ctx\.all/],
    ['a function', () => () => 1, /call it/],
    ['the number 5', () => 5, /ctx\.scheduleTimer/],
    ['undefined', () => undefined, /ctx\.scheduleTimer/],
  ])('%s: the error says what to write', (name, make, advice) => {
    const script = new Script(function* () {
      try {
        yield make();
      } catch (error) {
        expect(error).toBeInstanceOf(DeterminismError);
        return (error as Error).message;
      }
    });
    const message = script.output();
    expect(message).toContain(`${name} was yielded`);
    expect(message).toMatch(advice);
  });

  test('a future of another instance', () => {
    let foreign: Future<unknown> | undefined;
    const other = new Script(function* (ctx) {
      foreign = ctx.scheduleTimer(1);
      yield foreign;
    });
    other.turn();
    const run = (settled: boolean): unknown => {
      if (settled) {
        other.engine.due(2);
        other.turn();
      }
      return outputOf(function* () {
        try {
          yield* foreign as Future<unknown>;
        } catch (error) {
          return (error as Error).message;
        }
      });
    };
    expect(run(false)).toMatch(/future of another orchestration/);
    expect(run(true)).toMatch(/future of another orchestration/);
  });

  test.each([
    ['its prototype', { getPrototypeOf: () => thrown() }],
    ['its properties', { get: () => thrown() }],
    [
      'what is asked of a future',
      {
        get: (target: object, key: string, self: unknown) =>
          key === 'poll' ? thrown() : Reflect.get(target, key, self),
      },
    ],
  ])('a proxy that throws where it is asked for %s', (_name, handler: ProxyHandler<Future<unknown>>) => {
    const script = new Script(function* (ctx) {
      try {
        yield new Proxy<Future<unknown>>(ctx.scheduleTimer(1), handler);
      } catch (error) {
        expect(error).toBeInstanceOf(DeterminismError);
        return (error as Error).message;
      }
    });
    expect(script.output()).toContain('was yielded, which an orchestration cannot wait for');
  });

  test('an orchestration that is no function*', () => {
    const script = new Script((() => 5) as never);
    expect(script.turn()).toBe('failed');
    expect(script.engine.end?.payload).toContain('must be a function*');
  });
});

describe('a generator', () => {
  function* block(): Generator<any, string, any> {
    return 'done';
  }

  test.each<[string, (ctx: OrchestrationContext, one: Generator, fresh: () => Generator) => unknown]>([
    ['ctx.spawn: the block', (ctx, one) => [ctx.spawn(one), ctx.spawn(one)]],
    ['ctx.uncancellable: the block', (ctx, one) => [ctx.spawn(one), ctx.uncancellable(one)]],
    ['ctx.all: branch 2', (ctx, one, fresh) => ctx.all([one, fresh(), one])],
    ["ctx.select: branch 'b'", (ctx, one) => ctx.select({ a: one, b: one })],
    ['ctx.race: branch 0', (ctx, one) => [ctx.spawn(one), ctx.race(one, ctx.scheduleTimer(1))]],
    ['ctx.withTimeout: the branch', (ctx, one) => [ctx.spawn(one), ctx.withTimeout('1s', one)]],
  ])('is for one fiber alone: %s', (where, twice) => {
    const script = new Script(function* (ctx) {
      let message: unknown;
      try {
        twice(ctx, block(), block);
      } catch (error) {
        expect(error).toBeInstanceOf(TypeError);
        message = (error as Error).message;
      }
      return message;
    });
    expect(script.output()).toBe(
      `${where} is a generator that a fiber runs already, or has run: call its function* again for another one`,
    );
  });

  test('that has ended is no other one', () => {
    const message = outputOf(function* (ctx) {
      const one = block();
      yield ctx.spawn(one);
      try {
        yield ctx.all([one]);
      } catch (error) {
        return (error as Error).message;
      }
    });
    expect(message).toContain('ctx.all: branch 0 is a generator that a fiber runs already, or has run');
  });

  test('of a call that was refused was not begun, and may be used', () => {
    const begun: string[] = [];
    const output = outputOf(function* (ctx) {
      const one = (function* () {
        begun.push('one');
        return 1;
      })();
      for (const wrong of [
        () => ctx.all([one, 5 as never]),
        () => ctx.select({ one, two: Promise.resolve() as never }),
        () => ctx.race(one, one),
      ]) {
        try {
          wrong();
        } catch (error) {
          expect(error).toBeInstanceOf(TypeError);
        }
        yield ctx.spawn(function* () {});
      }
      expect(begun).toEqual([]);
      return yield ctx.all([one]);
    });
    expect(output).toEqual([1]);
  });

  test('that is frozen is refused with the others, by the error of the one that is wrong', () => {
    const message = outputOf(function* (ctx) {
      try {
        ctx.all([Object.freeze(block()), 5 as never]);
      } catch (error) {
        return (error as Error).message;
      }
    });
    expect(message).toBe('ctx.all: branch 1 must be a future or a generator, not the number 5');
  });

  test('that is returned and not run is named', () => {
    const script = new Script(function* () {
      return block();
    } as never);
    expect(script.turn()).toBe('failed');
    expect(script.engine.end?.payload).toContain(
      'output cannot be stored: it is a generator, none of whose code has run: `yield* block()` runs it',
    );
  });
});

describe('an async function', () => {
  test.each(['spawn', 'uncancellable'] as const)('is no block of ctx.%s', (name) => {
    const message = outputOf(function* (ctx) {
      const wrong = [async () => {}, async function* () {}].map((body) => {
        try {
          ctx[name](body as never);
        } catch (error) {
          expect(error).toBeInstanceOf(TypeError);
          return (error as Error).message;
        }
        return 'taken';
      });
      return [...new Set(wrong)];
    });
    expect(message).toEqual([
      `ctx.${name} takes a function*, or what a call of one returned, not an async function: its asynchronous work belongs in activities`,
    ]);
  });
});

describe('a context', () => {
  test('works only while its own orchestration runs', () => {
    let kept: OrchestrationContext | undefined;
    const script = new Script(function* (ctx) {
      kept = ctx;
      yield ctx.scheduleTimer(1);
    });
    script.turn();
    const ctx = kept as OrchestrationContext;
    expect(() => ctx.scheduleActivity('a')).toThrow(
      /ctx\.scheduleActivity was called while its orchestration was not running/,
    );
    const message = outputOf(function* () {
      try {
        ctx.now();
      } catch (error) {
        expect(error).toBeInstanceOf(DeterminismError);
        return (error as Error).message;
      }
    });
    expect(message).toMatch(/ctx\.now was called from another orchestration/);
    expect(script.engine.commands).toEqual(['timer +1']);
  });

  test('gives the deterministic time, that of the last delivery', () => {
    const script = new Script(function* (ctx) {
      const before = ctx.now();
      yield ctx.scheduleActivity('a');
      return [before, ctx.now()];
    });
    script.turn();
    script.engine.succeed(2);
    expect(script.output()).toEqual([1_000, 1_001]);
  });

  test('takes durations and times for timers', () => {
    const script = new Script(function* (ctx) {
      ctx.scheduleTimer('1.5s');
      ctx.sleep(20);
      ctx.scheduleTimer(new Date(5_000));
      ctx.scheduleTimer('1970-01-01T00:00:09Z');
      const errors: string[] = [];
      for (const wrong of ['soon', -1, Number.NaN, new Date(Number.NaN), '2020-99-99', null, {}]) {
        try {
          ctx.scheduleTimer(wrong as never);
        } catch (error) {
          if (error instanceof TypeError) errors.push(error.message);
        }
      }
      return errors.length;
    });
    expect(script.output()).toBe(7);
    expect(script.engine.commands).toEqual(['timer +1500', 'timer +20', 'timer @5000', 'timer @9000']);
  });
});

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

  test('reaches all that the fiber spawned, but for blocks that nothing cancels, and what has not begun never does', () => {
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

import { describe, expect, expectTypeOf, test } from 'vitest';

import { type Future, PENDING } from '../../js/driver/future.ts';
import type { FiberScheduler } from '../../js/driver/scheduler.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { outputOf, Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

/** Returns the message of the error that `body` throws. */
function thrownBy(body: () => unknown): string {
  try {
    body();
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`;
  }
  return 'nothing was thrown';
}

describe('all', () => {
  test('gives the values in the order of the branches', () => {
    const script = new Script(function* (ctx) {
      return yield ctx.all([ctx.scheduleActivity('a'), ctx.scheduleTimer(5), ctx.scheduleActivity('b')]);
    });
    script.turn();
    script.engine.succeed(4, 'B');
    script.engine.due(3);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(2, 'A');
    script.turn();
    expect(script.engine.end?.payload).toContain('A');
    expect(script.engine.end?.kind).toBe('completed');
  });

  test('returns an empty list for no branches', () => {
    expect(
      outputOf(function* (ctx) {
        return yield ctx.all([]);
      }),
    ).toEqual([]);
  });

  test('fails with the failure that came first, while others are pending', () => {
    const script = new Script(function* (ctx) {
      try {
        yield ctx.all([ctx.scheduleActivity('a'), ctx.scheduleActivity('b'), ctx.scheduleActivity('c')]);
      } catch (error) {
        return (error as Error).message;
      }
    });
    script.turn();
    script.engine.fail(4, new Error('late in the list'));
    script.engine.fail(2, new Error('second'));
    expect(script.output()).toMatch(/late in the list/);
  });

  test('counts a branch that is listed twice once', () => {
    const script = new Script(function* (ctx) {
      const a = ctx.scheduleActivity('a');
      return yield ctx.all([a, a, ctx.all([a, a])]);
    });
    script.turn();
    script.engine.succeed(2, 1);
    expect(script.output()).toEqual([1, 1, [1, 1]]);
  });

  test('takes 10 000 branches, and does not look at all of them for each that settles', () => {
    const script = new Script(function* (ctx) {
      const futures = Array.from({ length: 10_000 }, (_, i) => ctx.scheduleActivity<number>('a', i));
      const values = yield* ctx.all(futures);
      return values.length;
    });
    script.turn();
    for (let i = 9_999; i >= 0; i -= 1) script.engine.succeed(2 + i, i);
    const start = performance.now();
    expect(script.output()).toBe(10_000);
    expect(performance.now() - start).toBeLessThan(1_000);
  });
});

describe('race', () => {
  test.each<
    [string, (ctx: OrchestrationContext, a: Future<any>, b: Future<any>) => Future<{ index: number; value: any }>]
  >([
    ['a list', (ctx, a, b) => ctx.race([a, b])],
    ['arguments', (ctx, a, b) => ctx.race(a, b)],
    ['a list and options', (ctx, a, b) => ctx.race([a, b], { cancelLosers: false })],
    ['arguments and options', (ctx, a, b) => ctx.race(a, b, { cancelLosers: false })],
  ])('takes %s', (_name, race) => {
    const script = new Script(function* (ctx) {
      return yield race(ctx, ctx.scheduleActivity('a'), ctx.scheduleActivity('b'));
    });
    script.turn();
    script.engine.succeed(3, 'B');
    expect(script.output()).toEqual({ index: 1, value: 'B' });
    expect(script.engine.commands).toEqual(['activity a', 'activity b']);
  });

  test('throws when the first to settle failed', () => {
    const script = new Script(function* (ctx) {
      try {
        yield ctx.race(ctx.scheduleActivity('a'), ctx.scheduleActivity('b'));
      } catch (error) {
        return (error as Error).message;
      }
    });
    script.turn();
    script.engine.fail(3, new Error('b failed'));
    script.engine.succeed(2);
    expect(script.output()).toMatch(/b failed/);
  });

  test('still knows the first branch when it is awaited late', () => {
    const script = new Script(function* (ctx) {
      const a = ctx.scheduleActivity('a');
      const b = ctx.scheduleActivity('b');
      const nested = ctx.race(ctx.all([a]), ctx.any([b]));
      const made = ctx.race(a, b);
      yield ctx.all([a, b]);
      return [yield made, yield ctx.race(a, b), yield nested];
    });
    script.turn();
    script.engine.succeed(3, 'B');
    script.engine.succeed(2, 'A');
    expect(script.output()).toEqual([
      { index: 1, value: 'B' },
      { index: 1, value: 'B' },
      { index: 1, value: 'B' },
    ]);
  });

  test('leaves the losers alone, which can still be waited for', () => {
    const script = new Script(function* (ctx) {
      const slow = ctx.scheduleActivity('slow');
      const first = yield ctx.race(slow, ctx.scheduleActivity('fast'));
      return [first.index, yield slow];
    });
    script.turn();
    script.engine.succeed(3);
    script.engine.succeed(2, 'late');
    expect(script.output()).toEqual([1, 'late']);
  });

  test('cancels losers of each kind with cancelLosers, also within combinators', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx) {
      const strand = function* (): Generator<any, void, any> {
        try {
          yield ctx.scheduleActivity('in the fiber');
        } finally {
          log.push('cleaned');
        }
      };
      const event = ctx.waitForEvent('e');
      const first = yield ctx.race(
        ctx.scheduleActivity('a'),
        ctx.scheduleTimer(9),
        event,
        strand(),
        ctx.all([ctx.scheduleActivity('b'), ctx.scheduleActivity('c')]),
        ctx.scheduleActivity('winner'),
        { cancelLosers: true },
      );
      // The cancelled fiber runs before this one does.
      yield ctx.spawn(function* () {});
      const lost = yield* ctx.allSettled([event]);
      return [first.index, lost[0].status];
    });
    script.turn();
    const winner = script.engine.commands.indexOf('activity winner') + 2;
    script.engine.succeed(winner, 1);
    expect(script.output()).toEqual([5, 'rejected']);
    expect(script.engine.commands.slice(6)).toEqual(['cancel 2', 'cancel 3', 'cancel 7', 'cancel 4', 'cancel 5']);
    expect(script.engine.lastAwaited).toEqual({ mailboxes: ['ee'], timers: [3] });
    expect(log).toEqual(['cleaned']);
  });

  test('takes 10 000 branches in a loop', () => {
    const script = new Script(function* (ctx) {
      const futures = Array.from({ length: 10_000 }, () => ctx.scheduleActivity('a'));
      return (yield ctx.race(futures)).index;
    });
    script.turn();
    script.engine.succeed(2 + 7_000);
    expect(script.output()).toBe(7_000);
  });
});

describe('any, allSettled, select', () => {
  test('any gives the first success, or all failures', () => {
    const code = function* (ctx: OrchestrationContext): Generator<any, unknown, any> {
      try {
        return yield ctx.any([ctx.scheduleActivity('a'), ctx.scheduleActivity('b')]);
      } catch (error) {
        return (error as AggregateError).errors.map((e: Error) => (e.cause as Error).message);
      }
    };
    const good = new Script(code);
    good.turn();
    good.engine.fail(2, new Error('A'));
    good.engine.succeed(3, 'B');
    expect(good.output()).toBe('B');
    const bad = new Script(code);
    bad.turn();
    bad.engine.fail(3, new Error('B'));
    bad.engine.fail(2, new Error('A'));
    expect(bad.output()).toEqual(['A', 'B']);
  });

  test('allSettled waits for all', () => {
    const script = new Script(function* (ctx) {
      const results = yield* ctx.allSettled([ctx.scheduleActivity('a'), ctx.scheduleActivity('b')]);
      return results.map((result) => result.status);
    });
    script.turn();
    script.engine.fail(2, new Error('A'));
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(3);
    expect(script.output()).toEqual(['rejected', 'fulfilled']);
  });

  test('select gives the tag', () => {
    const script = new Script(function* (ctx) {
      const first = yield* ctx.select({ answer: ctx.waitForEvent<string>('answer'), late: ctx.scheduleTimer('1h') });
      return first;
    });
    script.turn();
    script.engine.post('eanswer', 'yes');
    expect(script.output()).toEqual({ tag: 'answer', value: 'yes' });
  });
});

describe('nesting', () => {
  test('generators become fibers, which begin at once', () => {
    const script = new Script(function* (ctx) {
      const twoSteps = function* (name: string): Generator<any, string, any> {
        const x: string = yield ctx.scheduleActivity(`${name}1`);
        return x + (yield ctx.scheduleActivity(`${name}2`));
      };
      return yield ctx.all([twoSteps('a'), ctx.race(twoSteps('b'), ctx.scheduleTimer('1h'))]);
    });
    script.turn();
    expect(script.engine.commands).toEqual(['timer +3600000', 'activity b1', 'activity a1']);
    script.engine.succeed(3, 'p');
    script.engine.succeed(4, 'x');
    script.turn();
    script.engine.succeed(5, 'q');
    script.engine.succeed(6, 'y');
    expect(script.output()).toEqual(['xy', { index: 0, value: 'pq' }]);
  });

  test('goes 20 000 combinators deep, each over the one before twice', () => {
    const script = new Script(function* (ctx) {
      let future: Future<any> = ctx.scheduleActivity('a');
      for (let i = 0; i < 20_000; i += 1) future = ctx.any([future, future]);
      const early = yield ctx.race(future, ctx.scheduleActivity('b'));
      return [early.index, yield future];
    });
    script.turn();
    script.engine.succeed(3);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(2, 1);
    expect(script.output()).toEqual([1, 1]);
  });

  test('has the same outcome if it is awaited before or after all branches settle', () => {
    let seed = 1;
    const random = (below: number): number => {
      seed = (seed * 48_271) % 0x7fff_ffff;
      return seed % below;
    };
    for (let round = 0; round < 300; round += 1) {
      const shape = Array.from({ length: 2 + random(8) }, () => ({
        kind: random(4),
        branches: [random(99), random(99), random(99)].slice(random(3)),
      }));
      const order = [2, 3, 4, 5].sort(() => random(3) - 1);
      const fails = order.map(() => random(3) === 0);
      /** Returns all combinators of this shape over four activities, bottom up. */
      const build = (ctx: OrchestrationContext, leaves: Future<unknown>[]): Future<unknown>[] => {
        const made = [...leaves];
        for (const { kind, branches } of shape) {
          const list = branches.map((i) => made[i % made.length] as Future<unknown>);
          made.push([ctx.all(list), ctx.allSettled(list), ctx.any(list), ctx.race(list)][kind] as Future<unknown>);
        }
        return made;
      };
      const outcomes = [true, false].map((watched) => {
        const script = new Script(function* (ctx) {
          const leaves = ['a', 'b', 'c', 'd'].map((name) => ctx.scheduleActivity(name));
          const made = build(ctx, leaves);
          const results: unknown[] = [];
          const waiters = made.map((future, i) =>
            ctx.spawn(function* () {
              if (!watched) yield ctx.allSettled(leaves);
              try {
                results[i] = { value: yield future };
              } catch (error) {
                results[i] = { error: error instanceof AggregateError ? error.errors.map(String) : String(error) };
              }
            }),
          );
          yield ctx.all(waiters);
          return JSON.stringify(results, (_key, value: unknown) => (value instanceof Error ? String(value) : value));
        });
        script.turn();
        for (const [i, operation] of order.entries()) {
          if (fails[i]) script.engine.fail(operation, new Error(`no ${operation}`));
          else script.engine.succeed(operation, operation);
        }
        return script.output();
      });
      expect(outcomes[1]).toEqual(outcomes[0]);
    }
  });

  test('a race that is decided by looking at it cancels its losers before anything else is decided', () => {
    const script = new Script(function* (ctx) {
      const a = ctx.scheduleActivity('a');
      const loser = ctx.scheduleActivity('loser');
      yield a;
      // The race is decided already. The branch before it contains the loser.
      const results = yield* ctx.allSettled([ctx.all([loser]), ctx.race(loser, a, { cancelLosers: true })]);
      return results.map((result) => (result.status === 'fulfilled' ? result.value : (result.reason as Error).message));
    });
    script.turn();
    script.engine.succeed(2, 'A');
    expect(script.output()).toEqual(['cancelled: another branch settled first', { index: 1, value: 'A' }]);
  });

  test('goes 1 000 combinators deep', () => {
    const script = new Script(function* (ctx) {
      let future: Future<any> = ctx.scheduleActivity('a');
      for (let i = 0; i < 1_000; i += 1) future = i % 2 === 0 ? ctx.all([future]) : ctx.any([future]);
      const value = yield future;
      return JSON.stringify(value).length;
    });
    script.turn();
    script.engine.succeed(2, 1);
    expect(script.output()).toBe(1_001);
  });

  test('a branch that settles two combinators of one wait wakes the fiber once', () => {
    const script = new Script(function* (ctx) {
      const a = ctx.scheduleActivity('a');
      const first = yield ctx.race(ctx.all([a]), a, ctx.any([a]));
      return [first.index, yield ctx.scheduleActivity('b')];
    });
    script.turn();
    script.engine.succeed(2, 'A');
    script.engine.succeed(3, 'B');
    const [index, b] = script.output() as [number, string];
    expect(b).toBe('B');
    expect(index).toBe(0);
  });
});

describe('wrong arguments', () => {
  test.each<[string, (ctx: OrchestrationContext) => unknown]>([
    [
      'TypeError: ctx.all takes a list of branches, such as [a, b], not a promise',
      (ctx) => ctx.all(Promise.resolve() as never),
    ],
    [
      'TypeError: ctx.all: branch 1 must be a future or a generator, not a promise',
      (ctx) => ctx.all([ctx.scheduleTimer(1), Promise.resolve() as never]),
    ],
    [
      'TypeError: ctx.race: branch 0 must be a future or a generator, not a function: ' +
        'call it, and pass the generator that it returns',
      (ctx) => ctx.race(function* () {} as never),
    ],
    ['TypeError: ctx.race needs at least one branch: without a branch it would wait forever', (ctx) => ctx.race()],
    ['TypeError: ctx.any needs at least one branch: without a branch it would wait forever', (ctx) => ctx.any([])],
    [
      'TypeError: ctx.race: unknown option `cancelLoosers`; did you mean `cancelLosers`?',
      (ctx) => ctx.race(ctx.scheduleTimer(1), { cancelLoosers: true } as never),
    ],
    [
      "TypeError: ctx.race: cancelLosers must be true, false or 'blocks', not the number 1",
      (ctx) => ctx.race([ctx.scheduleTimer(1)], { cancelLosers: 1 } as never),
    ],
    [
      "TypeError: ctx.select: branch 'x' must be a future or a generator, not the number 1",
      (ctx) => ctx.select({ x: 1 } as never),
    ],
    [
      'TypeError: ctx.spawn takes a function*, or the result of a call of one, not a promise',
      (ctx) => ctx.spawn(Promise.resolve() as never),
    ],
  ])('%s', (message, call) => {
    expect(
      outputOf(function* (ctx) {
        return thrownBy(() => call(ctx));
      }),
    ).toBe(message);
  });

  test('a call that throws has started no fiber', () => {
    let began = false;
    outputOf(function* (ctx) {
      const block = function* (): Generator<any, void, any> {
        began = true;
      };
      thrownBy(() => ctx.all([block(), 5 as never]));
      yield ctx.spawn(function* () {});
    });
    expect(began).toBe(false);
  });
});

test('types', () => {
  const code = function* (ctx: OrchestrationContext): Generator<any, void, any> {
    const a = ctx.scheduleActivity<number>('a');
    const b = ctx.waitForEvent<string>('b');
    expectTypeOf(
      yield* ctx.all([
        a,
        b,
        (function* (): Generator<any, boolean, any> {
          return true;
        })(),
      ]),
    ).toEqualTypeOf<[number, string, boolean]>();
    expectTypeOf(yield* ctx.all([a].map((x) => x))).toEqualTypeOf<number[]>();
    const first = yield* ctx.race(a, b);
    expectTypeOf(first).toEqualTypeOf<{ index: 0; value: number } | { index: 1; value: string }>();
    expectTypeOf(yield* ctx.race([a, b])).toEqualTypeOf<{ index: 0; value: number } | { index: 1; value: string }>();
    expectTypeOf(yield* ctx.race(a, b, { cancelLosers: true })).toEqualTypeOf<
      { index: 0; value: number } | { index: 1; value: string }
    >();
    expectTypeOf(yield* ctx.race([a].map((x) => x))).toEqualTypeOf<{ index: number; value: number }>();
    expectTypeOf(yield* ctx.select({ a, b })).toEqualTypeOf<
      { tag: 'a'; value: number } | { tag: 'b'; value: string }
    >();
    expectTypeOf(yield* ctx.any([a, b])).toEqualTypeOf<number | string>();
    expectTypeOf(
      yield* ctx.spawn(function* () {
        return 1n;
      }),
    ).toEqualTypeOf<bigint>();
    // @ts-expect-error a promise is no branch
    ctx.all([Promise.resolve(1)]);
    // @ts-expect-error an array is no future
    const f: Future<number> = [1];
    void f;
  };
  expectTypeOf(code).toBeFunction();
});

describe('raceSettled and selectSettled', () => {
  const failing = (script: Script): void => {
    script.turn();
    script.engine.fail(3, new RangeError('no'));
  };

  test('tell which branch failed', () => {
    const script = new Script(function* (ctx): Block {
      const first = yield* ctx.raceSettled(ctx.scheduleActivity('a'), ctx.scheduleActivity('b'));
      return [first.index, first.status, first.status === 'rejected' ? (first.reason as Error).name : first.value];
    });
    failing(script);
    expect(script.output()).toEqual([1, 'rejected', 'ActivityError']);
    const selected = new Script(function* (ctx): Block {
      const first = yield* ctx.selectSettled(
        { a: ctx.scheduleActivity('a'), b: ctx.scheduleActivity('b') },
        { cancelLosers: true },
      );
      return [first.tag, first.status];
    });
    failing(selected);
    expect(selected.output()).toEqual(['b', 'rejected']);
    expect(selected.engine.commands.at(-1)).toBe('cancel 2');
  });

  test('give the value of one that succeeds', () => {
    expect(
      outputOf(function* (ctx): Block {
        const done = ctx.spawn(function* () {
          return 5;
        });
        const raced = yield* ctx.raceSettled([ctx.sleep(5), done]);
        const selected = yield* ctx.selectSettled({ timer: ctx.sleep(5), done });
        return [Object.entries(raced).join(' '), Object.entries(selected).join(' ')];
      }),
    ).toEqual(['index,1 status,fulfilled value,5', 'tag,done status,fulfilled value,5']);
  });

  test('name themselves where an argument is wrong', () => {
    expect(
      outputOf(function* (ctx): Block {
        const message = (call: () => unknown): string => {
          try {
            call();
          } catch (error) {
            return (error as Error).message;
          }
          return '';
        };
        return [
          message(() => ctx.raceSettled()),
          message(() => ctx.raceSettled([5 as never])),
          message(() => ctx.selectSettled(5 as never)),
          message(() => ctx.selectSettled({ a: 5 as never })),
        ];
      }),
    ).toEqual([
      expect.stringMatching(/^ctx\.raceSettled needs/),
      expect.stringMatching(/^ctx\.raceSettled: branch 0 /),
      expect.stringMatching(/^ctx\.selectSettled takes/),
      expect.stringMatching(/^ctx\.selectSettled: branch 'a' /),
    ]);
  });
});

describe('a loop', () => {
  const ROUNDS = 2_000;

  test('over select of blocks leaves only its history behind', () => {
    const script = new Script(function* (ctx): Block {
      const stop = ctx.waitForEvent('stop');
      for (let n = 0; n < ROUNDS; n += 1) {
        const block = function* (): Block {
          yield* ctx.select({ a: ctx.waitForEvent('never'), b: ctx.sleep('1h') });
        };
        const first = yield* ctx.select(
          { step: ctx.scheduleActivity('step'), block: block(), stop },
          { cancelLosers: 'blocks' },
        );
        expect(first.tag).toBe('step');
        expect(scheduler().liveFibers.length).toBe(1);
        expect(scheduler().operations.size).toBe(0);
      }
      expect(stop).toMatchObject({ state: PENDING, isAwaited: false });
      return (yield* ctx.select({ step: ctx.sleep('1h'), stop })).tag;
    });
    const scheduler = () => (script.instance as unknown as { scheduler: FiberScheduler }).scheduler;
    for (let n = 0; n < ROUNDS; n += 1) {
      script.turn();
      script.engine.succeed(script.engine.commands.lastIndexOf('activity step') + 2);
    }
    script.turn();
    script.engine.post('estop');
    expect(script.output()).toBe('stop');
    expect(script.engine.commands).toHaveLength(3 * ROUNDS + 1);
  });
});

import { describe, expect, test } from 'vitest';

import type { OrchestrationGenerator } from '../../js/orchestration/definition.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { outputOf, Script } from './scripted-engine.ts';

describe('a generator', () => {
  function* block(): OrchestrationGenerator<string> {
    return 'done';
  }

  test.each<
    [string, (ctx: OrchestrationContext, one: OrchestrationGenerator, fresh: () => OrchestrationGenerator) => unknown]
  >([
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
      `${where} is a generator that a fiber already runs, or has run: call its function* again for a new one`,
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
    expect(message).toContain('ctx.all: branch 0 is a generator that a fiber already runs, or has run');
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
      `ctx.${name} takes a function*, or the result of a call of one, not an async function: ` +
        'its asynchronous work belongs in activities',
    ]);
  });
});

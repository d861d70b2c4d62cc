// `yield` in an orchestration takes futures alone, and what it infers stays as it was. The compiler reports a wrong
// yield at the function, because the type of the function is inferred.

import {
  defineActivity,
  defineOrchestration,
  type Future,
  type OrchestrationContext,
  type OrchestrationDefinition,
  type OrchestrationGenerator,
  type Runtime,
} from 'perdure';
import { describe, expectTypeOf, it } from 'vitest';

const count = defineActivity('count', () => 7);
const anything: any = 1;

describe('a yield in an orchestration', () => {
  it('takes no value that is no future', () => {
    // @ts-expect-error a number
    defineOrchestration('values', function* (ctx) {
      yield 3;
    });
    // @ts-expect-error a promise
    defineOrchestration('promises', function* (ctx) {
      yield fetch('https://prices.example');
    });
    // @ts-expect-error undefined
    defineOrchestration('nothing', function* (ctx) {
      yield;
    });
    // @ts-expect-error an array of futures, which `ctx.all` takes
    defineOrchestration('lists', function* (ctx) {
      yield [ctx.call(count)];
    });
    // @ts-expect-error a function that returns a future
    defineOrchestration('functions', function* (ctx) {
      yield () => ctx.call(count);
    });
    // @ts-expect-error a generator, which `yield*` takes
    defineOrchestration('generators', function* (ctx) {
      yield (function* () {})();
    });
    // @ts-expect-error a helper that yields a number
    defineOrchestration('helpers', function* (ctx) {
      yield* (function* () {
        yield 3;
      })();
    });
    defineOrchestration('awaited', function* () {
      // @ts-expect-error a promise, which is no generator either
      yield* Promise.resolve(1);
    });
  });

  it('takes no such value in a block', () => {
    defineOrchestration('blocks', function* (ctx) {
      // @ts-expect-error a promise
      ctx.spawn(function* () {
        yield Promise.resolve(1);
      });
      // @ts-expect-error a number
      ctx.uncancellable(function* () {
        yield 3;
      });
      const block = function* () {
        yield 'text';
      };
      // @ts-expect-error a block that yields a string
      ctx.all([block()]);
      // @ts-expect-error a number
      ctx.channel<number>().forEach(function* (n) {
        yield n;
      });
    });
  });

  it('takes no such value where it is registered', () => {
    (runtime: Runtime) =>
      // @ts-expect-error a number
      runtime.registerOrchestration('registered', function* () {
        yield 3;
      });
  });

  it('gives what it gave, and leaves inference as it was', () => {
    const programs = defineOrchestration('programs', function* (ctx, input: { n: number }) {
      expectTypeOf(yield ctx.call(count)).toBeAny();
      expectTypeOf(yield* ctx.call(count)).toEqualTypeOf<number>();
      expectTypeOf(yield* helper(ctx)).toEqualTypeOf<string>();
      expectTypeOf(yield* annotated(ctx)).toEqualTypeOf<boolean>();
      yield anything;
      const [n, text] = yield* ctx.all([ctx.call(count), helper(ctx)]);
      expectTypeOf(n).toEqualTypeOf<number>();
      expectTypeOf(text).toEqualTypeOf<string>();
      return yield* ctx.spawn(function* () {
        yield ctx.sleep(1);
        return input.n;
      });
    });
    expectTypeOf(programs).toEqualTypeOf<OrchestrationDefinition<{ n: number }, number>>();
    expectTypeOf(defineOrchestration('empty', function* () {})).toEqualTypeOf<
      OrchestrationDefinition<undefined, void>
    >();
    expectTypeOf(
      defineOrchestration('branches', function* (ctx, n: number) {
        if (n > 1) return 'many' as const;
        yield ctx.sleep(1);
        yield ctx.call(count);
        return n;
      }),
    ).toEqualTypeOf<OrchestrationDefinition<number, 'many' | number>>();
  });
});

function* helper(ctx: OrchestrationContext) {
  yield ctx.sleep(1);
  yield* ctx.call(count);
  return 'helped';
}

function* annotated(ctx: OrchestrationContext): OrchestrationGenerator<boolean> {
  const future: Future<boolean> = ctx.waitForEvent('ready');
  return yield* future;
}

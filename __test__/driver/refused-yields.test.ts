import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import { DeterminismError } from '../../js/errors/errors.ts';
import { outputOf, Script } from './scripted-engine.ts';

function thrown(): never {
  throw new Error('a trap');
}

describe('a refused yield', () => {
  test.each([
    ['a promise', () => Promise.resolve(1), /do the asynchronous work in an activity/],
    ['an async generator', async function* () {}, /without `async`/],
    ['a generator', function* () {}, /yield\* block\(\)/],
    ['an array', () => [], /ctx\.all/],
    ['a function', () => () => 1, /call it/],
    ['the number 5', () => 5, /ctx\.scheduleTimer/],
    ['undefined', () => undefined, /ctx\.scheduleTimer/],
  ])('of %s throws an error that names a replacement', (name, make, advice) => {
    const script = new Script(function* () {
      try {
        yield make() as never;
      } catch (error) {
        expect(error).toBeInstanceOf(DeterminismError);
        return (error as Error).message;
      }
    });
    const message = script.output();
    expect(message).toContain(`${name} was yielded`);
    expect(message).toMatch(advice);
  });

  test('of a future of another instance', () => {
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
      'the methods of a future',
      {
        get: (target: object, key: string, self: unknown) =>
          key === 'poll' ? thrown() : Reflect.get(target, key, self),
      },
    ],
  ])('of a proxy that throws where it is asked for %s', (_name, handler: ProxyHandler<Future<unknown>>) => {
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

  test('of an orchestration that is no function*', () => {
    const script = new Script((() => 5) as never);
    expect(script.turn()).toBe('failed');
    expect(script.engine.end?.payload).toContain('must be a function*');
  });
});

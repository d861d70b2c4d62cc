import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import { ActivityError } from '../../js/errors/errors.ts';
import { Script } from './scripted-engine.ts';

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

  test('can be waited for again, and by several fibers, which continue in the order of their waits', () => {
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

  test('throws the failure at the yield, and the code can continue', () => {
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
    expect(lines[2]).toMatch(/orderOrchestration .*futures\.test\.ts/);
    expect(stack).not.toMatch(/\/js\/(fiber|scheduler|orchestration)\.ts/);
  });
});

import { describe, expect, test } from 'vitest';
import type { OrchestrationGenerator } from '../../js/orchestration/definition.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { INTERRUPT_EVERY } from '../../js/values/limits.ts';
import { Script } from './scripted-engine.ts';

/** Expects that the execution ends here as continued. */
function continued(script: Script): Script['engine']['continued'] {
  expect(script.turn()).toBe('continued');
  expect(script.engine.end).toBeNull();
  return script.engine.continued;
}

describe('continueAsNew', () => {
  test.each<[string, (ctx: OrchestrationContext) => OrchestrationGenerator]>([
    [
      'yield',
      function* (ctx) {
        yield ctx.continueAsNew({ round: 2 });
        throw new Error('nothing runs behind it');
      },
    ],
    [
      'return of the future',
      function* (ctx) {
        return ctx.continueAsNew({ round: 2 });
      },
    ],
    [
      'return of yield*',
      function* (ctx) {
        return yield* ctx.continueAsNew({ round: 2 });
      },
    ],
    [
      'return of something else later',
      function* (ctx) {
        ctx.continueAsNew({ round: 2 });
        yield ctx.spawn(function* () {});
        return 'dropped';
      },
    ],
    [
      'wait in a combination',
      function* (ctx) {
        yield ctx.race(ctx.waitForEvent('never'), ctx.all([ctx.continueAsNew({ round: 2 })]));
      },
    ],
    [
      'wait in another fiber',
      function* (ctx) {
        ctx.spawn(function* () {
          yield ctx.continueAsNew({ round: 2 });
        });
        yield ctx.waitForEvent('never');
      },
    ],
    [
      'wait below yield*',
      function* (ctx) {
        function* below(): OrchestrationGenerator {
          yield ctx.continueAsNew({ round: 2 });
        }
        yield* below();
        throw new Error('nothing runs behind it');
      },
    ],
    [
      'last of two',
      function* (ctx) {
        ctx.continueAsNew({ round: 1 });
        yield ctx.continueAsNew({ round: 2 });
      },
    ],
  ])('ends the execution at a %s', (_, fn) => {
    expect(continued(new Script(fn))).toEqual({ input: '{"round":2}', version: null });
  });

  test('names the version that is to follow, and may leave the input out', () => {
    const script = new Script(function* (ctx) {
      yield ctx.continueAsNew(undefined, { version: '2.0.0' });
    });
    expect(continued(script)).toEqual({ input: null, version: '2.0.0' });
  });

  test('leaves through finally blocks, which may wait, and passes by catch blocks', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx) {
      try {
        try {
          yield ctx.continueAsNew(2);
        } catch {
          log.push('caught');
        } finally {
          log.push(yield ctx.scheduleActivity('unlock'));
        }
      } finally {
        log.push('outer');
      }
      log.push('behind');
    });
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(2, 'unlocked');
    expect(continued(script)).toEqual({ input: '2', version: null });
    expect(log).toEqual(['unlocked', 'outer']);
  });

  test('does not happen when the function throws on its way out', () => {
    const script = new Script(function* (ctx) {
      try {
        yield ctx.continueAsNew(2);
      } finally {
        yield ctx.scheduleActivity('unlock');
      }
    });
    expect(script.turn()).toBe('waiting');
    script.engine.fail(2, new Error('stuck'));
    expect(script.turn()).toBe('failed');
    expect(script.engine.continued).toBeNull();
  });

  test('gives way to a cancellation', () => {
    const script = new Script(function* (ctx) {
      try {
        yield ctx.continueAsNew(2);
      } finally {
        yield ctx.waitForEvent('unlocked');
      }
    });
    expect(script.turn()).toBe('waiting');
    script.engine.cancel();
    expect(script.turn()).toBe('cancelled');
    expect(script.engine.continued).toBeNull();
  });

  test('gives way to a cancellation that the code never came to see', () => {
    const script = new Script(function* (ctx) {
      yield ctx.uncancellable(function* () {
        yield ctx.scheduleActivity('finish');
      });
      return ctx.continueAsNew(2);
    });
    expect(script.turn()).toBe('waiting');
    script.engine.cancel();
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(2);
    expect(script.turn()).toBe('cancelled');
  });

  test('can be taken back', () => {
    const script = new Script(function* (ctx) {
      ctx.continueAsNew(2).cancel();
      return 'stays';
    });
    expect(script.output()).toBe('stays');
  });

  test('refuses values that cannot be stored, and invalid options', () => {
    const script = new Script(function* (ctx) {
      expect(() => ctx.continueAsNew(() => {})).toThrow(/^input/);
      expect(() => ctx.continueAsNew(1, { versoin: '2' } as object)).toThrow('did you mean `version`?');
      expect(() => ctx.continueAsNew(1, { version: '' })).toThrow(TypeError);
      return 'still here';
    });
    expect(script.output()).toBe('still here');
  });

  test('suspends the instance if it does not match the history', () => {
    const script = new Script(function* (ctx) {
      yield ctx.continueAsNew(2);
    });
    script.engine.mismatchAt = 0;
    expect(script.turn()).toBe('suspended');
  });
});

describe('a cancellation of code that does not wait', () => {
  test('comes at the first wait of the next execution', () => {
    const script = new Script(
      function* (ctx) {
        return yield ctx.continueAsNew(2);
      },
      undefined,
      undefined,
      2,
    );
    script.engine.interruptAt = 1;
    expect(script.turn()).toBe('cancelled');
    expect(script.engine.continued).toBeNull();
  });

  test('is not asked for in the first execution, which has not run before', () => {
    const script = new Script(function* (ctx) {
      return yield ctx.continueAsNew(2);
    });
    script.engine.interruptAt = 1;
    expect(script.turn()).toBe('continued');
  });

  test('lets code that catches it clean up and continue', () => {
    const script = new Script(
      function* (ctx) {
        try {
          yield ctx.continueAsNew(2);
        } catch {
          return 'done anyway';
        }
        return undefined;
      },
      undefined,
      undefined,
      2,
    );
    script.engine.interruptAt = 1;
    expect(script.turn()).toBe('completed');
  });

  test('ends an execution that continues without a wait and never saw it', () => {
    const script = new Script(
      function* (ctx) {
        return ctx.continueAsNew(2);
      },
      undefined,
      undefined,
      2,
    );
    script.engine.interruptAt = 1;
    expect(script.turn()).toBe('cancelled');
  });

  test.each([1, 2, 3])('comes after every so many commands without a wait: the %s. time', (nth) => {
    const script = new Script(function* (ctx) {
      for (;;) {
        ctx.scheduleActivity('a');
        // `all([])` has settled already, so the main function does not wait.
        yield ctx.all([]);
      }
    });
    script.engine.interruptAt = nth;
    expect(script.turn()).toBe('cancelled');
    const scheduled = script.engine.commands.filter((command) => command.startsWith('activity'));
    expect(scheduled).toHaveLength(nth * INTERRUPT_EVERY);
  });

  test('does not interrupt an uncancellable block', () => {
    const script = new Script(function* (ctx) {
      yield ctx.uncancellable(function* () {
        for (let i = 0; i < 2 * INTERRUPT_EVERY; i += 1) {
          ctx.scheduleActivity('a');
          yield ctx.all([]);
        }
      });
      yield ctx.waitForEvent('never');
    });
    script.engine.interruptAt = 1;
    expect(script.turn()).toBe('cancelled');
    expect(script.engine.commands.filter((command) => command.startsWith('activity'))).toHaveLength(
      2 * INTERRUPT_EVERY,
    );
  });
});

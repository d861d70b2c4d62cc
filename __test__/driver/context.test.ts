import { describe, expect, test } from 'vitest';

import { DeterminismError } from '../../js/errors/errors.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { outputOf, Script } from './scripted-engine.ts';

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

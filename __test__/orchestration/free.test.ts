import { describe, expect, test } from 'vitest';

import { DeterminismError } from '../../js/errors/errors.ts';
import { FiberContext } from '../../js/orchestration/fiber-context.ts';
import * as free from '../../js/orchestration/free.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { outputOf, Script } from '../driver/scripted-engine.ts';

const members = [FiberContext, Object.getPrototypeOf(FiberContext)].flatMap(({ prototype }) =>
  Object.entries(Object.getOwnPropertyDescriptors(prototype)),
);
const methods = members
  .filter(([name, { value }]) => typeof value === 'function' && name !== 'constructor')
  .map(([name]) => name);

type Methods = {
  [K in keyof OrchestrationContext as OrchestrationContext[K] extends (...args: any[]) => unknown
    ? K
    : never]: OrchestrationContext[K];
};

describe('the free functions', () => {
  test('are those of the context, each with its types and name', () => {
    const functions = Object.entries(free).filter(([, value]) => typeof value === 'function');
    expect(functions.map(([name]) => name).sort()).toEqual([...methods, 'currentContext', 'contextLocal'].sort());
    for (const [name, value] of functions) expect((value as Function).name).toBe(name);
    free satisfies Methods;
  });

  test.each([...methods, 'currentContext'])('%s throws outside an orchestration, and says where it belongs', (name) => {
    const call = (free as Record<string, any>)[name];
    expect(() => call()).toThrow(DeterminismError);
    expect(() => call()).toThrow(
      new RegExp(`^${name}\\(\\) was called while no orchestration was running: .*function\\*`),
    );
  });

  test.each(Object.keys(free.state))('state.%s throws outside an orchestration', (name) => {
    const call = (free.state as Record<string, any>)[name];
    expect(() => call('x', 1)).toThrow(`state.${name}() was called while no orchestration was running`);
  });

  test('find the orchestration that runs, in helpers too', () => {
    function* step(name: string): Generator<any, string, any> {
      return yield* free.scheduleActivity<string>(name, free.currentContext().instanceId);
    }
    const script = new Script(function* (ctx) {
      expect(free.currentContext()).toBe(ctx);
      free.setCustomStatus('busy');
      free.state.set('progress', 1);
      free.stream('log').write({ done: 1 });
      free.traceInfo('hello');
      return yield free.all([step('a'), free.spawn(() => step('b'))]);
    });
    script.turn();
    expect(script.engine.commands).toEqual(['activity b "i"', 'activity a "i"']);
    expect(script.engine.statuses).toEqual(['"busy"']);
    expect([...script.engine.state]).toEqual([['progress', '1']]);
    expect(script.engine.entries).toEqual([['log', '{"done":1}']]);
    expect(script.engine.traces).toMatchObject([{ level: 'info', message: 'hello' }]);
    script.engine.succeed(2, 'B');
    script.engine.succeed(3, 'A');
    expect(script.output()).toEqual(['A', 'B']);
  });

  test('act on the running instance of two instances that run in turn', () => {
    const scripts = ['one', 'two'].map(
      (name) =>
        new Script(function* () {
          for (let i = 0; i < 3; i += 1) yield free.scheduleActivity(`${name}${i}`);
          return free.getCustomStatus() === undefined;
        }),
    );
    for (let i = 0; i < 3; i += 1) {
      for (const script of scripts) script.turn();
      for (const script of scripts) script.engine.succeed(2 + i);
    }
    expect(scripts.map((script) => script.output())).toEqual([true, true]);
    expect(scripts.map((script) => script.engine.commands)).toEqual([
      ['activity one0', 'activity one1', 'activity one2'],
      ['activity two0', 'activity two1', 'activity two2'],
    ]);
  });

  test('are not available to code that runs while the orchestration waits', () => {
    let later: (() => unknown) | undefined;
    const script = new Script(function* () {
      later = () => free.now();
      yield free.sleep(1);
    });
    script.turn();
    expect(later).toThrow(DeterminismError);
  });

  test('show the line that called them when the activity fails', () => {
    let stack = '';
    const script = new Script(function* callsFree() {
      try {
        yield free.scheduleActivity('a');
      } catch (error) {
        stack = (error as Error).stack ?? '';
      }
    });
    script.turn();
    script.engine.fail(2, new Error('no'));
    script.output();
    expect(stack).toMatch(/callsFree .*free\.test\.ts/);
    expect(stack).not.toMatch(/\/js\/free\.ts/);
  });

  test('check their arguments like the methods', () => {
    expect(
      outputOf(function* () {
        const messages: string[] = [];
        for (const wrong of [() => free.sleep('soon' as never), () => free.all(5 as never), () => free.race()]) {
          try {
            wrong();
          } catch (error) {
            messages.push((error as Error).name);
          }
        }
        return messages;
      }),
    ).toEqual(['TypeError', 'TypeError', 'TypeError']);
  });
});

import { describe, expect, test } from 'vitest';

import { DeterminismError } from '../../js/errors/errors.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { fromErrorPayload } from '../../js/values/payload.ts';
import { STORED_FORMS } from '../../js/values/value-types.ts';
import { Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

describe('a query', () => {
  test('reads variables between turns, and the latest handler answers', () => {
    const script = new Script(function* (ctx: OrchestrationContext): Block {
      let count = 0;
      ctx.onQuery('count', () => count);
      yield ctx.waitForEvent('more');
      count += 1;
      ctx.onQuery('count', (times: number) => count * times);
      yield ctx.waitForEvent('more');
    });
    script.turn();
    expect(script.instance.query('count', 10)).toEqual({ isError: false, text: '0' });
    script.engine.post('emore');
    script.turn();
    expect(script.instance.query('count', 10)).toEqual({ isError: false, text: '10' });
  });

  test('that calls its context is refused, and the next turn goes on', () => {
    const script = new Script(function* (ctx: OrchestrationContext): Block {
      ctx.onQuery('schedules', () => void ctx.scheduleActivity('a'));
      yield ctx.waitForEvent('more');
      return yield ctx.scheduleActivity('b');
    });
    script.turn();
    const { isError, text } = script.instance.query('schedules', undefined);
    expect(isError).toBe(true);
    const error = fromErrorPayload(text, STORED_FORMS);
    expect(error).toBeInstanceOf(DeterminismError);
    expect(error).toMatchObject({
      called: 'ctx.scheduleActivity',
      message: "ctx.scheduleActivity was called in the handler of query 'schedules', which only reads variables",
    });
    script.engine.post('emore');
    script.turn();
    expect(script.engine.commands).toEqual(['activity b']);
  });
});

test('wrong arguments of onQuery are errors that name them', () => {
  const errors: string[] = [];
  const script = new Script(function* (ctx): Block {
    const wrong: [unknown, unknown][] = [
      [7, () => 1],
      ['', () => 1],
      ['a', 1],
      ['a', async () => 1],
    ];
    for (const [query, handler] of wrong) {
      try {
        ctx.onQuery(query as string, handler as () => number);
        errors.push('none');
      } catch (error) {
        errors.push((error as Error).message);
      }
    }
    yield ctx.waitForEvent('end');
  });
  script.turn();
  expect(errors).toMatchInlineSnapshot(`
    [
      "the query must be a name or a result of defineQuery, got 7",
      "the query name must not be empty",
      "query 'a': the handler must be a function, got 1",
      "query 'a': the handler answers at once, and this one is an async function",
    ]
  `);
});

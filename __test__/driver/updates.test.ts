import { describe, expect, test } from 'vitest';

import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { defineUpdate } from '../../js/orchestration/updates.ts';
import { Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

/** An orchestration that sets handlers and then waits for the event `end`. */
function until(end: string, set: (ctx: OrchestrationContext) => void) {
  return function* (ctx: OrchestrationContext): Block {
    set(ctx);
    return yield ctx.waitForEvent(end);
  };
}

describe('an update', () => {
  test('is answered with what its handler returns, and takes steps', () => {
    const script = new Script(
      until('end', (ctx) => {
        ctx.onUpdate('add', function* (by: number): Block {
          return by + (yield ctx.scheduleActivity('base')) + ctx.now();
        });
      }),
    );
    script.engine.ask('1', 'add', 5);
    script.turn();
    expect(script.engine.accepted).toEqual(['1']);
    expect(script.engine.commands).toEqual(['activity base']);
    expect(script.engine.answers.size).toBe(0);
    script.engine.succeed(2, 10);
    script.turn();
    expect(script.engine.answers.get('1')).toBe(`=${15 + script.engine.timeMs}`);
    expect(script.engine.fibers).toEqual(['1: activity base']);
  });

  test('of a name without a handler is refused, with the names that have one', () => {
    const script = new Script(until('end', (ctx) => ctx.onUpdate('add', function* () {})));
    script.engine.ask('1', 'ad');
    script.turn();
    expect(script.engine.accepted).toEqual([]);
    expect(script.engine.answers.get('1')).toBe(
      "!the orchestration has no handler of update 'ad'; it has handlers of 'add'",
    );
  });

  test('is refused where the orchestration has no handlers at all', () => {
    const script = new Script(until('end', () => {}));
    script.engine.ask('1', 'add');
    script.turn();
    expect(script.engine.answers.get('1')).toBe("!the orchestration has no handler of update 'add'");
  });

  test('is answered with the error that its handler throws, and the orchestration goes on', () => {
    const script = new Script(
      until('end', (ctx) => {
        ctx.onUpdate('fail', function* (): Block {
          yield* ctx.sleep('1s');
          throw new RangeError('no room');
        });
      }),
    );
    script.engine.ask('1', 'fail');
    script.turn();
    script.engine.due(2);
    script.turn();
    expect(script.engine.answers.get('1')).toBe('!no room');
    script.engine.post('eend', 'over');
    expect(script.output()).toBe('over');
  });

  test('whose result cannot be stored is answered with the error that says so', () => {
    const script = new Script(
      until('end', (ctx) =>
        ctx.onUpdate('odd', function* () {
          return () => {};
        }),
      ),
    );
    script.engine.ask('1', 'odd');
    script.turn();
    expect(script.engine.answers.get('1')).toMatch(/^!answer .*function/);
  });

  test('that its validator refuses is not accepted', () => {
    const script = new Script(
      until('end', (ctx) => {
        const validate = (by: number): void => {
          if (by < 0) throw new RangeError('too little');
        };
        ctx.onUpdate(
          'add',
          function* (by: number) {
            return by;
          },
          { validate },
        );
      }),
    );
    script.engine.ask('1', 'add', -1);
    script.engine.ask('2', 'add', 1);
    script.turn();
    expect(script.engine.accepted).toEqual(['2']);
    expect([...script.engine.answers]).toEqual([
      ['1', '!too little'],
      ['2', '=1'],
    ]);
  });

  test('whose validator schedules, or answers later, is refused', () => {
    const script = new Script(
      until('end', (ctx) => {
        const schedules = () => void ctx.scheduleActivity('a');
        const later = () => Promise.reject(new Error('later'));
        ctx.onUpdate('schedules', function* () {}, { validate: schedules });
        ctx.onUpdate('later', function* () {}, { validate: later });
      }),
    );
    script.engine.ask('1', 'schedules');
    script.engine.ask('2', 'later');
    script.turn();
    expect(script.engine.commands).toEqual([]);
    expect(script.engine.accepted).toEqual([]);
    expect(script.engine.answers.get('1')).toMatch(/ctx\.scheduleActivity was called while its orchestration was not/);
    expect(script.engine.answers.get('2')).toMatch(/decides at once, and this one returned/);
  });

  test('runs at the same time as others, each in a fiber', () => {
    const script = new Script(
      until('end', (ctx) => {
        ctx.onUpdate('step', function* (name: string): Block {
          return yield ctx.scheduleActivity(name);
        });
      }),
    );
    for (const name of ['a', 'b']) script.engine.ask(name, 'step', name);
    script.turn();
    script.engine.succeed(3, 'of b');
    script.turn();
    script.engine.succeed(2, 'of a');
    script.turn();
    expect([...script.engine.answers]).toEqual([
      ['b', '="of b"'],
      ['a', '="of a"'],
    ]);
  });

  test('is handled by the last handler of its name', () => {
    const script = new Script(function* (ctx): Block {
      ctx.onUpdate('add', function* () {
        return 1;
      });
      yield ctx.waitForEvent('next');
      ctx.onUpdate('add', function* () {
        return 2;
      });
      yield ctx.waitForEvent('end');
    });
    script.engine.ask('1', 'add');
    script.turn();
    script.engine.post('enext');
    script.turn();
    script.engine.ask('2', 'add');
    script.turn();
    expect([...script.engine.answers]).toEqual([
      ['1', '=1'],
      ['2', '=2'],
    ]);
  });

  test('is told to the rest of the code by a deferred', () => {
    const script = new Script(function* (ctx): Block {
      const done = ctx.deferred<string>();
      ctx.onUpdate('finish', function* (how: string) {
        done.resolve(how);
      });
      return yield* done;
    });
    script.turn();
    expect(script.engine.end).toBeNull();
    script.engine.ask('1', 'finish', 'well');
    expect(script.output()).toBe('well');
    expect(script.engine.answers.get('1')).toBe('=null');
  });

  test('is checked by the schema of its definition, whose output the handler gets', () => {
    const trimmed = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value: unknown) =>
          typeof value === 'string' ? { value: value.trim() } : { issues: [{ message: 'no text' }] },
      },
    } as const;
    const greet = defineUpdate('greet', { input: trimmed });
    const seen: unknown[] = [];
    const script = new Script(
      until('end', (ctx) => {
        const validate = (name: unknown): void => void seen.push(name);
        ctx.onUpdate(
          greet,
          function* (name) {
            return `hello ${name}`;
          },
          { validate },
        );
      }),
    );
    script.engine.ask('1', 'greet', ' Ada ');
    script.engine.ask('2', 'greet', 7);
    script.turn();
    expect(seen).toEqual(['Ada']);
    expect(script.engine.answers.get('1')).toBe('="hello Ada"');
    expect(script.engine.answers.get('2')).toMatch(/no text/);
  });
});

describe('the end of an execution', () => {
  function* ending(ctx: OrchestrationContext, onEnd: 'wait' | 'reject', end: () => unknown): Block {
    ctx.onUpdate(
      'step',
      function* (): Block {
        return yield ctx.scheduleActivity('a');
      },
      { onEnd },
    );
    yield ctx.waitForEvent('end');
    return yield* [end()] as Iterable<any> as any;
  }

  test('waits for the handlers that run, and takes no more updates', () => {
    const script = new Script((ctx) => ending(ctx, 'wait', () => ctx.all([])));
    script.engine.ask('1', 'step');
    script.turn();
    script.engine.post('eend');
    script.turn();
    expect(script.engine.end).toBeNull();
    script.engine.ask('2', 'step');
    script.turn();
    expect(script.engine.accepted).toEqual(['1']);
    script.engine.succeed(2, 'late');
    script.turn();
    expect(script.engine.end?.kind).toBe('completed');
    expect([...script.engine.answers]).toEqual([['1', '="late"']]);
  });

  test('waits for them when it continues as new, too', () => {
    const script = new Script((ctx) => ending(ctx, 'wait', () => ctx.continueAsNew('next')));
    script.engine.ask('1', 'step');
    script.turn();
    script.engine.post('eend');
    script.turn();
    expect(script.engine.continued).toBeNull();
    script.engine.succeed(2, 'late');
    script.turn();
    expect(script.engine.continued?.input).toBe('"next"');
    expect(script.engine.answers.get('1')).toBe('="late"');
  });

  test('answers those that it does not wait for', () => {
    const script = new Script((ctx) => ending(ctx, 'reject', () => ctx.continueAsNew('next')));
    script.engine.ask('1', 'step');
    script.turn();
    script.engine.post('eend');
    script.turn();
    expect(script.engine.continued?.input).toBe('"next"');
    expect(script.engine.answers.get('1')).toBe('!cancelled: the execution ended before the handler of the update');
  });

  test('waits after an error, too', () => {
    const script = new Script((ctx) =>
      ending(ctx, 'wait', () => {
        throw new Error('broken');
      }),
    );
    script.engine.ask('1', 'step');
    script.turn();
    script.engine.post('eend');
    script.turn();
    expect(script.engine.end).toBeNull();
    script.engine.succeed(2, 'late');
    script.turn();
    expect(script.engine.end?.kind).toBe('failed');
    expect(script.engine.answers.get('1')).toBe('="late"');
  });

  test('cancels the handlers with the instance', () => {
    const script = new Script((ctx) => ending(ctx, 'wait', () => ctx.all([])));
    script.engine.ask('1', 'step');
    script.turn();
    script.engine.cancel('enough');
    script.turn();
    expect(script.engine.end?.kind).toBe('cancelled');
    expect(script.engine.answers.get('1')).toBe('!cancelled: enough');
  });
});

describe('a replay', () => {
  test('runs the handlers of recorded updates without their validators', () => {
    const validated: unknown[] = [];
    const script = new Script(
      until('end', (ctx) => {
        const validate = (by: unknown): void => void validated.push(by);
        ctx.onUpdate(
          'add',
          function* (by: number) {
            return by;
          },
          { validate },
        );
      }),
    );
    script.engine.recordedAsk('1', 'add', 7);
    script.turn();
    expect(script.engine.answers.get('1')).toBe('=7');
    expect(validated).toEqual([]);
  });

  test('suspends an instance whose code has lost the handler of a recorded update', () => {
    const script = new Script(until('end', (ctx) => ctx.onUpdate('other', function* () {})));
    script.engine.recordedAsk('1', 'add', 7);
    script.turn();
    expect(script.engine.suspendedAt).not.toBeNull();
    expect(JSON.parse(script.engine.report ?? '')).toMatchObject({
      code: 'NONDETERMINISM',
      details: {
        report: { recorded: "the update 'add'", attempted: "no handler of update 'add'; it has handlers of 'other'" },
      },
    });
  });
});

describe('wrong arguments', () => {
  test('of onUpdate are errors that name them', () => {
    const errors: string[] = [];
    const script = new Script(function* (ctx): Block {
      const wrong: [unknown, unknown, unknown?][] = [
        [7, function* () {}],
        ['', function* () {}],
        ['a', () => {}],
        ['a', async () => {}],
        ['a', function* () {}, { validate: async () => {} }],
        ['a', function* () {}, { onEnd: 'drop' }],
        ['a', function* () {}, { validat: () => {} }],
      ];
      for (const [update, handler, options] of wrong) {
        try {
          ctx.onUpdate(update as string, handler as () => Block, options as object);
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
        "the update must be a name or a result of defineUpdate, got 7",
        "the update name must not be empty",
        "none",
        "ctx.onUpdate takes a function*, not an async function: its asynchronous work belongs in activities",
        "update 'a': validate decides at once, and this one is an async function",
        "update 'a': onEnd must be one of 'wait', 'reject', got 'drop'",
        "update 'a': unknown option \`validat\`; did you mean \`validate\`?",
      ]
    `);
  });
});

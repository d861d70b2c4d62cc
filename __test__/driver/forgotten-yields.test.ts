// Futures that user code uses in the place of their values, and futures that it never waits for.

import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import { DeterminismError, PayloadError } from '../../js/errors/errors.ts';
import { LineLimit } from '../../js/logging/line-limit.ts';
import type { OrchestrationFunction } from '../../js/orchestration/definition.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { HOST, Script } from './scripted-engine.ts';

/** Runs a use of a future, and returns the error that it throws. */
function thrownBy(use: (future: Future<any>, ctx: OrchestrationContext) => unknown): unknown {
  let thrown: unknown = 'nothing was thrown';
  const script = new Script(function* (ctx) {
    try {
      use(ctx.scheduleActivity('price', 'apple'), ctx);
    } catch (error) {
      thrown = { type: (error as Error).constructor, message: (error as Error).message };
    }
  });
  script.turn();
  return thrown;
}

describe('a future in the place of its value', () => {
  test.each<[string, string, (future: any) => unknown]>([
    ['a template', 'a string', (future) => `${future}`],
    ['String', 'a string', (future) => String(future)],
    ['toString', 'a string', (future) => future.toString()],
    ['a key', 'a string', (future) => ({})[future as string]],
    ['a join', 'a string', (future) => ['price', future].join()],
    ['unary plus', 'a number', (future) => +future],
    ['Number', 'a number', (future) => Number(future)],
    ['a comparison', 'a number', (future) => future > 3],
    ['addition', 'a string or a number', (future) => future + 1],
    ['concat', 'a string', (future) => 'price'.concat(future)],
    // biome-ignore lint/suspicious/noDoubleEquals: a conversion is the case.
    ['loose equality', 'a string or a number', (future) => future == 3],
    ['JSON.stringify', 'JSON', (future) => JSON.stringify(future)],
    ['JSON.stringify of an object', 'JSON', (future) => JSON.stringify({ deep: [future] })],
    [
      'a loop',
      'a list',
      (future) => {
        for (const item of future) return item;
      },
    ],
    ['a spread', 'a list', (future) => [...future]],
    [
      'destructuring',
      'a list',
      (future) => {
        const [first] = future;
        return first;
      },
    ],
  ])('is refused by %s', (_, type, use) => {
    expect(thrownBy(use)).toEqual({
      type: DeterminismError,
      message: [
        `the future of activity 'price' was used as ${type}`,
        'write `yield*` before the call to wait for its value',
      ].join(': '),
    });
  });

  test.each<[string, string, (future: any, ctx: OrchestrationContext) => unknown]>([
    ['the input of an activity', 'input.price', (price, ctx) => ctx.scheduleActivity('charge', { price })],
    ['the input of a child', 'input', (price, ctx) => ctx.scheduleSubOrchestration('child', price)],
    ['the input of a detached start', 'input[0]', (price, ctx) => ctx.startOrchestration('child', 'c', [price])],
    ['the data of an event', 'data.get("a")', (price, ctx) => ctx.raiseEvent('other', 'e', new Map([['a', price]]))],
    ['the data of a message', 'data', (price, ctx) => ctx.enqueueEvent('other', 'q', price)],
    ['the custom status', 'status.deep.price', (price, ctx) => ctx.setCustomStatus({ deep: { price } })],
    ['the input of the next execution', 'input', (price, ctx) => ctx.continueAsNew(price)],
  ])('is refused in %s', (_, path, use) => {
    expect(thrownBy(use)).toEqual({
      type: PayloadError,
      message: [
        `${path} cannot be stored`,
        "it is the future of activity 'price', not its value",
        'write `yield*` before the call',
      ].join(': '),
    });
  });

  test('is refused in tags, durations and names', () => {
    const named = "the future of activity 'price' (write `yield*` for its value)";
    expect(thrownBy((a, ctx) => ctx.startOrchestration('child', 'c', 1, { tags: { a } as never }))).toMatchObject({
      type: TypeError,
      message: expect.stringContaining(`tags.a must be a string, got ${named}`),
    });
    expect(thrownBy((price, ctx) => ctx.sleep(price as never))).toMatchObject({
      message: expect.stringContaining(named),
    });
    expect(thrownBy((price, ctx) => ctx.waitForEvent(price as never))).toMatchObject({
      message: expect.stringContaining(named),
    });
  });

  test('is refused in the output', () => {
    const script = new Script(function* (ctx) {
      return { all: ctx.all([ctx.scheduleActivity('a'), ctx.sleep('1s')]) };
    });
    expect(script.turn()).toBe('failed');
    expect(script.engine.end?.payload).toContain(
      "output.all cannot be stored: it is the future of all of (activity 'a', a timer), not its value: " +
        'write `yield*` before the call',
    );
  });

  test('is described where it is printed, also in the fields of a line', () => {
    const script = new Script(function* (ctx) {
      const price = ctx.scheduleActivity('price');
      ctx.traceInfo('a line', { price, other: 1 });
      return inspect({ price: ctx.waitForEvent('price'), cancelled: price.cancel() });
    });
    script.turn();
    expect(script.engine.end?.payload).toContain("Future { event 'price': write `yield*` before the call");
    expect(script.engine.traces[0]?.fields).toMatchObject({
      price: expect.stringContaining("the future of activity 'price' was used as JSON"),
      other: 1,
    });
  });
});

interface Options {
  readonly cancel?: boolean;
  readonly replaying?: boolean;
  readonly sourceStacks?: boolean;
}

/** Runs an orchestration to its end. Activities succeed in the order in which they were scheduled. */
function endOf(fn: OrchestrationFunction, options: Options = {}): Script {
  const script = new Script(fn, undefined, { ...HOST, sourceStacks: options.sourceStacks ?? HOST.sourceStacks });
  script.engine.replaying = options.replaying === true;
  let end = script.turn();
  for (let operation = 2; end === 'waiting' && operation < 20; operation += 1) {
    if (options.cancel === true) script.engine.cancel();
    else if (script.engine.commands[operation - 2]?.startsWith('timer') === true) script.engine.due(operation);
    else if (script.engine.commands[operation - 2]?.includes('fails') === true)
      script.engine.fail(operation, new Error('so'));
    else script.engine.succeed(operation, operation);
    end = script.turn();
  }
  return script;
}

/** The futures that the lines of an orchestration name, as the log shows them. */
function unawaitedBy(fn: OrchestrationFunction, level = 'warn'): unknown[] {
  return endOf(fn).engine.traces.map(({ level: found, fields }) => {
    expect(found).toBe(level);
    return (fields as { unawaited: { future: string }[] }).unawaited.map(({ future }) => future);
  });
}

describe('a future that the code never waits for', () => {
  test('is logged once with its line, and with those beside it', () => {
    const { engine } = endOf(function* (ctx) {
      ctx.scheduleActivity('audit');
      yield* ctx.scheduleActivity('charge');
      ctx.scheduleSubOrchestration('child', 1, { id: 'c' });
      ctx.sleep('1h');
      if (ctx.waitForEvent('approve')) return 'approved';
    });
    const line = expect.stringMatching(/^at .*forgotten-yields\.test\.ts:\d+:\d+/);
    expect(engine.traces).toEqual([
      {
        level: 'warn',
        message: expect.stringMatching(
          /^instance 'i' of 'test' has returned and never waited for activity 'audit' \(at .*\), child 'c' .*: write /,
        ),
        fields: {
          instanceId: 'i',
          executionId: 1,
          orchestrationName: 'test',
          version: '1.0.0',
          unawaited: [
            { future: "activity 'audit'", source: line },
            { future: "child 'c' (child)", source: line },
            { future: 'a timer', source: line },
            { future: "event 'approve'", source: line },
          ],
        },
      },
    ]);
  });

  test('is no warning if it may be a deadline that was not needed', () => {
    const early: OrchestrationFunction = function* (ctx) {
      const [deadline, stop] = [ctx.sleep('1h'), ctx.waitForEvent('stop')];
      if (yield* ctx.scheduleActivity('a')) return 'early';
      yield* ctx.race(deadline, stop);
    };
    expect(unawaitedBy(early, 'info')).toEqual([['a timer', "event 'stop'"]]);
    const { traces } = endOf(early, { sourceStacks: false }).engine;
    expect(traces).toEqual([]);
  });

  test('is named among the first five of many', () => {
    const { engine } = endOf(function* (ctx) {
      for (let n = 0; n < 1_000; n += 1) ctx.scheduleActivity(`a${n}`);
    });
    expect(engine.traces).toHaveLength(1);
    expect(engine.traces[0]?.message).toMatch(/activity 'a4' .*, 995 more: write/);
  });

  test.each<[string, OrchestrationFunction, unknown[]]>([
    [
      'a combinator without its yield',
      function* (ctx) {
        ctx.all([ctx.scheduleActivity('a'), ctx.any([ctx.scheduleActivity('b')])]);
      },
      [["activity 'a'", "activity 'b'"]],
    ],
    [
      'a time limit without its yield',
      function* (ctx) {
        ctx.withTimeout('1h', ctx.scheduleActivity('a'));
      },
      [["activity 'a'"]],
    ],
    [
      'a fiber that has returned',
      function* (ctx) {
        yield* ctx.spawn(function* () {
          ctx.scheduleActivity('a');
        });
      },
      [["activity 'a'"]],
    ],
    [
      'an activity that has ended meanwhile',
      function* (ctx) {
        ctx.scheduleActivity('a');
        yield* ctx.scheduleActivity('b');
        yield* ctx.scheduleActivity('c');
      },
      [["activity 'a'"]],
    ],
    [
      'an activity before the next execution',
      function* (ctx) {
        ctx.scheduleActivity('a');
        yield* ctx.continueAsNew();
      },
      [["activity 'a'"]],
    ],
    [
      'an activity after a caught error',
      function* (ctx) {
        try {
          yield* ctx.scheduleActivity('fails');
        } catch {
          ctx.scheduleActivity('undo');
        }
      },
      [["activity 'undo'"]],
    ],
  ])('is logged: %s', (_, fn, unawaited) => {
    expect(unawaitedBy(fn)).toEqual(unawaited);
  });

  test.each<[string, OrchestrationFunction, Options?]>([
    [
      'the losers of a race',
      function* (ctx) {
        yield* ctx.race(ctx.scheduleActivity('a'), ctx.scheduleActivity('b'), ctx.waitForEvent('e'));
      },
    ],
    [
      'the losers of a select that was decided before the yield',
      function* (ctx) {
        const a = ctx.scheduleActivity('a');
        yield* a;
        yield* ctx.select({ a, b: ctx.scheduleActivity('b'), late: ctx.sleep('1h') });
      },
    ],
    [
      'the losers of nested combinators',
      function* (ctx) {
        yield* ctx.any([ctx.scheduleActivity('a'), ctx.all([ctx.scheduleActivity('b'), ctx.sleep('1h')])]);
      },
    ],
    [
      'a time limit',
      function* (ctx) {
        yield* ctx.withTimeout('1h', ctx.scheduleActivity('a'));
      },
    ],
    [
      'a future that is cancelled',
      function* (ctx) {
        ctx.scheduleActivity('a').cancel();
        ctx.all([ctx.scheduleActivity('b'), ctx.sleep('1h')]).cancel();
      },
    ],
    [
      'a future that another fiber waits for',
      function* (ctx) {
        const a = ctx.scheduleActivity('a');
        yield* ctx.spawn(function* () {
          yield* a;
        });
      },
    ],
    [
      'an activity that a fiber of its own waits for',
      function* (ctx) {
        ctx.spawn(function* () {
          yield* ctx.scheduleActivity('a');
        });
        yield* ctx.scheduleActivity('b');
      },
    ],
    [
      'a fiber that is dropped on its way',
      function* (ctx) {
        ctx.spawn(function* () {
          const [a, b] = [ctx.scheduleActivity('a'), ctx.scheduleActivity('b')];
          yield* ctx.sleep('1h');
          yield* a;
          yield* b;
        });
        yield* ctx.scheduleActivity('c');
      },
    ],
    [
      'detached starts and messages',
      function* (ctx) {
        ctx.startOrchestration('other', 'o');
        ctx.raiseEvent('other', 'e');
        ctx.enqueueEvent('other', 'q');
      },
    ],
    [
      'futures that are awaited late',
      function* (ctx) {
        const [a, b] = [ctx.scheduleActivity('a'), ctx.scheduleActivity('b')];
        yield* ctx.scheduleActivity('c');
        yield* b;
        yield a;
      },
    ],
    [
      'work whose yield an error has skipped',
      function* (ctx) {
        try {
          const [a, b] = [ctx.scheduleActivity('fails'), ctx.scheduleActivity('b')];
          yield* a;
          yield* b;
        } catch {
          return 'caught';
        }
      },
    ],
    [
      'an orchestration that throws',
      function* (ctx) {
        ctx.scheduleActivity('a');
        throw new Error('so');
      },
    ],
    [
      'an orchestration that is cancelled',
      function* (ctx) {
        ctx.scheduleActivity('a');
        yield* ctx.sleep('1h');
      },
      { cancel: true },
    ],
    [
      'a replay',
      function* (ctx) {
        ctx.scheduleActivity('a');
      },
      { replaying: true },
    ],
    [
      'the next execution without a wait',
      function* (ctx) {
        ctx.continueAsNew();
      },
    ],
  ])('is not logged: %s', (_, fn, options) => {
    const { engine } = endOf(fn, options);
    expect(engine.end !== null || engine.continued !== null).toBe(true);
    expect(engine.traces).toEqual([]);
  });
});

test('lines that are alike are limited, and the next one counts those that were left out', () => {
  let now = 0;
  const limit = new LineLimit(() => now);
  for (let n = 0; n < 100; n += 1) expect(limit.admit()).toBe(0);
  expect([limit.admit(), limit.admit()]).toEqual([undefined, undefined]);
  now = 200;
  expect(limit.admit()).toBe(2);
  expect(limit.admit()).toBeUndefined();
});

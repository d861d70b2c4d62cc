import { describe, expect, test } from 'vitest';

import type { Channel } from '../../js/driver/channel.ts';
import type { Future } from '../../js/driver/future.ts';
import { Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

/** Returns the error that the execution ended with. */
function failure(script: Script): { name: string; code?: string; message: string } {
  return JSON.parse(script.engine.end?.payload ?? 'null');
}

describe('a deadlock', () => {
  test('fails the instance and names the awaited channel, with the main fiber alone', () => {
    const script = new Script(function* waitsForNobody(ctx): Block {
      yield ctx.channel().receive();
    });
    expect(script.turn()).toBe('failed');
    const { name, code, message } = failure(script);
    expect([name, code]).toEqual(['PerdureError', 'DEADLOCK']);
    const [first, second, ...rest] = message.split('\n');
    expect(first).toBe('deadlock: all fibers wait for each other, and nothing outside is pending that could wake one');
    expect(second).toMatch(
      /^ {2}the main fiber waits for a value from channel 1 \(made at waitsForNobody .*deadlocks\.test\.ts:\d+:\d+\)/,
    );
    expect(rest).toEqual([]);
    expect(script.engine.awaited).toEqual([]); // the engine was not asked for more
  });

  test('lists each fiber, by its name where it has one, with the futures that it waits for', () => {
    const script = new Script(function* (ctx): Block {
      const [a, b, full] = [ctx.channel<number>(), ctx.channel<number>(), ctx.channel<number>(1)];
      const left = ctx.spawn(function* left() {
        yield* a.receive();
        b.send(1);
      });
      ctx.spawn(function* right() {
        yield* b.receive();
        a.send(1);
      });
      ctx.spawn(
        (function* () {
          yield* full.send(1);
          yield* full.send(2);
        })(),
      );
      ctx.scheduleTimer('1h'); // never awaited
      yield ctx.race(
        left,
        ctx.all([
          a.receive(),
          ctx.any([
            b.receive(),
            ctx.uncancellable(function* block() {
              yield left;
            }),
          ]),
        ]),
        left,
        left,
        left,
      );
    });
    expect(script.turn()).toBe('failed');
    expect(
      failure(script)
        .message.split('\n')
        .slice(1)
        .map((line) => line.replaceAll(/ \(made at .*?:\d+:\d+\)?\)/g, '')),
    ).toEqual([
      '  the main fiber waits for race of ' +
        '(fiber 1 (left), all of (a value from channel 1, any of 2), fiber 1 (left), fiber 1 (left), 1 more)',
      '  fiber 1 (left) waits for a value from channel 1',
      '  fiber 2 (right) waits for a value from channel 2',
      '  fiber 3 waits for room in channel 3',
      '  fiber 4 (block) waits for fiber 1 (left)',
    ]);
  });

  test('lists only the first of many fibers', () => {
    const script = new Script(function* (ctx): Block {
      const channel = ctx.channel();
      for (let i = 0; i < 1_000; i += 1) ctx.spawn(() => channel.forEach(function* () {}));
      yield channel.receive();
    });
    expect(script.turn()).toBe('failed');
    const lines = failure(script).message.split('\n');
    expect(lines).toHaveLength(22);
    expect(lines.at(-1)).toBe('  and 981 more fibers');
  });

  test('is thrown where the main fiber waits, so that its cleanup runs and can be waited for', () => {
    const script = new Script(function* (ctx): Block {
      try {
        yield ctx.channel().receive();
      } finally {
        yield ctx.scheduleActivity('release');
      }
    });
    expect(script.turn()).toBe('waiting');
    expect(script.engine.commands).toEqual(['activity release']);
    script.engine.succeed(2);
    expect(script.turn()).toBe('failed');
    expect(failure(script).code).toBe('DEADLOCK');
  });

  test('can be caught once; the next deadlock ends the instance', () => {
    let caught = 0;
    const script = new Script(function* (ctx): Block {
      for (;;) {
        try {
          yield ctx.channel().receive();
        } catch {
          caught += 1;
        }
      }
    });
    expect(script.turn()).toBe('failed');
    expect([caught, failure(script).code]).toEqual([1, 'DEADLOCK']);
  });

  test('is also found in an uncancellable block', () => {
    const script = new Script(function* (ctx): Block {
      yield ctx.uncancellable(function* () {
        yield ctx.channel().receive();
      });
    });
    expect(script.turn()).toBe('failed');
    expect(failure(script).code).toBe('DEADLOCK');
  });

  test('in an uncancellable block after a cancellation does not hide the end of the instance', () => {
    const script = new Script(function* (ctx): Block {
      const gate = ctx.channel<number>();
      ctx.uncancellable(function* () {
        yield ctx.scheduleActivity('a');
        yield gate.receive();
      });
      yield ctx.waitForEvent('e');
    });
    script.turn();
    script.engine.cancel('stop');
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(2);
    expect(script.turn()).toBe('cancelled');
  });

  test('between two fibers that wait for each other', () => {
    const script = new Script(function* (ctx): Block {
      const fibers: Future<unknown>[] = [];
      fibers.push(
        ctx.spawn(function* a() {
          yield fibers[1]!;
        }),
      );
      fibers.push(
        ctx.spawn(function* b() {
          yield fibers[0]!;
        }),
      );
      yield ctx.all(fibers);
    });
    expect(script.turn()).toBe('failed');
    expect(failure(script).message).toContain(
      '\n  fiber 1 (a) waits for fiber 2 (b)\n  fiber 2 (b) waits for fiber 1 (a)',
    );
  });
});

describe('no deadlock', () => {
  type Setting = (ctx: any, channel: Channel<string>) => unknown;
  const settings: [string, Setting, ((script: Script) => void) | null][] = [
    [
      'an activity is pending that a fiber waits for',
      (ctx, channel) =>
        ctx.spawn(function* (): Block {
          channel.send(yield ctx.scheduleActivity('a'));
        }),
      (script) => script.engine.succeed(2, 'woken'),
    ],
    [
      'an event is waited for',
      (ctx, channel) =>
        ctx.spawn(function* (): Block {
          channel.send(yield ctx.waitForEvent('e'));
        }),
      (script) => script.engine.post('ee', 'woken'),
    ],
    [
      'a timer is waited for',
      (ctx, channel) =>
        ctx.spawn(function* (): Block {
          yield ctx.sleep(1);
          channel.send('woken');
        }),
      (script) => script.engine.due(2),
    ],
    [
      'a timeout runs',
      (ctx, channel) =>
        ctx.spawn(function* (): Block {
          try {
            yield ctx.withTimeout(1, channel.receive());
          } catch {
            channel.send('woken');
          }
        }),
      (script) => script.engine.due(2),
    ],
  ];

  test.each(settings)('while %s', (_, arrange, wake) => {
    const script = new Script(function* (ctx): Block {
      const channel = ctx.channel<string>();
      arrange(ctx, channel);
      yield ctx.spawn(function* () {});
      return yield channel.receive();
    });
    expect(script.turn()).toBe('waiting');
    wake?.(script);
    expect(script.output()).toBe('woken');
  });

  test('while an activity is pending without a waiter, but after it', () => {
    const script = new Script(function* (ctx): Block {
      ctx.scheduleActivity('a');
      yield ctx.channel().receive();
    });
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(2);
    expect(script.turn()).toBe('failed');
    expect(failure(script).code).toBe('DEADLOCK');
  });

  test('when a timer was cancelled, fired or lost: each counts once', () => {
    const script = new Script(function* (ctx): Block {
      const [cancelled, fired, lost] = [ctx.sleep(1), ctx.sleep(2), ctx.sleep(3)];
      cancelled.cancel();
      yield fired;
      yield ctx.race(lost, ctx.scheduleActivity('a'));
      const end = yield ctx.scheduleActivity('b');
      lost.cancel();
      yield ctx.channel().receive();
      return end;
    });
    script.turn();
    script.engine.due(3);
    script.turn();
    script.engine.succeed(6);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(7);
    expect(script.turn()).toBe('failed');
    expect(failure(script).code).toBe('DEADLOCK');
  });
});

import { describe, expect, test } from 'vitest';

import { type Channel, CLOSED, type Closed } from '../../js/driver/channel.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { outputOf, Script } from './scripted-engine.ts';

type Block = Generator<any, any, any>;

/** Receives all values of a channel until it is closed. */
function* drain<T>(channel: Channel<T>): Generator<any, T[], any> {
  const got: T[] = [];
  let value: T | Closed;
  while ((value = yield* channel.receive()) !== CLOSED) got.push(value);
  return got;
}

function errorOf(call: () => unknown): any {
  try {
    call();
  } catch (error) {
    return error;
  }
}

describe('a channel without a capacity', () => {
  test('takes any number of values at once, and gives them in order', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>();
        for (let i = 0; i < 5; i += 1) yield* channel.send(i);
        channel.close();
        return yield* drain(channel);
      }),
    ).toEqual([0, 1, 2, 3, 4]);
  });

  test('lets a receive wait for a later send', () => {
    const script = new Script(function* (ctx): Block {
      const channel = ctx.channel<string>();
      const receiver = ctx.spawn(() => drain(channel));
      channel.send(yield ctx.scheduleActivity('a'));
      channel.send(yield ctx.scheduleActivity('b'));
      channel.close();
      return yield receiver;
    });
    script.turn();
    script.engine.succeed(2, 'A');
    script.turn();
    script.engine.succeed(3, 'B');
    expect(script.output()).toEqual(['A', 'B']);
  });

  test('keeps 100 000 values, sent and received with a flat stack', () => {
    const count = 100_000;
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>();
        for (let i = 0; i < count; i += 1) channel.send(i);
        channel.close();
        let sum = 0;
        yield* channel.forEach(function* (value) {
          sum += value;
        });
        return sum;
      }),
    ).toBe((count * (count - 1)) / 2);
  });

  test('carries values as they are: functions, undefined, the very object', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<unknown>();
        const values = [undefined, () => 1, { a: 1 }, null, Number.NaN];
        for (const value of values) channel.send(value);
        const got: unknown[] = [];
        for (const _ of values) got.push(yield* channel);
        return got.every((value, i) => Object.is(value, values[i]));
      }),
    ).toBe(true);
  });
});

describe('a channel with a capacity', () => {
  /** Returns the events in order when one fiber sends 0..4 and another receives. */
  function log(capacity: number): string[] {
    return outputOf(function* (ctx): Block {
      const channel = ctx.channel<number>(capacity);
      const lines: string[] = [];
      const sender = ctx.spawn(function* () {
        for (let i = 0; i < 4; i += 1) {
          yield* channel.send(i);
          lines.push(`sent ${i}`);
        }
        channel.close();
      });
      yield ctx.spawn(function* () {}); // all others go first
      lines.push('receiving');
      yield* channel.forEach(function* (value): Block {
        lines.push(`got ${value}`);
      });
      yield sender;
      return lines;
    }) as string[];
  }

  test('makes sends wait while it is full', () => {
    const lines = log(2);
    expect(lines.slice(0, 3)).toEqual(['sent 0', 'sent 1', 'receiving']);
    expect(lines.filter((line) => line.startsWith('got'))).toEqual(['got 0', 'got 1', 'got 2', 'got 3']);
    expect(lines.indexOf('sent 2')).toBeGreaterThan(lines.indexOf('receiving'));
  });

  test('makes every send wait for its receive at capacity 0', () => {
    const lines = log(0);
    expect(lines[0]).toBe('receiving');
    for (let i = 1; i < 4; i += 1) expect(lines.indexOf(`sent ${i}`)).toBeGreaterThan(lines.indexOf(`sent ${i - 1}`));
    for (let i = 1; i < 4; i += 1) expect(lines.indexOf(`got ${i}`)).toBeGreaterThan(lines.indexOf(`sent ${i - 1}`));
  });

  test('takes waiting senders in their order, before later ones, at every capacity', () => {
    for (const capacity of [0, 1, 2, 3, 7, Number.POSITIVE_INFINITY]) {
      expect(
        outputOf(function* (ctx): Block {
          const channel = ctx.channel<number>(capacity);
          for (let i = 0; i < 5; i += 1) channel.send(i);
          const got: unknown[] = [];
          for (let i = 5; i < 20; i += 1) {
            got.push(yield* channel.receive());
            channel.send(i);
          }
          channel.close();
          return [...got, ...(yield* drain(channel))];
        }),
        `capacity ${capacity}`,
      ).toEqual(Array.from({ length: 20 }, (_, i) => i));
    }
  });

  test('limits how many run at once', () => {
    const script = new Script(function* (ctx): Block {
      const slots = ctx.channel<null>(2);
      yield ctx.all(
        [0, 1, 2, 3, 4].map((i) =>
          (function* (): Block {
            yield* slots.send(null);
            yield ctx.scheduleActivity(`work${i}`);
            yield* slots.receive();
          })(),
        ),
      );
    });
    script.turn();
    expect(script.engine.commands).toEqual(['activity work0', 'activity work1']);
    script.engine.succeed(3);
    script.turn();
    expect(script.engine.commands).toEqual(['activity work0', 'activity work1', 'activity work2']);
    script.engine.succeed(2);
    script.engine.succeed(4);
    script.turn();
    expect(script.engine.commands).toHaveLength(5);
  });

  test('is refused if it is not a whole number', () => {
    expect(
      outputOf(function* (ctx): Block {
        return [-1, 1.5, Number.NaN, '3', null].map(
          (capacity) => errorOf(() => ctx.channel(capacity as number))?.message,
        );
      }),
    ).toEqual([
      'ctx.channel: the capacity must be a whole number >= 0, or Infinity; got -1',
      'ctx.channel: the capacity must be a whole number >= 0, or Infinity; got 1.5',
      'ctx.channel: the capacity must be a whole number >= 0, or Infinity; got NaN',
      'ctx.channel: the capacity must be a whole number >= 0, or Infinity; got a string',
      'ctx.channel: the capacity must be a whole number >= 0, or Infinity; got null',
    ]);
  });
});

describe('receives', () => {
  test('are served in the order in which they began to wait', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>();
        const late = channel.receive(); // made first, waited for last
        const got: string[] = [];
        const receive = (name: string, future = channel.receive()): Block =>
          (function* (): Block {
            got.push(`${name}${String(yield future)}`);
          })();
        const fibers = [ctx.spawn(receive('a')), ctx.spawn(receive('b')), ctx.spawn(receive('late', late))];
        yield ctx.spawn(function* () {});
        for (let i = 0; i < 3; i += 1) channel.send(i);
        yield ctx.all(fibers);
        return got;
      }),
    ).toEqual(['a0', 'b1', 'late2']);
  });

  test('take no value after they lost a race, and can be waited for again', () => {
    const script = new Script(function* (ctx): Block {
      const channel = ctx.channel<number>();
      const receive = channel.receive();
      const first = yield* ctx.race(receive, ctx.scheduleActivity('a'));
      channel.send(1);
      channel.send(2);
      yield ctx.spawn(function* () {});
      return [first.index, yield* channel.receive(), yield receive];
    });
    script.turn();
    script.engine.succeed(2);
    expect(script.output()).toEqual([1, 1, 2]);
  });

  test('take from only one of two channels in a race', () => {
    expect(
      outputOf(function* (ctx): Block {
        const [a, b] = [ctx.channel<string>(), ctx.channel<string>()];
        b.send('b');
        a.send('a');
        const first = yield* ctx.race(a.receive(), b.receive());
        a.close();
        b.close();
        return [first.index, first.value, yield* drain(a), yield* drain(b)];
      }),
    ).toEqual([0, 'a', [], ['b']]);
  });

  test('leave the queue when they are cancelled', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>();
        const gone = ctx.spawn(() => drain(channel));
        const stays = ctx.spawn(function* () {
          return yield* channel.receive();
        });
        yield ctx.spawn(function* () {});
        gone.cancel();
        channel.send(7);
        return yield stays;
      }),
    ).toBe(7);
  });

  test('leave a sent value for the next receive when they are cancelled', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>();
        const gone = ctx.spawn(() => drain(channel));
        yield ctx.spawn(function* () {});
        channel.send(7);
        gone.cancel();
        return yield* channel.receive();
      }),
    ).toBe(7);
  });

  test('combine: all takes several values in order', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>(1);
        ctx.spawn(function* (): Block {
          for (let i = 0; i < 3; i += 1) yield* channel.send(i);
        });
        return yield* ctx.all([channel.receive(), channel.receive(), channel.receive()]);
      }),
    ).toEqual([0, 1, 2]);
  });

  test('leave no trace in a long queue when they come and go', () => {
    expect(
      outputOf(function* (ctx): Block {
        const [quiet, busy] = [ctx.channel<number>(), ctx.channel<number>()];
        const waits = ctx.spawn(() => drain(quiet));
        let sum = 0;
        for (let i = 0; i < 20_000; i += 1) {
          busy.send(i);
          sum += (yield* ctx.race(quiet.receive(), busy.receive())).index;
        }
        quiet.close();
        return [sum, yield waits];
      }),
    ).toEqual([20_000, []]);
  });
});

describe('sends', () => {
  test('are taken back when they are cancelled while they wait', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>(1);
        channel.send(1);
        const taken = channel.send(2);
        channel.send(3);
        taken.cancel();
        channel.close();
        return yield* drain(channel);
      }),
    ).toEqual([1, 3]);
  });

  test('are taken back when their fiber is cancelled, but not when they lost a race', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<string>(0);
        const gone = ctx.spawn(function* () {
          yield* channel.send('gone');
        });
        ctx.spawn(function* () {
          yield* ctx.race(
            channel.send('lost'),
            ctx.spawn(function* () {}),
          );
        });
        yield ctx.spawn(function* () {});
        gone.cancel();
        channel.close();
        return yield* drain(channel);
      }),
    ).toEqual(['lost']);
  });

  test('to a closed channel throw', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>();
        channel.close();
        channel.close();
        const { name, code, message } = errorOf(() => channel.send(1));
        return [channel.isClosed, name, code, message];
      }),
    ).toEqual([true, 'PerdureError', 'CHANNEL_CLOSED', 'channel 1 is closed: nothing more can be sent']);
  });

  test('are received before the end of the channel if they wait when it is closed', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>(0);
        const sends = [channel.send(1), channel.send(2), channel.send(3)];
        channel.close();
        const first = yield* channel.receive();
        sends[1]?.cancel();
        sends[2]?.cancel();
        return [first, (yield* channel) === CLOSED, (yield* channel) === CLOSED];
      }),
    ).toEqual([1, true, true]);
  });

  test('let the receivers of a closed channel end when the last of them leaves', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>(0);
        const send = channel.send(1);
        const other = ctx.spawn(() => drain(channel));
        send.cancel();
        channel.close();
        return yield other;
      }),
    ).toEqual([]);
  });
});

describe('closing', () => {
  test('ends every receive that waits', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>();
        const fibers = [1, 2, 3].map(() => ctx.spawn(() => drain(channel)));
        yield ctx.spawn(function* () {});
        channel.send(1);
        channel.close();
        return yield ctx.all(fibers);
      }),
    ).toEqual([[1], [], []]);
  });
});

describe('forEach', () => {
  test('makes workers of one list', () => {
    const script = new Script(function* (ctx): Block {
      const jobs = ctx.channel<string>();
      const done: string[] = [];
      for (const job of ['a', 'b', 'c', 'd']) jobs.send(job);
      jobs.close();
      yield* ctx.all(
        [1, 2].map((worker) =>
          jobs.forEach(function* (job): Block {
            yield ctx.scheduleActivity(job);
            done.push(`${job}${worker}`);
          }),
        ),
      );
      return done;
    });
    script.turn();
    expect(script.engine.commands).toEqual(['activity a', 'activity b']);
    script.engine.succeed(3);
    script.turn();
    expect(script.engine.commands).toEqual(['activity a', 'activity b', 'activity c']);
    script.engine.succeed(2);
    script.engine.succeed(4);
    script.turn();
    script.engine.succeed(5);
    expect(script.output()).toEqual(['b2', 'a1', 'c2', 'd1']);
  });

  test('rejects with the error of its body, and refuses a body that is not a function*', () => {
    expect(
      outputOf(function* (ctx): Block {
        const channel = ctx.channel<number>();
        channel.send(1);
        channel.send(2);
        const messages: string[] = [];
        messages.push(errorOf(() => channel.forEach('x' as never)).message);
        for (const body of [
          function* () {
            throw new Error('body');
          },
          (() => 5) as never,
        ]) {
          try {
            yield* channel.forEach(body);
          } catch (error) {
            messages.push((error as Error).message);
          }
        }
        return messages;
      }),
    ).toEqual([
      'channel.forEach takes a function*, not a string',
      'body',
      'channel.forEach takes a function*, but the function returned the number 5',
    ]);
  });
});

describe('a channel of another instance', () => {
  test('is refused, and does not change', () => {
    let channel: Channel<number> | undefined;
    const owner = new Script(function* (ctx): Block {
      channel = ctx.channel<number>();
      yield ctx.sleep(1);
      channel.close();
      return yield* drain(channel);
    });
    owner.turn();
    expect(
      outputOf(function* (): Block {
        return [() => channel?.send(1), () => channel?.receive(), () => channel?.close()].map(
          (call) => errorOf(call).name,
        );
      }),
    ).toEqual(['DeterminismError', 'DeterminismError', 'DeterminismError']);
    expect(errorOf(() => channel?.send(1)).message).toMatch(
      /ctx\.channel\(\)\.send was called while its orchestration was not running/,
    );
    owner.engine.due(2);
    expect(owner.output()).toEqual([]);
  });
});

describe('turn boundaries', () => {
  /** A pipeline of three stages over two channels, whose activities settle in a given order. */
  const pipeline = function* (ctx: OrchestrationContext): Block {
    const [raw, cooked] = [ctx.channel<number>(1), ctx.channel<string>(0)];
    const got: string[] = [];
    ctx.spawn(function* (): Block {
      for (let i = 0; i < 4; i += 1) yield* raw.send(yield ctx.scheduleActivity(`read${i}`));
      raw.close();
    });
    const cooks = [1, 2].map((cook) =>
      ctx.spawn(
        raw.forEach(function* (value): Block {
          yield* cooked.send(`${value}:${yield ctx.scheduleActivity(`cook${cook}`)}`);
        }),
      ),
    );
    ctx.spawn(function* (): Block {
      yield ctx.all(cooks);
      cooked.close();
    });
    yield* cooked.forEach(function* (value): Block {
      got.push(value);
    });
    return got;
  };

  test.each([1, 2, 3, 5, 8, 13])('make no difference (seed %i)', (seed) => {
    const run = (perTurn: number): { output: unknown; commands: string[] } => {
      const script = new Script(pipeline);
      let random = seed;
      const open = new Set<number>();
      let seen = 0;
      const pick = (): number | undefined => {
        for (; seen < script.engine.commands.length; seen += 1) open.add(seen + 2);
        random = (random * 48_271) % 2_147_483_647;
        return [...open][random % Math.max(1, open.size)];
      };
      // The next operation to settle is chosen when all fibers wait, as many times per turn as asked for.
      let left = 0;
      const { next } = script.engine;
      script.engine.next = function (...waits) {
        const operation = left > 0 ? pick() : undefined;
        if (operation !== undefined) {
          left -= 1;
          open.delete(operation);
          script.engine.succeed(operation, operation);
        }
        return next.apply(script.engine, waits);
      };
      for (let turns = 0; turns < 100; turns += 1) {
        left = perTurn;
        const end = script.turn();
        if (end !== 'waiting') return { output: script.engine.end, commands: script.engine.commands };
      }
      throw new Error('it does not end');
    };
    const one = run(1);
    expect(one.output).toMatchObject({ kind: 'completed' });
    expect(run(3)).toEqual(one);
    expect(run(100)).toEqual(one);
  });
});

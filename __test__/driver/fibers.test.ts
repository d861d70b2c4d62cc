import { describe, expect, test } from 'vitest';

import type { Future } from '../../js/driver/future.ts';
import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { outputOf, Script } from './scripted-engine.ts';

describe('the trampoline', () => {
  const COUNT = 100_000;

  test.each([
    [
      'yield',
      function* (future: Future<number>): Generator<any, number, any> {
        return yield future;
      },
    ],
    [
      'yield*',
      function* (future: Future<number>): Generator<any, number, any> {
        return yield* future;
      },
    ],
  ])('keeps the stack flat over 100 000 settled `%s`', (_name, wait) => {
    const script = new Script(function* (ctx) {
      const one = ctx.scheduleActivity<number>('one');
      yield one;
      let sum = 0;
      for (let i = 0; i < COUNT; i += 1) sum += yield* wait(one);
      return sum;
    });
    script.turn();
    script.engine.succeed(2, 1);
    expect(script.output()).toBe(COUNT);
  });

  test('keeps the stack flat over 100 000 settled failures', () => {
    const script = new Script(function* (ctx) {
      const bad = ctx.scheduleActivity('bad');
      let caught = 0;
      for (let i = 0; i < COUNT; i += 1) {
        try {
          yield bad;
        } catch {
          caught += 1;
        }
      }
      return caught;
    });
    script.turn();
    script.engine.fail(2, new Error('no'));
    expect(script.output()).toBe(COUNT);
  });

  test('lets 10 000 fibers wait in a chain', () => {
    const script = new Script(function* (ctx) {
      let last: Future<number> = ctx.scheduleActivity<number>('a');
      for (let i = 0; i < 10_000; i += 1) {
        const before = last;
        last = ctx.spawn(function* () {
          return (yield* before) + 1;
        });
      }
      return yield* last;
    });
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(2, 0);
    expect(script.output()).toBe(10_000);
  });

  test('cancels a chain of 10 000 fibers', () => {
    const script = new Script(function* (ctx) {
      let last: Future<unknown> = ctx.scheduleActivity('a');
      for (let i = 0; i < 10_000; i += 1) {
        const before = last;
        last = ctx.spawn(function* () {
          yield before;
        });
      }
      yield ctx.race(last, ctx.waitForEvent('stop'));
      last.cancel('enough');
      try {
        yield last;
      } catch (error) {
        return (error as Error).message;
      }
    });
    script.turn();
    script.engine.post('estop');
    expect(script.output()).toBe('cancelled: enough');
    expect(script.engine.commands).toEqual(['activity a', 'cancel 2']);
  });
});

describe('fibers', () => {
  test('run in the order in which they became ready, and only when the running one waits', () => {
    const order: string[] = [];
    const script = new Script(function* (ctx) {
      const strand = function* (name: string): Generator<any, void, any> {
        order.push(`${name}1`);
        yield ctx.scheduleActivity(name);
        order.push(`${name}2`);
      };
      const a = ctx.spawn(() => strand('a'));
      const b = ctx.spawn(strand('b'));
      order.push('main1');
      yield ctx.all([a, b]);
      order.push('main2');
    });
    script.turn();
    expect(order).toEqual(['main1', 'a1', 'b1']);
    script.engine.succeed(3);
    script.engine.succeed(2);
    script.output();
    expect(order).toEqual(['main1', 'a1', 'b1', 'b2', 'a2', 'main2']);
  });

  test('all run until they wait before the next delivery, so a turn with two deliveries is as two turns', () => {
    const code = (log: string[]) =>
      function* (ctx: OrchestrationContext): Generator<any, void, any> {
        const a = ctx.scheduleActivity('a');
        const b = ctx.scheduleActivity('b');
        const first = ctx.spawn(function* () {
          yield a;
          log.push('a is here');
          yield ctx.scheduleActivity('after a');
        });
        yield b;
        log.push('b is here');
        yield ctx.scheduleActivity('after b');
        yield first;
      };
    const logs: string[][] = [];
    for (const together of [true, false]) {
      const log: string[] = [];
      const script = new Script(code(log));
      script.turn();
      script.engine.succeed(2);
      if (!together) script.turn();
      script.engine.succeed(3);
      script.turn();
      logs.push([...log, ...script.engine.commands]);
    }
    expect(logs[0]).toEqual([
      'a is here',
      'b is here',
      'activity a',
      'activity b',
      'activity after a',
      'activity after b',
    ]);
    expect(logs[1]).toEqual(logs[0]);
  });

  test('are named to the engine in their commands and messages, all but the main one', () => {
    const script = new Script(function* (ctx) {
      yield ctx.scheduleActivity('before');
      const asks = ctx.spawn(function* () {
        ctx.scheduleActivity('a');
        ctx.scheduleTimer(10);
        ctx.scheduleTimer(new Date(5_000));
        ctx.scheduleSubOrchestration('child', 1, { id: 'c' });
        ctx.startOrchestration('audit', 'audit-1');
        ctx.raiseEvent('other', 'go');
        ctx.enqueueEvent('other', 'jobs', 1);
      });
      const receives = function* (): Generator<any, void, any> {
        yield ctx.waitForEvent('go');
        yield ctx.race([ctx.dequeueEvent('jobs'), ctx.sleep(1)]);
      };
      yield ctx.all([asks, receives(), ctx.waitForEvent('stop')]);
    });
    script.turn();
    script.engine.succeed(2);
    for (const mailbox of ['ego', 'qjobs', 'estop']) script.engine.post(mailbox);
    script.output();
    const asked = script.engine.commands.slice(1, 8).map((command) => `1: ${command}`);
    expect(script.engine.fibers).toEqual([...asked, '2: ego', '2: timer +1', '2: qjobs']);
    expect(asked.map((text) => text.split(' ')[1])).toEqual([
      'activity',
      'timer',
      'timer',
      'child',
      'start',
      'send',
      'send',
    ]);
  });

  test('are dropped without `finally` when the main fiber ends', () => {
    let ranFinally = false;
    const output = outputOf(function* (ctx) {
      ctx.spawn(function* () {
        try {
          yield ctx.scheduleTimer('1h');
        } finally {
          ranFinally = true;
        }
      });
      yield ctx.spawn(function* () {});
      return 'done';
    });
    expect(output).toBe('done');
    expect(ranFinally).toBe(false);
  });

  test('that throw fail their future, wherever it is waited for', () => {
    const output = outputOf(function* (ctx) {
      const bad = ctx.spawn(function* () {
        throw new RangeError('in the fiber');
      });
      yield ctx.spawn(function* () {});
      try {
        yield bad;
      } catch (error) {
        return `${(error as Error).name}: ${(error as Error).message}`;
      }
    });
    expect(output).toBe('RangeError: in the fiber');
  });

  test('can be cancelled: before they began, while they wait, and by themselves', () => {
    const log: string[] = [];
    const script = new Script(function* (ctx) {
      const early = ctx.spawn(function* () {
        log.push('never');
      });
      early.cancel();
      const waits = ctx.spawn(function* () {
        try {
          yield ctx.scheduleActivity('a');
        } finally {
          log.push('cleaned');
        }
      });
      const self: Future<string> = ctx.spawn(function* () {
        self.cancel('myself');
        log.push('still running');
        try {
          yield ctx.scheduleTimer(1);
        } catch (error) {
          return (error as Error).message;
        }
        return 'not interrupted';
      });
      const how = yield self;
      waits.cancel('not needed');
      const results = yield* ctx.allSettled([early, waits]);
      return [how, ...results.map((result) => (result.status === 'rejected' ? result.reason.message : 'ok'))];
    });
    expect(script.output()).toEqual(['cancelled: myself', 'cancelled', 'cancelled: not needed']);
    expect(log).toEqual(['still running', 'cleaned']);
    expect(script.engine.commands).toEqual(['activity a', 'timer +1', 'cancel 3', 'cancel 2']);
  });

  test('do not give up operations that other fibers wait for too', () => {
    const script = new Script(function* (ctx) {
      const shared = ctx.scheduleActivity('shared');
      const one = ctx.spawn(function* () {
        yield shared;
      });
      const other = ctx.spawn(function* () {
        return yield shared;
      });
      yield ctx.spawn(function* () {});
      one.cancel();
      return yield other;
    });
    script.turn();
    script.engine.succeed(2, 'kept');
    expect(script.output()).toBe('kept');
    expect(script.engine.commands).toEqual(['activity shared']);
  });
});

import { describe, expect, test } from 'vitest';

import type { OrchestrationContext } from '../../js/orchestration/orchestration-context.ts';
import { Script } from './scripted-engine.ts';

describe('a mailbox', () => {
  test('is named only while a fiber waits for it', () => {
    const script = new Script(function* (ctx) {
      const event = ctx.waitForEvent('go');
      const message = ctx.dequeueEvent('go');
      yield ctx.scheduleActivity('a');
      return [yield event, yield message];
    });
    script.turn();
    expect(script.engine.lastAwaited).toEqual({ mailboxes: null, timers: null });
    script.engine.succeed(2);
    script.turn();
    expect(script.engine.lastAwaited.mailboxes).toEqual(['ego']);
    script.engine.post('qgo', 'message');
    script.engine.post('ego', 'event');
    expect(script.output()).toEqual(['event', 'message']);
  });

  test('eats nothing when its wait lost a race, and can be waited for again', () => {
    const script = new Script(function* (ctx) {
      const event = ctx.waitForEvent('go');
      const first = yield ctx.race(event, ctx.scheduleActivity('a'));
      yield ctx.scheduleActivity('b');
      return [first.index, yield ctx.waitForEvent('go')];
    });
    script.turn();
    expect(script.engine.lastAwaited.mailboxes).toEqual(['ego']);
    script.engine.succeed(2);
    script.turn();
    expect(script.engine.lastAwaited.mailboxes).toBeNull();
    script.engine.post('ego', 'kept');
    script.turn();
    script.engine.succeed(3);
    expect(script.output()).toEqual([1, 'kept']);
  });

  test('gives a message to the future that has waited longest', () => {
    const script = new Script(function* (ctx) {
      const order: string[] = [];
      const take = (name: string) =>
        ctx.spawn(function* () {
          order.push(`${name}:${yield ctx.dequeueEvent('q')}`);
        });
      const unwatched = ctx.dequeueEvent('q');
      yield ctx.all([take('a'), take('b'), take('c')]);
      return [...order, yield unwatched];
    });
    script.turn();
    for (const value of [1, 2, 3, 4]) script.engine.post('qq', value);
    expect(script.output()).toEqual(['a:1', 'b:2', 'c:3', 4]);
  });

  test('is awaited by a fiber without a waiter', () => {
    const got: unknown[] = [];
    const script = new Script(function* (ctx) {
      ctx.spawn(function* () {
        for (;;) got.push(yield ctx.waitForEvent('tick'));
      });
      yield ctx.scheduleActivity('a');
    });
    script.engine.post('etick', 1);
    script.engine.post('etick', 2);
    expect(script.turn()).toBe('waiting');
    expect(got).toEqual([1, 2]);
  });
});

describe('a timer', () => {
  test('is named only while a fiber waits for it, through any number of combinators', () => {
    const script = new Script(function* (ctx) {
      const timer = ctx.scheduleTimer('1h');
      const nested = ctx.any([ctx.all([timer])]);
      yield ctx.scheduleActivity('a');
      yield ctx.race(nested, ctx.scheduleActivity('b'));
      yield ctx.scheduleActivity('c');
      yield timer;
    });
    script.turn();
    expect(script.engine.lastAwaited.timers).toBeNull();
    script.engine.due(2);
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(3);
    script.turn();
    expect(script.engine.awaited.map(({ timers }) => timers)).toContainEqual([2]);
    expect(script.engine.lastAwaited.timers).toBeNull();
    expect(script.engine.commands.at(-1)).toBe('activity c');
    script.engine.succeed(5);
    expect(script.turn()).toBe('completed');
  });

  test('is no longer reported after it lost a race or was cancelled', () => {
    const script = new Script(function* (ctx) {
      const timer = ctx.scheduleTimer('1h');
      yield ctx.race(timer, ctx.scheduleActivity('a'));
      yield ctx.scheduleActivity('b');
      timer.cancel();
      timer.cancel();
      yield ctx.scheduleActivity('c');
    });
    script.turn();
    expect(script.engine.lastAwaited.timers).toEqual([2]);
    script.engine.succeed(3);
    script.turn();
    expect(script.engine.lastAwaited.timers).toBeNull();
    script.engine.succeed(4);
    script.turn();
    expect(script.engine.commands).toEqual(['timer +3600000', 'activity a', 'activity b', 'cancel 2', 'activity c']);
  });
});

describe('a wait for many', () => {
  test.each([
    ['timers', (ctx: OrchestrationContext, n: number) => ctx.scheduleTimer(n)],
    ['event names', (ctx: OrchestrationContext, n: number) => ctx.waitForEvent(`${n}`)],
    [
      'fibers',
      (ctx: OrchestrationContext, n: number) =>
        ctx.spawn(function* () {
          yield ctx.scheduleTimer(n);
        }),
    ],
  ])('tells the engine of each of its %s once, and once that it is gone', (_, branch) => {
    const many = 1_000;
    const script = new Script(function* (ctx) {
      yield ctx.all(Array.from({ length: many }, (_, n) => branch(ctx, n)));
      yield ctx.scheduleActivity('a');
    });
    script.turn();
    expect(script.engine.told).toBe(many);
    for (let n = 0; n < many; n += 1) {
      script.engine.due(2 + n);
      script.engine.post(`e${n}`);
    }
    script.turn();
    expect(script.engine.commands.at(-1)).toBe('activity a');
    expect(script.engine.told).toBe(2 * many);
  });

  test('reports no waits that began and ended between two deliveries', () => {
    const script = new Script(function* (ctx) {
      const event = ctx.waitForEvent('go');
      const timer = ctx.scheduleTimer('1h');
      for (let n = 0; n < 100; n += 1) yield ctx.race([event, timer, ctx.scheduleActivity('a')]);
    });
    script.turn();
    for (let n = 0; n < 100; n += 1) script.engine.succeed(3 + n);
    expect(script.turn()).toBe('completed');
    expect(script.engine.told).toBe(2);
  });

  test('settles the races of many fibers over one event in the order of their waits', () => {
    const many = 1_000;
    const order: number[] = [];
    const script = new Script(function* (ctx) {
      const event = ctx.waitForEvent('go');
      const wait = (n: number) =>
        ctx.spawn(function* () {
          yield ctx.race([ctx.waitForEvent('other'), event]);
          order.push(n);
        });
      yield ctx.all(Array.from({ length: many }, (_, n) => wait(n)));
    });
    script.turn();
    script.engine.post('ego');
    expect(script.turn()).toBe('completed');
    expect(order).toEqual(Array.from({ length: many }, (_, n) => n));
  });
});

describe('an activity', () => {
  test('settles with and without a waiter', () => {
    const script = new Script(function* (ctx) {
      const a = ctx.scheduleActivity('a');
      yield ctx.scheduleActivity('b');
      return yield a;
    });
    script.turn();
    script.engine.succeed(2, 'early');
    expect(script.turn()).toBe('waiting');
    script.engine.succeed(3);
    expect(script.output()).toBe('early');
  });
});

import { describe, expect, test } from 'vitest';

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

  test('is waited for by a fiber that nobody waits for', () => {
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

  test('that lost is no longer named, and one that is cancelled is gone', () => {
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

describe('an activity', () => {
  test('settles whether anybody waits for it or not', () => {
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

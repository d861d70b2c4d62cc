// `perdure/testing`: a runtime with a virtual clock.

import { getEventListeners } from 'node:events';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import {
  defineActivity,
  defineOrchestration,
  InstanceExistsError,
  NonRetryableError,
  NotRegisteredError,
  RuntimeStateError,
  TimeoutError,
} from 'perdure';
import { StuckError, TestRuntime, type TestRuntimeOptions } from 'perdure/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { deferred, rejection } from '../support/async.ts';

const BEGIN = Date.parse('2030-01-01T00:00:00Z');
const DAY = 86_400_000;

const charge = defineActivity('charge', async (_, order: { item: string }) => `paid ${order.item}`, {
  retry: { maxAttempts: 4, initialInterval: '10s', backoff: 2, jitter: 0 },
  timeout: '1m',
});

const order = defineOrchestration('order', function* (ctx, input: { item: string }) {
  const receipt = yield* ctx.call(charge, input);
  ctx.setCustomStatus('charged');
  const answer = yield* ctx.race(ctx.waitForEvent<{ by: string }>('packed'), ctx.scheduleTimer('30d'));
  return answer.index === 0 ? `${receipt}, packed by ${answer.value.by}` : `${receipt}, late`;
});

const tests: TestRuntime[] = [];

async function create(options?: TestRuntimeOptions): Promise<TestRuntime> {
  const test = await TestRuntime.create(options);
  tests.push(test);
  return test;
}

/** Work that takes real time, outside of any test's clock. */
async function realWork(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await readFile(new URL(import.meta.url));
}

afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(tests.splice(0).map((test) => test.close()));
});

describe('the clock', () => {
  it('skips to the next due timer while a test waits', async () => {
    const test = (await create()).register(charge, order);
    const handle = await test.start(order, { item: 'tea' });
    expect(await handle.result()).toBe('paid tea, late');
    expect(test.now()).toEqual(new Date(BEGIN + 30 * DAY));
    const history = await test.client.getHistory(handle.id);
    expect(history.map(({ kind, time }) => [kind, (time.getTime() - BEGIN) / DAY])).toEqual([
      ['ExecutionStarted', 0],
      ['ActivityScheduled', 0],
      ['ActivityCompleted', 0],
      ['TimerCreated', 0],
      ['TimerFired', 30],
      ['ExecutionCompleted', 30],
    ]);
  });

  it('stands while no test waits for an instance', async () => {
    const test = (await create()).register(charge, order);
    const handle = await test.start(order, { item: 'tea' });
    await realWork();
    expect(test.now()).toEqual(new Date(BEGIN));
    await handle.raiseEvent('packed', { by: 'ada' });
    expect(await handle.result()).toBe('paid tea, packed by ada');
    expect(test.now()).toEqual(new Date(BEGIN));
  });

  it('skips for a wait for a change of the custom status, too', async () => {
    const test = await create();
    test.registerOrchestration('steps', function* (ctx) {
      for (const step of [1, 2]) {
        yield ctx.scheduleTimer('1d');
        ctx.setCustomStatus(step);
      }
    });
    await test.client.startOrchestration('s', 'steps');
    const seen: unknown[] = [];
    for await (const { customStatus } of test.client.statusChanges('s'))
      seen.push([customStatus, (test.now().getTime() - BEGIN) / DAY]);
    expect(seen).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });

  it('stands until test.advance, and settles each due timer before the next', async () => {
    const test = await create({ clock: 'stands' });
    const log: string[] = [];
    const at = (): string => test.now().toISOString().slice(5, 16);
    test.activity('note', (_, text) => void log.push(`${at()} ${text}`));
    test.registerOrchestration('ticks', function* (ctx, hours: number) {
      for (let tick = 1; tick <= 3; tick += 1) {
        yield ctx.scheduleTimer(`${hours}h`);
        yield ctx.scheduleActivity('note', `${ctx.instanceId} ${tick}`);
        yield ctx.scheduleActivity('note', `${ctx.instanceId} ${tick} again`);
      }
    });
    await test.client.startOrchestration('a', 'ticks', 2);
    await test.client.startOrchestration('b', 'ticks', 3);
    await test.advance('1h');
    expect(log).toEqual([]);
    await test.advanceTo('2030-01-01T04:00:00Z');
    expect(log).toEqual([
      '01-01T02:00 a 1',
      '01-01T02:00 a 1 again',
      '01-01T03:00 b 1',
      '01-01T03:00 b 1 again',
      '01-01T04:00 a 2',
      '01-01T04:00 a 2 again',
    ]);
    expect(at()).toBe('01-01T04:00');
    await test.advance('365d');
    expect(log).toHaveLength(12);
    expect(test.now()).toEqual(new Date(BEGIN + 365 * DAY + 4 * 3_600_000));
  });

  it('begins at the given time, and is the clock of the code', async () => {
    const test = await create({ now: '2031-03-30T00:59:00Z' });
    test.registerOrchestration('o', function* (ctx) {
      const begin = [new Date().toISOString(), new Date(ctx.now()).toISOString()];
      yield ctx.scheduleTimer(new Date('2031-04-01T00:00:00Z'));
      return [...begin, new Date().toISOString()];
    });
    await test.client.startOrchestration('o', 'o');
    const { output, createdAt, completedAt } = await test.client.waitForOrchestration('o');
    expect(output).toEqual(['2031-03-30T00:59:00.000Z', '2031-03-30T00:59:00.000Z', '2031-04-01T00:00:00.000Z']);
    expect([createdAt, completedAt]).toEqual([new Date('2031-03-30T00:59:00Z'), new Date('2031-04-01T00:00:00Z')]);
  });

  it('is that of the timeouts of waits', async () => {
    const test = (await create()).register(charge, order);
    const handle = await test.start(order, { item: 'tea' });
    expect(await rejection(handle.result({ timeout: '29d' }))).toBeInstanceOf(TimeoutError);
    expect(test.now()).toEqual(new Date(BEGIN + 29 * DAY));
    expect(await handle.waitForStatusChange(1, undefined, '5m')).toBe(null);
    expect(await handle.result({ timeout: '2d' })).toBe('paid tea, late');
  });

  it('does not advance while an activity runs', async () => {
    const test = (await create()).register(order);
    test.activity(charge, async () => {
      await realWork();
      return 'paid at last';
    });
    const handle = await test.start(order, { item: 'tea' });
    const times = test.advance('1s').then(() => test.calls(charge).map(({ outcome }) => outcome));
    expect(await handle.result()).toBe('paid at last, late');
    expect(await times).toEqual(['completed']);
    const history = await test.client.getHistory(handle.id);
    expect(history[2]).toMatchObject({ kind: 'ActivityCompleted', time: new Date(BEGIN) });
  });

  it('advances while an activity waits for another instance', async () => {
    const test = (await create()).register(charge, order);
    test.activity('follow', async (ctx, id) => (await ctx.client.waitForOrchestration(id)).output);
    test.registerOrchestration('follower', function* (ctx) {
      yield ctx.startOrchestration('order', 'followed', { item: 'tea' });
      return yield ctx.scheduleActivity('follow', 'followed');
    });
    await test.client.startOrchestration('f', 'follower');
    expect((await test.client.waitForOrchestration('f')).output).toBe('paid tea, late');
  });

  it('takes a thousand timers and a loop of years in its stride', async () => {
    const test = await create();
    test.registerOrchestration('fan', function* (ctx) {
      yield ctx.all(Array.from({ length: 1_000 }, (_, i) => ctx.scheduleTimer(`${1_000 - i}m`)));
      return ctx.now();
    });
    test.registerOrchestration('monthly', function* (ctx, left: number) {
      yield ctx.scheduleTimer('30d');
      return left === 0 ? ctx.now() : ctx.continueAsNew(left - 1);
    });
    await test.client.startOrchestration('fan', 'fan');
    expect((await test.client.waitForOrchestration('fan')).output).toBe(BEGIN + 60_000_000);
    await test.client.startOrchestration('monthly', 'monthly', 59);
    expect((await test.client.waitForOrchestration('monthly')).output).toBe(BEGIN + 60_000_000 + 60 * 30 * DAY);
  });

  it('gives the same run for the same seed, and another for another', async () => {
    const run = async (seed: number): Promise<unknown> => {
      const test = await create({ seed });
      test.registerOrchestration('dice', function* (ctx) {
        yield ctx.scheduleTimer('1d');
        return [ctx.random(), ctx.randomUUID()];
      });
      await test.client.startOrchestration('d', 'dice');
      return (await test.client.waitForOrchestration('d')).output;
    };
    const [one, again, two] = await Promise.all([run(1), run(1), run(2)]);
    expect(again).toEqual(one);
    expect(two).not.toEqual(one);
  });

  it('stands again when the signal of an advance is aborted, and goes on later', async () => {
    const test = (await create({ clock: 'stands' })).register(charge, order);
    const gate = deferred();
    test.activity(charge, async (_, { item }) => {
      await gate.promise;
      return `paid ${item}`;
    });
    const handle = await test.start(order, { item: 'tea' });
    const controller = new AbortController();
    const { signal } = controller;
    const waits = [test.advance('1d', { signal }), test.settled({ signal })].map((wait) => rejection(wait));
    const result = rejection(handle.result({ signal }));
    const reason = new Error('enough');
    setImmediate(() => controller.abort(reason));
    expect(await Promise.all([...waits, result])).toEqual([reason, reason, reason]);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(test.now()).toEqual(new Date(BEGIN));
    expect(await rejection(test.advance('1d', { signal }))).toBe(reason);
    expect(await rejection(test.settled({ signal: 5 as never }))).toMatchObject({
      message: 'test.settled: signal must be an AbortSignal, got 5',
    });
    gate.resolve();
    await test.advance('30d', { signal: new AbortController().signal });
    await test.settled();
    expect((await handle.status())?.output).toBe('paid tea, late');
  });

  it('refuses a second advance at the same time', async () => {
    const test = await create({ clock: 'stands' });
    const first = test.advance('1d');
    expect(await rejection(test.advance('1d'))).toBeInstanceOf(RuntimeStateError);
    await first;
    expect(await rejection(test.advanceTo(new Date(BEGIN)))).toMatchObject({
      name: 'TypeError',
      message: expect.stringContaining('cannot be set back'),
    });
  });
});

describe('a wait for a result that cannot come', () => {
  it('rejects, and names the pending work of each instance', async () => {
    const test = await create({ patience: 10 });
    test.registerOrchestration('parent', function* (ctx) {
      yield ctx.all([ctx.scheduleSubOrchestration('child', null, { id: 'kid' }), ctx.scheduleActivity('wrap')]);
    });
    test.registerOrchestration('child', function* (ctx) {
      yield ctx.race(ctx.waitForEvent('go'), ctx.dequeueEvent('orders'));
    });
    test.activity('wrap', () => 'unused');
    test.hang('wrap');
    await test.client.startOrchestration('p', 'parent');
    const error = await rejection(test.client.waitForOrchestration('p'));
    expect(error).toBeInstanceOf(StuckError);
    expect(error).toMatchObject({ code: 'STUCK' });
    expect((error as Error).message).toContain(
      "instance 'p' (parent 1.0.0) waits for its child 'kid', activity 'wrap', held by test.hang",
    );
    expect((error as Error).message).toContain(
      "instance 'kid' (child 1.0.0) waits for event 'go', a message of queue 'orders'",
    );
  });

  it('names unregistered orchestrations and suspended instances', async () => {
    const test = await create({ patience: 10, logLevel: 'silent' });
    await test.client.startOrchestration('x', 'nobody');
    expect(await rejection(test.client.waitForOrchestration('x'))).toMatchObject({
      message: expect.stringContaining("'x' (nobody) cannot run: nobody is not registered"),
    });
    test.registerOrchestration('held', function* (ctx) {
      yield ctx.waitForEvent('go');
    });
    await test.client.startOrchestration('h', 'held');
    await test.client.suspend('h', 'the bank is down');
    expect(await rejection(test.client.waitForOrchestration('h'))).toMatchObject({
      message: expect.stringContaining('the bank is down'),
    });
  });

  it('names an activity whose queue is not served, until the runtime serves it', async () => {
    const run = async (options: TestRuntimeOptions): Promise<unknown> => {
      const test = await create({ patience: 10, ...options });
      test.registerActivity('render', () => 'done', { queue: 'gpu' });
      test.registerOrchestration('o', function* (ctx) {
        return yield ctx.scheduleActivity('render');
      });
      await test.client.startOrchestration('o', 'o');
      return (await test.client.waitForOrchestration('o')).output;
    };
    expect(await rejection(run({}))).toMatchObject({
      message: expect.stringContaining("activity 'render', which has not been called: is its queue served?"),
    });
    expect(await run({ queues: ['default', 'gpu'] })).toBe('done');
  });

  it('names the next due time if only the test moves the clock', async () => {
    const test = (await create({ clock: 'stands', patience: 10 })).register(charge, order);
    const handle = await test.start(order, { item: 'tea' });
    expect(await rejection(handle.result())).toMatchObject({
      message: expect.stringContaining('and the next timer is due at 2030-01-31T00:00:00.000Z (see test.advance)'),
    });
    const result = handle.result();
    await test.advance('30d');
    expect(await result).toBe('paid tea, late');
  });

  it('names the activities that stop the clock', async () => {
    const test = (await create({ patience: 10 })).register(order);
    const gate = deferred<string>();
    test.activity(charge, () => gate.promise);
    const handle = await test.start(order, { item: 'tea' });
    expect(await rejection(test.advance('1d'))).toMatchObject({
      code: 'STUCK',
      message: expect.stringContaining("attempt 1 of activity 'charge' of instance 'order-1' is running"),
    });
    gate.resolve('paid');
    expect(await handle.result()).toBe('paid, late');
  });
});

describe('activities', () => {
  it('are replaced by definition or by name, and called in the usual way', async () => {
    const test = (await create()).register(charge, order);
    test.activity(charge, async (ctx, { item }) => `${item} for nothing, attempt ${ctx.attempt}`);
    const handle = await test.start(order, { item: 'tea' });
    expect(await handle.result()).toBe('tea for nothing, attempt 1, late');
    expect(test.calls(charge)).toEqual([
      {
        activity: 'charge',
        instanceId: 'order-1',
        executionId: 1,
        attempt: 1,
        input: { item: 'tea' },
        time: new Date(BEGIN),
        outcome: 'completed',
        output: 'tea for nothing, attempt 1',
      },
    ]);
  });

  it('are replaced where they are inline', async () => {
    const test = await create();
    test.registerOrchestration('o', function* (ctx) {
      return yield ctx.run('lookup', () => Promise.reject(new Error('there is no network')));
    });
    test.activity('lookup', () => 42);
    await test.client.startOrchestration('o', 'o');
    expect((await test.client.waitForOrchestration('o')).output).toBe(42);
    expect(test.calls('lookup')).toMatchObject([{ instanceId: 'o', output: 42 }]);
  });

  it('fail on demand, and are tried again after the backoff by this clock', async () => {
    const test = (await create()).register(charge, order);
    test.failNext(charge, new Error('busy'), { times: 2 }).failNext('charge', new RangeError('still busy'));
    const handle = await test.start(order, { item: 'tea' });
    await handle.raiseEvent('packed', { by: 'ada' });
    expect(await handle.result()).toBe('paid tea, packed by ada');
    expect(
      test
        .calls(charge)
        .map(({ attempt, time, outcome, error }) => [
          attempt,
          time.getTime() - BEGIN,
          outcome,
          (error as Error | undefined)?.message,
        ]),
    ).toEqual([
      [1, 0, 'failed', 'busy'],
      [2, 10_000, 'failed', 'busy'],
      [3, 30_000, 'failed', 'still busy'],
      [4, 70_000, 'completed', undefined],
    ]);
    test.failNext(charge, new NonRetryableError('no such card'));
    const refused = await test.start(order, { item: 'milk' });
    expect(await rejection(refused.result())).toMatchObject({
      name: 'ActivityError',
      cause: { message: 'no such card' },
    });
  });

  it('hang, and their timeouts pass by this clock', async () => {
    const test = (await create({ clock: 'stands' })).register(charge, order);
    const bank = test.hang(charge);
    const handle = await test.start(order, { item: 'tea' });
    await test.advance('59s');
    expect([bank.attempts, test.calls(charge).map(({ outcome }) => outcome)]).toEqual([1, ['hanging']]);
    await test.advance('1s');
    expect([bank.attempts, test.calls(charge).map(({ outcome }) => outcome)]).toEqual([0, ['lost']]);
    await test.advance('10s');
    expect([bank.attempts, test.calls(charge).map(({ outcome }) => outcome)]).toEqual([1, ['lost', 'hanging']]);
    bank.return('paid by hand');
    await handle.raiseEvent('packed', { by: 'ada' });
    expect(await handle.result()).toBe('paid by hand, packed by ada');
  });

  it('fail or continue after test.hang', async () => {
    const test = (await create()).register(charge, order);
    const bank = test.hang(charge);
    const handle = await test.start(order, { item: 'tea' });
    await test.settled();
    bank.throw(new NonRetryableError('closed'));
    expect(await rejection(handle.result())).toMatchObject({ cause: { message: 'closed' } });
    const again = test.hang(charge);
    const next = await test.start(order, { item: 'milk' });
    await test.settled();
    again.release();
    expect(await next.result()).toBe('paid milk, late');
  });

  it('receive a cancellation after test.hang', async () => {
    const test = (await create()).register(charge, order);
    const bank = test.hang(charge);
    const handle = await test.start(order, { item: 'tea' });
    await test.settled();
    expect(bank.attempts).toBe(1);
    await handle.cancel();
    expect(await rejection(handle.result())).toMatchObject({ code: 'CANCELLED' });
    await test.settled();
    expect([bank.attempts, test.calls(charge)[0]?.outcome]).toEqual([0, 'lost']);
  });

  it('fail at once if they are not registered', async () => {
    const test = (await create()).register(order);
    const handle = await test.start(order, { item: 'tea' });
    expect(await rejection(handle.result())).toMatchObject({
      cause: { name: 'NotRegisteredError', missing: 'charge' },
    });
  });
});

describe('a crash', () => {
  it('keeps stored events and loses running work, and another worker continues', async () => {
    const test = (await create()).register(charge, order);
    const bank = test.hang(charge);
    const handle = await test.start(order, { item: 'tea' });
    await test.settled();
    test.crash();
    await test.settled();
    expect(test.calls(charge).map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'lost'],
      [1, 'hanging'],
    ]);
    bank.return('paid');
    await test.settled();
    test.crash();
    expect(await handle.result()).toBe('paid, late');
  });

  it('comes directly after an event, before its effects', async () => {
    const test = (await create()).register(charge, order);
    // Event 3 is the schedule of the activity.
    test.crashAfter('order-1', 3);
    expect(test.isCrashPending).toBe(true);
    const handle = await test.start(order, { item: 'tea' });
    expect(await handle.result()).toBe('paid tea, late');
    expect(test.isCrashPending).toBe(false);
    expect(test.calls(charge)).toHaveLength(1);
  });

  it('comes before the result of an attempt is stored, which is made again', async () => {
    const test = (await create()).register(charge, order);
    test.crashBeforeResult(charge, 2);
    const handles = [await test.start(order, { item: 'tea' }), await test.start(order, { item: 'milk' })];
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(['paid tea, late', 'paid milk, late']);
    expect(test.calls(charge).map(({ input, attempt, outcome }) => [input.item, attempt, outcome])).toEqual([
      ['tea', 1, 'completed'],
      ['milk', 1, 'completed'],
      ['milk', 1, 'completed'],
    ]);
    expect(test.isCrashPending).toBe(false);
  });

  it('may come from within an activity', async () => {
    const test = (await create()).register(order);
    test.activity(charge, () => {
      if (test.calls(charge).length === 1) test.crash();
      return 'paid';
    });
    const handle = await test.start(order, { item: 'tea' });
    expect(await handle.result()).toBe('paid, late');
    expect(test.calls(charge).map(({ attempt }) => attempt)).toEqual([1, 1]);
  });

  it('may come ten times in a row', async () => {
    const test = (await create({ logLevel: 'silent' })).register(charge, order);
    const handle = await test.start(order, { item: 'tea' });
    for (let i = 0; i < 10; i += 1) {
      await test.settled();
      test.crash();
    }
    expect(await handle.result()).toBe('paid tea, late');
  });
});

describe('a test runtime', () => {
  it('replays before each turn when nothing is kept', async () => {
    const test = (await create({ cachedInstancesMax: 0 })).register(charge, order);
    let begun = 0;
    test.registerOrchestration('counted', function* (ctx) {
      begun += 1;
      for (let i = 0; i < 3; i += 1) yield ctx.scheduleTimer(10);
    });
    await test.client.startOrchestration('c', 'counted');
    await test.client.waitForOrchestration('c');
    expect(begun).toBe(4);
  });

  it('numbers its ids, and lists its registrations', async () => {
    const test = (await create()).register(charge, order);
    const ids = [(await test.start(order, { item: 'a' })).id, (await test.start(order, { item: 'b' })).id];
    expect(ids).toEqual(['order-1', 'order-2']);
    expect(await rejection(test.start(order, { item: 'c' }, { id: 'order-1' }))).toBeInstanceOf(InstanceExistsError);
    const other = defineOrchestration('other', function* () {});
    expect(await rejection(test.start(other))).toBeInstanceOf(NotRegisteredError);
  });

  it('rejects pending waits when it is closed, and refuses further calls', async () => {
    const test = (await create()).register(charge, order);
    test.hang(charge);
    const handle = await test.start(order, { item: 'tea' });
    const gate = deferred<string>();
    test.activity('slow', () => gate.promise);
    const result = rejection(handle.result());
    await test.close();
    await test.close();
    expect(await result).toBeInstanceOf(RuntimeStateError);
    expect(await rejection(test.advance('1d'))).toBeInstanceOf(RuntimeStateError);
    expect(await rejection(test.settled())).toBeInstanceOf(RuntimeStateError);
    expect(() => test.crash()).toThrow(RuntimeStateError);
  });

  it.each<[string, object, string]>([
    ['an unknown option', { clok: 'skips' }, 'did you mean `clock`?'],
    ['a clock that is none', { clock: 'skip' }, "did you mean 'skips'?"],
    ['a time that is none', { now: 'yesterday' }, 'now must be a time'],
    ['a patience that is none', { patience: 0 }, 'patience must be at least 1 ms'],
  ])('refuses %s', async (_, options, message) => {
    expect(await rejection(TestRuntime.create(options))).toMatchObject({
      name: 'TypeError',
      message: expect.stringContaining(message),
    });
  });

  it('refuses other arguments that are wrong', async () => {
    const test = await create();
    expect(() => test.activity(3 as never, () => 1)).toThrow(TypeError);
    expect(() => test.activity('a', 3 as never)).toThrow(TypeError);
    expect(() => test.failNext('a', new Error('no'), { times: 0 })).toThrow('times');
    expect(() => test.hang('')).toThrow(TypeError);
    expect(() => test.crashAfter('', 1)).toThrow(TypeError);
    expect(() => test.crashAfter('a', 0)).toThrow('eventId');
    expect(await rejection(test.advance('soon' as never))).toBeInstanceOf(TypeError);
  });

  it('does not mind fake timers', async () => {
    vi.useFakeTimers();
    const test = (await create({ patience: 10 })).register(charge, order);
    const handle = await test.start(order, { item: 'tea' });
    expect(await handle.result({ timeout: '40d' })).toBe('paid tea, late');
    await test.close();
  });

  it.runIf(process.platform === 'linux')('is one of a hundred, each in its own time, without a thread', async () => {
    const threads = (): number => Number(/^Threads:\s+(\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
    const run = async (days: number): Promise<unknown> => {
      const test = await TestRuntime.create({ clock: days % 2 === 0 ? 'skips' : 'stands' });
      test.register(charge, order);
      const handle = await test.start(order, { item: `${days}` });
      await test.advance(`${days}d`);
      const time = test.now().getTime();
      await handle.raiseEvent('packed', { by: 'ada' });
      const result = await handle.result();
      await test.close();
      return [time, result];
    };
    await run(1);
    const before = threads();
    const all = await Promise.all(Array.from({ length: 100 }, (_, i) => run(i % 29)));
    expect(all).toEqual(
      Array.from({ length: 100 }, (_, i) => [BEGIN + (i % 29) * DAY, `paid ${i % 29}, packed by ada`]),
    );
    expect(threads()).toBe(before);
  });
});

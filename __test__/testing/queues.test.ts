// Queues and delayed starts under the clock of a test, where each span of time is exact.

import { defineOrchestration, type InstanceHandle } from 'perdure';
import { TestRuntime } from 'perdure/testing';
import { expect, it } from 'vitest';

/** Returns the time at which it began. */
const clock = defineOrchestration('clock', function* () {
  return Date.now();
});

/** Has its slot for some time. */
const work = defineOrchestration('work', function* (ctx, ms: number) {
  const begun = Date.now();
  yield* ctx.sleep(ms);
  return begun;
});

const BEGIN = Date.parse('2030-01-01T00:00:00Z');

async function timesOf(handles: readonly InstanceHandle<number>[]): Promise<number[]> {
  const times: number[] = [];
  for (const handle of handles) times.push((await handle.result()) - BEGIN);
  return times;
}

it('a delayed start runs at its time, to the millisecond', async () => {
  await using test = await TestRuntime.create();
  test.register(clock);
  const handles = [
    await test.start(clock, undefined, { delay: '5m' }),
    await test.start(clock, undefined, { startAt: new Date(BEGIN + 86_400_000) }),
    await test.start(clock, undefined, { startAt: new Date(BEGIN - 1) }),
  ];
  expect(await timesOf(handles)).toEqual([300_000, 86_400_000, 0]);
});

it('a time limit is over to the millisecond, over executions, and not while the instance waits to run', async () => {
  await using test = await TestRuntime.create();
  const restless = defineOrchestration('restless', function* (ctx, begun: number | null): Generator<any, number, any> {
    try {
      yield* ctx.sleep('7s');
    } catch {
      return Date.now() - (begun as number);
    }
    return yield* ctx.continueAsNew(begun ?? Date.now() - 7_000);
  });
  test.register(restless);
  const at = await test.start(restless, null, { timeout: '1m' });
  const later = await test.start(restless, null, { timeout: '1m', delay: '1h' });
  expect([await at.result(), await later.result()]).toEqual([60_000, 60_000]);
});

it('in any span of time no more instances begin than the rate', async () => {
  await using test = await TestRuntime.create();
  test.register(clock);
  await test.client.queues.set('mails', { rate: { limit: 5, per: '1m' } });
  const handles: InstanceHandle<number>[] = [];
  for (let n = 0; n < 23; n += 1) {
    handles.push(await test.start(clock, undefined, { queue: 'mails' }));
    // Some come in the middle of a span.
    if (n % 7 === 6) await test.advance('7s');
  }
  const times = (await timesOf(handles)).sort((a, b) => a - b);
  for (const from of times)
    expect(times.filter((at) => at >= from && at < from + 60_000).length).toBeLessThanOrEqual(5);
  expect(times.at(-1)).toBeLessThan(300_000);
});

it('limits of a queue hold, and so do those of its keys', async () => {
  await using test = await TestRuntime.create();
  test.register(work);
  await test.client.queues.set('mails', { concurrency: 3, perKey: { concurrency: 1 } });
  const handles: InstanceHandle<number>[] = [];
  for (const key of ['a', 'a', 'a', 'b', 'c', undefined])
    handles.push(await test.start(work, 60_000, { queue: 'mails', ...(key === undefined ? {} : { key }) }));
  await test.settled();
  expect(await test.client.queues.get('mails')).toMatchObject({ running: 3, waiting: 3 });
  // A key that has its slot holds up no other one.
  expect(await timesOf(handles)).toEqual([0, 60_000, 120_000, 0, 0, 60_000]);
  expect(await test.client.queues.get('mails')).toMatchObject({ running: 0, waiting: 0 });
});

it('a crash frees no slot, and loses none', async () => {
  await using test = await TestRuntime.create();
  test.register(work);
  await test.client.queues.set('mails', { concurrency: 1 });
  const handles = [
    await test.start(work, 60_000, { queue: 'mails' }),
    await test.start(work, 60_000, { queue: 'mails' }),
  ];
  await test.advance('1s');
  test.crash();
  expect(await test.client.queues.get('mails')).toMatchObject({ running: 1, waiting: 1 });
  expect(await timesOf(handles)).toEqual([0, 60_000]);
});

it('a test that waits for an instance without a slot is told so', async () => {
  await using test = await TestRuntime.create({ clock: 'stands' });
  test.register(work);
  await test.client.queues.set('mails', { concurrency: 1 });
  await test.start(work, 60_000, { queue: 'mails' });
  const second = await test.start(work, 1, { queue: 'mails' });
  await expect(second.result()).rejects.toThrow(
    "instance 'work-2' (work 1.0.0) has not begun: it waits for a slot of queue 'mails' since 2",
  );
  const later = await test.start(work, 1, { startAt: '2099-01-01' });
  await expect(later.result()).rejects.toThrow('has not begun: it starts at 2099-01-01T00:00:00.000Z');
});

it('an activity in a queue that is not served fails when its scheduleToStartTimeout is over', async () => {
  await using test = await TestRuntime.create();
  const waits = defineOrchestration('waits', function* (ctx) {
    const limits = { queue: 'gpu', scheduleToStartTimeout: '1h' } as const;
    const results = yield* ctx.allSettled([ctx.scheduleActivity('render', 1, limits)]);
    return [Date.now() - BEGIN, results[0].status];
  });
  test.register(waits);
  expect(await (await test.start(waits)).result()).toEqual([3_600_000, 'rejected']);
});

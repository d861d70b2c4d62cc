// Schedules that are registered with a test runtime, under its clock.

import { defineActivity, defineOrchestration, defineSchedule, PayloadError, RuntimeStateError } from 'perdure';
import { crashEverywhere, TestRuntime } from 'perdure/testing';
import { expect, it } from 'vitest';

import { rejection } from '../support/async.ts';

const send = defineActivity('send', (_, kind: string) => `sent the ${kind} report`);

const report = defineOrchestration('report', function* (ctx, kind: string) {
  return yield* ctx.call(send, kind);
});

/** Takes some time: a run of it may overlap the next one. */
const slow = defineOrchestration('slow', function* (ctx, ms: number) {
  yield* ctx.sleep(ms);
});

const sleeps = defineOrchestration('sleeps', function* (ctx, days: number) {
  yield* ctx.sleep(`${days}d`);
});

const nightly = defineSchedule('nightly', {
  cron: '30 2 * * *',
  timeZone: 'Europe/Berlin',
  start: { definition: report, input: 'daily' },
});

/** Returns the instances of an orchestration, the oldest first, with the time of their start. */
async function startsOf(test: TestRuntime, name: string): Promise<[id: string, startedAt: string, output: unknown][]> {
  const starts: [string, string, unknown][] = [];
  for await (const { id, createdAt } of test.client.listInstances({ name }))
    starts.push([id, createdAt.toISOString(), (await test.client.getStatus(id))?.output]);
  return starts.sort(([, one], [, other]) => one.localeCompare(other));
}

/** The due times of `nightly` in March 2030. Berlin has no 02:30 on the last day. */
const MARCH = Array.from({ length: 31 }, (_, n) =>
  n === 30 ? '2030-03-31T01:00:00.000Z' : `2030-03-${String(n + 1).padStart(2, '0')}T01:30:00.000Z`,
).map((due) => [`nightly/${due.replace('.000Z', 'Z')}`, due, 'sent the daily report']);

it('runs at each due time of a month that the clock is advanced by', async () => {
  await using test = await TestRuntime.create({ clock: 'stands', now: '2030-03-01T00:00:00Z' });
  test.register(report, send, nightly);
  await test.advanceTo('2030-04-01T00:00:00Z');
  expect(await startsOf(test, 'report')).toEqual(MARCH);
  expect(await test.client.schedules.get('nightly')).toMatchObject({
    spec: { declaredBy: 'test' },
    counts: { started: 31, skipped: 0, missed: 0 },
    next: new Date('2030-04-01T00:30:00Z'),
  });
});

it('runs at each due time of a month that the clock skips', async () => {
  await using test = await TestRuntime.create({ now: '2030-03-01T00:00:00Z' });
  test.register(nightly).register(report, send, sleeps);
  await (await test.start(sleeps, 31)).result();
  expect(await startsOf(test, 'report')).toEqual(MARCH);
});

it('is set before all that the test requests next', async () => {
  await using test = await TestRuntime.create();
  const weekly = defineSchedule('weekly', { cron: '0 6 * * 1', start: { definition: report, input: 'weekly' } });
  test.register(report, send, nightly, weekly);
  expect(await test.client.schedules.get('weekly')).toMatchObject({ id: 'weekly' });
  const ids: string[] = [];
  for await (const { id } of test.client.schedules.list()) ids.push(id);
  expect(ids.sort()).toEqual(['nightly', 'weekly']);
  const hourly = defineSchedule('hourly', { every: '1h', start: { definition: report, input: 'hourly' } });
  const run = await test.register(hourly).client.schedules.trigger('hourly');
  expect(await test.client.handle(run.runId as string).result()).toBe('sent the hourly report');
  expect(test.now()).toEqual(new Date('2030-01-01T00:00:00Z'));
});

it('goes on after a crash, and runs each due time once', async () => {
  await using test = await TestRuntime.create();
  test.register(report, send, defineSchedule('often', { every: '1h', start: { definition: report, input: 'hourly' } }));
  await test.advance('90m');
  test.crash();
  await test.advance('90m');
  const hours = ['01', '02', '03'].map((hour) => `2030-01-01T${hour}:00:00.000Z`);
  expect((await startsOf(test, 'report')).map(([, at]) => at)).toEqual(hours);
});

it('obeys overlap under the clock', async () => {
  await using test = await TestRuntime.create();
  const every = { every: '1h', start: { definition: slow, input: 90 * 60_000 } } as const;
  test.register(slow, defineSchedule('skips', every), defineSchedule('buffers', { ...every, overlap: 'buffer' }));
  await test.advance('5h');
  const dues = async (id: string) => (await test.client.schedules.get(id))?.recent.map(({ outcome }) => outcome);
  expect(await dues('skips')).toEqual(['running', 'skipped', 'completed', 'skipped', 'completed']);
  expect(await dues('buffers')).toEqual(['buffered', 'buffered', 'running', 'completed', 'completed']);
});

it.each(['buffer', 'cancelPrevious'] as const)('has no more runs than maxRuns with overlap %s', async (overlap) => {
  await using test = await TestRuntime.create();
  const start = { definition: slow, input: 150 * 60_000 };
  test.register(slow, defineSchedule('few', { every: '1h', overlap, maxRuns: 3, start }));
  await test.advance('2d');
  const { counts, next } = (await test.client.schedules.get('few')) ?? {};
  expect([counts?.started, next]).toEqual([3, undefined]);
  expect(await startsOf(test, 'slow')).toHaveLength(3);
});

it('with a crash after each event, each due time has one run', async () => {
  const daily = defineSchedule('daily', { cron: '0 2 * * *', start: { definition: report, input: 'daily' } });
  const { result, crashes } = await crashEverywhere(async (test) => {
    test.register(report, send, daily);
    await test.advance('2d');
    const { recent, counts } = (await test.client.schedules.get('daily')) ?? {};
    return { starts: await startsOf(test, 'report'), counts, outcomes: recent?.map(({ outcome }) => outcome) };
  });
  expect(result).toEqual({
    starts: ['01', '02'].map((day) => [
      `daily/2030-01-${day}T02:00:00Z`,
      `2030-01-${day}T02:00:00.000Z`,
      'sent the daily report',
    ]),
    counts: { started: 2, skipped: 0, missed: 0 },
    outcomes: ['completed', 'completed'],
  });
  expect(crashes).toBeGreaterThan(30);
}, 60_000);

it('is registered once', async () => {
  await using test = await TestRuntime.create();
  const twice = rejection(Promise.resolve().then(() => test.register(nightly, nightly)));
  expect(await twice).toBeInstanceOf(RuntimeStateError);
  expect((await twice).message).toBe("schedule 'nightly' is already registered");
});

const wrong = defineSchedule('wrong', { every: '1h', start: { definition: report, input: 'x'.repeat(100) } });

it.each<[what: string, next: (test: TestRuntime) => Promise<unknown>]>([
  ['a request', (test) => test.client.getStatus('none')],
  ['a start', (test) => test.start(report, 'daily')],
  ['an advance', (test) => test.advance('1d')],
  ['a settled', (test) => test.settled()],
])('tells the next call that it could not be set: %s', async (_, next) => {
  const test = await TestRuntime.create({ limits: { payloadBytes: 100 } });
  test.register(report, send, wrong);
  expect(await rejection(next(test))).toBeInstanceOf(PayloadError);
  // Once, and the others go on.
  await next(test);
  expect(await test.client.schedules.get('wrong')).toBe(null);
  // Now it has failed before the call is made.
  test.register(defineSchedule('wrong too', { every: '1h', start: { definition: report, input: 'x'.repeat(100) } }));
  await new Promise((resolve) => setImmediate(resolve));
  expect(await rejection(next(test))).toBeInstanceOf(PayloadError);
  await next(test);
  await test.close();
});

it('tells the end of the test, if the test makes no other call', async () => {
  const test = await TestRuntime.create({ limits: { payloadBytes: 100 } });
  test.register(report, send, wrong);
  await new Promise((resolve) => setImmediate(resolve));
  expect(await rejection(test.close())).toBeInstanceOf(PayloadError);
});

it('does not keep a test from its end', async () => {
  const test = await TestRuntime.create();
  test.register(report, send, nightly);
  const read = test.client.schedules.get('nightly');
  await test.close();
  expect(await read).toBe(null);
});

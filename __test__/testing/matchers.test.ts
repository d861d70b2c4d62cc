// `perdure/testing/vitest`: matchers for orchestrations.

import 'perdure/testing/vitest';

import { defineActivity, defineOrchestration, type InstanceHandle } from 'perdure';
import { TestRuntime } from 'perdure/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { rejection } from '../support/async.ts';

const charge = defineActivity('charge', async (_, order: { total: number }) => ({ id: `r${order.total}` }), {
  retry: { maxAttempts: 1 },
});
const note = defineOrchestration('note', function* (_, text: string) {
  return text;
});
const order = defineOrchestration('order', function* (ctx, input: { total: number }) {
  const receipt = yield* ctx.call(charge, input);
  yield* ctx.callOrchestration(note, 'charged', { id: `note of ${ctx.instanceId}` });
  return receipt;
});
const waiting = defineOrchestration('waiting', function* (ctx) {
  yield ctx.waitForEvent('go');
});

const STEPS = [
  'ExecutionStarted order',
  'ActivityScheduled charge',
  'ActivityCompleted',
  'ChildScheduled note',
  'ChildCompleted',
  'ExecutionCompleted',
];

let test: TestRuntime;
let done: InstanceHandle;
let failed: InstanceHandle;

beforeAll(async () => {
  test = (await TestRuntime.create({ patience: 10 })).register(charge, order, note, waiting);
  done = await test.start(order, { total: 12 });
  await done.result();
  test.failNext(charge, Object.assign(new RangeError('the card is no more'), { code: 'GONE' }));
  failed = await test.start(order, { total: 3 });
  await test.settled();
});

afterAll(() => test.close());

/** Returns the message of a matcher that fails. */
async function message(assertion: Promise<void>): Promise<string> {
  return (await rejection<Error>(assertion)).message;
}

describe.each(['handle', 'export'])('a %s', (kind) => {
  const subject = async (handle: InstanceHandle): Promise<unknown> =>
    kind === 'handle' ? handle : test.client.exportHistory(handle.id);

  it('has completed', async () => {
    const it = await subject(done);
    await expect(it).toHaveCompleted();
    await expect(it).toHaveCompleted({ id: 'r12' });
    await expect(it).toHaveCompleted({ id: expect.any(String) });
    await expect(it).not.toHaveCompleted({ id: 'r13' });
    await expect(await subject(failed)).not.toHaveCompleted();
    const said = await message(expect(it).toHaveCompleted('r12'));
    expect(said).toContain(
      `expected instance 'order-1' to have completed with "r12", and it is Completed with {"id": "r12"}`,
    );
    expect(said).toContain('2 ActivityScheduled charge  { total: 12 }\n');
  });

  it('has failed', async () => {
    const it = await subject(failed);
    await expect(it).toHaveFailed();
    await expect(it).toHaveFailed('card is no more');
    await expect(it).toHaveFailed(/^the card/);
    await expect(it).toHaveFailed(RangeError);
    await expect(it).toHaveFailed({ code: 'GONE', message: expect.stringContaining('card') });
    await expect(it).not.toHaveFailed(TypeError);
    await expect(await subject(done)).not.toHaveFailed();
    expect(await message(expect(it).toHaveFailed('the bank'))).toContain('caused by RangeError: the card is no more');
    expect(await message(expect(it).not.toHaveFailed())).toContain("expected instance 'order-2' not to have failed");
  });

  it('has a history', async () => {
    const it = await subject(done);
    await expect(it).toHaveHistory(STEPS);
    await expect(it).toHaveHistory(STEPS.map((step) => step.split(' ', 1)[0] as string));
    await expect(it).not.toHaveHistory(STEPS.slice(0, -1));
    expect(await message(expect(it).toHaveHistory(STEPS.with(1, 'TimerCreated')))).toContain(
      'to have "TimerCreated" as event 2, and it has "ActivityScheduled charge"',
    );
    expect(await message(expect(it).toHaveHistory([...STEPS, 'TimerFired']))).toContain(
      'as event 7, and it has nothing',
    );
  });

  it('has scheduled something', async () => {
    const it = await subject(done);
    await expect(it).toHaveScheduled('charge');
    await expect(it).toHaveScheduled(charge, { total: 12 });
    await expect(it).toHaveScheduled(charge, expect.objectContaining({ total: expect.any(Number) }));
    await expect(it).toHaveScheduled(note, 'charged');
    await expect(it).not.toHaveScheduled(charge, { total: 13 });
    await expect(it).not.toHaveScheduled(waiting);
    expect(await message(expect(it).toHaveScheduled(charge, { total: 13 }))).toContain(
      `to have scheduled 'charge' with {"total": 13}, and it has with {"total": 12}`,
    );
    expect(await message(expect(it).toHaveScheduled(3 as never))).toContain('takes a name or a definition, got 3');
  });

  it('fits code', async () => {
    const it = await subject(done);
    await expect(it).toFit(order);
    await expect(it).toFit([order, note]);
    const next = defineOrchestration('order', function* (ctx, input: { total: number }) {
      yield* ctx.callOrchestration(note, 'charging');
      return yield* ctx.call(charge, input);
    });
    await expect(it).not.toFit(next);
    expect(await message(expect(it).toFit(next))).toContain("attempted: child 'order-1/");
  });
});

it('waits for the end of a handle, which may not come', async () => {
  const handle = await test.start(waiting);
  expect(await message(expect(handle).toHaveCompleted())).toContain("waits for event 'go'");
  await expect(await test.client.exportHistory(handle.id)).not.toHaveCompleted();
  const ended = expect(handle).toHaveCompleted(undefined);
  await handle.raiseEvent('go');
  await ended;
});

it('shows little of a history in which a text is three million times', async () => {
  const full = defineOrchestration('full', function* () {
    let value: unknown = 'x'.repeat(200);
    for (const length of [100, 100, 100, 30]) value = Array.from({ length }, () => value);
    return new Set([value]);
  });
  test.register(full);
  const handle = await test.start(full);
  await handle.result();
  const said = await message(expect(handle).toHaveHistory([]));
  expect(said).toContain('2 ExecutionCompleted  Set(1) {');
  expect(said.length).toBeLessThan(10_000_000);
});

it('looks at nothing else', async () => {
  expect(await message(expect('order-1').toHaveCompleted())).toContain(
    "toHaveCompleted takes the handle of an instance, or the result of client.exportHistory; got 'order-1'",
  );
});

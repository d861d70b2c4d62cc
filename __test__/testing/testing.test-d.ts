// Types of `perdure/testing`.

import { defineActivity, defineOrchestration, defineSchedule, type HistoryEvent, type InstanceHandle } from 'perdure';
import { type ActivityCall, crashEverywhere, type Hang, replay, TestRuntime } from 'perdure/testing';
import { describe, expect, expectTypeOf, it } from 'vitest';

import 'perdure/testing/vitest';

interface Order {
  total: number;
}

const charge = defineActivity('charge', async (_, order: Order) => ({ id: `r${order.total}` }));
const order = defineOrchestration('order', function* (ctx, input: Order) {
  return (yield* ctx.call(charge, input)).id;
});

describe('a test runtime', () => {
  it('starts by definition, as a client does', async () => {
    const runtime = await TestRuntime.create({ now: new Date(), clock: 'stands', patience: '2s' });
    expectTypeOf(await runtime.start(order, { total: 1 })).toEqualTypeOf<InstanceHandle<string, unknown, Order>>();
    // @ts-expect-error: another input
    await runtime.start(order, { total: '1' });
    // @ts-expect-error: none
    await runtime.start(order);
    // @ts-expect-error: no such clock
    await TestRuntime.create({ clock: 'runs' });
  });

  it('registers activities, orchestrations and schedules', async () => {
    const runtime = await TestRuntime.create();
    const daily = defineSchedule('daily', { every: '1d', start: { definition: order, input: { total: 1 } } });
    expectTypeOf(runtime.register(charge, order, daily)).toEqualTypeOf<TestRuntime>();
    // @ts-expect-error: no definition
    runtime.register({ every: '1d' });
  });

  it('puts something in place of an activity that takes and gives the same', async () => {
    const runtime = await TestRuntime.create();
    runtime.activity(charge, (ctx, input) => {
      expectTypeOf(input).toEqualTypeOf<Order>();
      expectTypeOf(ctx.attempt).toEqualTypeOf<number>();
      return { id: 'r' };
    });
    // @ts-expect-error: another output
    runtime.activity(charge, () => 3);
    runtime.activity('lookup', (_, input) => {
      expectTypeOf(input).toBeAny();
      return 3;
    });
    runtime.activity('lookup', (_, input: number) => input);
  });

  it('knows the types of calls and of hanging activities', async () => {
    const runtime = await TestRuntime.create();
    expectTypeOf(runtime.calls(charge)).toEqualTypeOf<ActivityCall<Order, { id: string }>[]>();
    expectTypeOf(runtime.calls()[0]?.input).toBeAny();
    expectTypeOf(runtime.calls('charge')[0]?.output).toBeAny();
    expectTypeOf(runtime.hang(charge)).toEqualTypeOf<Hang<{ id: string }>>();
    runtime.hang('charge').return(3);
    // @ts-expect-error: another output
    runtime.hang(charge).return(3);
  });
});

it('crashEverywhere gives the result of the scenario', async () => {
  const { result } = await crashEverywhere(async (runtime) => (await runtime.start(order, { total: 1 })).result());
  expectTypeOf(result).toEqualTypeOf<string>();
});

it('a replay tells of events', () => {
  replay('', order, { onEvent: (event) => expectTypeOf(event).toEqualTypeOf<HistoryEvent>() });
});

it('matchers are awaited, and take the expected value', async () => {
  const handle = {} as InstanceHandle<string>;
  expectTypeOf(expect(handle).toHaveCompleted('r1')).toEqualTypeOf<Promise<void>>();
  await expect(handle).not.toHaveFailed(RangeError);
  await expect(handle).toHaveScheduled(charge, expect.anything());
  await expect(handle).toFit([order]);
  // @ts-expect-error: no list
  await expect(handle).toHaveHistory('ExecutionStarted');
});

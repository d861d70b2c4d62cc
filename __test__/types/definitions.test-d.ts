import {
  Client,
  type CustomStatus,
  defineActivity,
  defineOrchestration,
  type Future,
  type InputOf,
  type InstanceHandle,
  type InstanceStatus,
  type OrchestrationContext,
  type OrchestrationDefinition,
  type OrchestrationGenerator,
  type OutputOf,
  type Provider,
  Runtime,
  type StandardSchema,
  type StatusChange,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expectTypeOf, it } from 'vitest';

interface Order {
  total: number;
}

interface Progress {
  step: string;
}

declare const provider: Provider;
declare const schema: StandardSchema<{ at: string }, { at: Date }>;
const client = new Client(provider);

const order = defineOrchestration('order', function* (ctx: OrchestrationContext<Order, Progress>, input) {
  expectTypeOf(input).toEqualTypeOf<Order>();
  expectTypeOf(ctx.getCustomStatus()).toEqualTypeOf<Progress | undefined>();
  ctx.setCustomStatus({ step: 'charged' });
  // @ts-expect-error the status is of another type
  ctx.setCustomStatus('charged');
  // @ts-expect-error the input is of another type
  if (input.total > 5) yield* ctx.continueAsNew({ total: 'much' });
  return input.total;
});
const none = defineOrchestration('none', function* () {});

describe('a batch', () => {
  it('gives the function a list of what a start has as its input', () => {
    const send = defineOrchestration(
      'send',
      function* (_ctx, orders: Order[]) {
        return orders.length;
      },
      { batch: { max: 10, within: '1s', key: (order) => `${order.total}` } },
    );
    expectTypeOf(send).toEqualTypeOf<OrchestrationDefinition<Order, number>>();
    const keyed = defineOrchestration(
      'keyed',
      function* (ctx, orders: Order[]) {
        yield* ctx.run('print', () => console.log(orders));
      },
      { batch: { max: 10, within: '1s', key: (order: Order) => `${order.total}` } },
    );
    expectTypeOf(keyed).toEqualTypeOf<OrchestrationDefinition<Order, void>>();
    void client.start(send, { total: 1 });
    // @ts-expect-error one input, not a list
    void client.start(send, [{ total: 1 }]);
    // @ts-expect-error a batch has a time
    defineOrchestration('send', function* (_ctx, _orders: Order[]) {}, { batch: { max: 10 } });
  });

  it('is checked by the schema, input by input', () => {
    const dated = defineOrchestration(
      'dated',
      function* (_ctx, inputs) {
        expectTypeOf(inputs).toEqualTypeOf<{ at: Date }[]>();
      },
      { input: schema, batch: { max: 10, within: '1s', key: ({ at }) => at } },
    );
    expectTypeOf(dated).toEqualTypeOf<OrchestrationDefinition<{ at: string }, void>>();
  });
});

describe('the custom status', () => {
  it('is typed by the context of the function', () => {
    expectTypeOf(order).toEqualTypeOf<OrchestrationDefinition<Order, number, Progress>>();
    const dated = defineOrchestration(
      'dated',
      function* (ctx: OrchestrationContext<{ at: string }, Progress>, { at }) {
        expectTypeOf(at).toEqualTypeOf<Date>();
        ctx.continueAsNew({ at: '2020' });
      },
      { input: schema },
    );
    expectTypeOf(dated).toEqualTypeOf<OrchestrationDefinition<{ at: string }, void, Progress>>();
  });

  it('is unknown otherwise', () => {
    defineOrchestration('free', function* (ctx, input: Order) {
      ctx.setCustomStatus(input);
      expectTypeOf(ctx.getCustomStatus()).toEqualTypeOf<unknown>();
      expectTypeOf(ctx.getCustomStatus<Progress>()).toEqualTypeOf<Progress | undefined>();
    });
    expectTypeOf(client.waitForStatusChange('id', 0)).resolves.toEqualTypeOf<CustomStatus | null>();
    expectTypeOf(client.waitForStatusChange<Progress>('id', 0)).resolves.toEqualTypeOf<CustomStatus<Progress> | null>();
    expectTypeOf<InstanceStatus['customStatus']>().toBeUnknown();
  });

  it('fits the contexts of helpers', () => {
    function* plain(ctx: OrchestrationContext): OrchestrationGenerator<number> {
      yield* ctx.sleep(1);
      return 1;
    }
    function* shows(ctx: OrchestrationContext<any, Progress>): OrchestrationGenerator<void> {
      ctx.setCustomStatus({ step: 'here' });
      yield* ctx.sleep(1);
    }
    defineOrchestration('helped', function* (ctx: OrchestrationContext<Order, Progress>) {
      expectTypeOf(yield* plain(ctx)).toEqualTypeOf<number>();
      yield* shows(ctx);
    });
    defineOrchestration('helped', function* (ctx, _order: Order) {
      expectTypeOf(yield* plain(ctx)).toEqualTypeOf<number>();
    });
    const given: OrchestrationDefinition[] = [order, none];
    void given;
  });
});

describe('a runtime', () => {
  it('registers functions with contexts of their own types', () => {
    const runtime = new Runtime(provider);
    runtime.register(order, none);
    runtime.registerOrchestration('order', function* (ctx: OrchestrationContext<Order, Progress>, input) {
      expectTypeOf(ctx.getCustomStatus()).toEqualTypeOf<Progress | undefined>();
      yield* ctx.continueAsNew(input);
    });
    runtime.registerOrchestration(
      'dated',
      function* (ctx, { at }) {
        expectTypeOf(at).toEqualTypeOf<Date>();
        yield* ctx.continueAsNew({ at: '2020' });
      },
      { input: schema },
    );
    runtime.registerOrchestration('free', function* (ctx, input) {
      yield* ctx.continueAsNew(input + 1);
    });
  });
});

describe('a client by definition', () => {
  it('types handles', () => {
    const handle = client.handle(order, 'order-1');
    expectTypeOf(handle).toEqualTypeOf<InstanceHandle<number, Progress, Order>>();
    expectTypeOf(client.start(order, { total: 1 })).resolves.toEqualTypeOf<typeof handle>();
    expectTypeOf(handle.result()).resolves.toEqualTypeOf<number>();
    expectTypeOf(handle.status()).resolves.toEqualTypeOf<InstanceStatus<number, Progress, Order> | null>();
    expectTypeOf(handle.waitForStatusChange(0)).resolves.toEqualTypeOf<CustomStatus<Progress> | null>();
    expectTypeOf(handle.statusChanges().next()).resolves.toEqualTypeOf<IteratorResult<StatusChange<Progress>, void>>();
    expectTypeOf(handle).toExtend<InstanceHandle<number>>();
    expectTypeOf(handle).toExtend<InstanceHandle>();
    expectTypeOf(client.handle<string>('id')).toEqualTypeOf<InstanceHandle<string>>();
    // @ts-expect-error the id is missing
    client.handle(order);
    const activity = defineActivity('a', () => 1);
    // @ts-expect-error an activity has no instances
    client.handle(activity, 'id');
  });

  it('types statuses', async () => {
    const status = await client.getStatus(order, 'order-1');
    expectTypeOf(status).toEqualTypeOf<InstanceStatus<number, Progress, Order> | null>();
    expectTypeOf(status?.output).toEqualTypeOf<number | undefined>();
    expectTypeOf(status?.customStatus).toEqualTypeOf<Progress | undefined>();
    // @ts-expect-error the id is missing
    void client.getStatus(order);
  });

  it('infers the input from the definition alone', () => {
    // @ts-expect-error there is no input
    void client.start(none, 5);
    // @ts-expect-error the input is of another type
    void client.start(order, { total: 'much' });
  });
});

describe('the context', () => {
  it('continues with the input of the orchestration', () => {
    defineOrchestration('counts', function* (ctx, n: number) {
      yield* ctx.continueAsNew(n + 1);
      yield* ctx.continueAsNew('next', { version: '2.0.0' });
      // @ts-expect-error the input is of another type
      yield* ctx.continueAsNew('next');
      // @ts-expect-error the input is missing
      yield* ctx.continueAsNew();
    });
    defineOrchestration('loops', function* (ctx) {
      yield* ctx.continueAsNew();
      // @ts-expect-error there is no input
      yield* ctx.continueAsNew(1);
    });
    defineOrchestration('free', function* () {
      yield* free.continueAsNew({ any: 'thing' });
    });
  });

  it('starts detached instances', () => {
    defineOrchestration('starts', function* (ctx) {
      expectTypeOf(ctx.start(order, { total: 1 })).toEqualTypeOf<Future<string>>();
      expectTypeOf(ctx.start(none)).toEqualTypeOf<Future<string>>();
      ctx.start(order, { total: 1 }, { id: 'a', version: '2.0.0', onConflict: 'return' });
      yield* free.start(order, { total: 1 });
      // @ts-expect-error the input is of another type
      ctx.start(order, { total: 'much' });
      // @ts-expect-error the input is missing
      ctx.start(order);
      // @ts-expect-error there is no such option
      ctx.start(order, { total: 1 }, { idd: 'a' });
    });
  });

  it('calls one of several definitions', () => {
    const search = defineActivity('search', async (_ctx, query: string) => [query]);
    const read = defineActivity('read', async (_ctx, page: { url: string }) => page.url.length);
    const TOOLS = { search, read };
    expectTypeOf<InputOf<(typeof TOOLS)[keyof typeof TOOLS]>>().toEqualTypeOf<string | { url: string }>();
    expectTypeOf<OutputOf<typeof read>>().toEqualTypeOf<number>();
    expectTypeOf<InputOf<typeof order>>().toEqualTypeOf<Order>();
    expectTypeOf<OutputOf<typeof order>>().toEqualTypeOf<number>();
    const CHILDREN = { order, none };
    defineOrchestration('agent', function* (ctx, { name, x }: { name: keyof typeof TOOLS; x: string }) {
      expectTypeOf(yield* ctx.call(TOOLS[name], x)).toEqualTypeOf<string[] | number>();
      expectTypeOf(yield* free.call(TOOLS[name], { url: x })).toEqualTypeOf<string[] | number>();
      expectTypeOf(yield* ctx.callOrchestration(CHILDREN.order, { total: 1 })).toEqualTypeOf<number>();
      yield* ctx.callOrchestration(CHILDREN[x as keyof typeof CHILDREN], { total: 1 });
      // @ts-expect-error no tool takes a number
      yield* ctx.call(TOOLS[name], 5);
      // @ts-expect-error the input is missing
      yield* ctx.call(TOOLS[name]);
    });
  });

  it('calls the definition of a generic helper', () => {
    function* twice<I, O>(
      ctx: OrchestrationContext,
      activity: import('perdure').ActivityDefinition<I, O>,
      input: I,
    ): OrchestrationGenerator<O[]> {
      return [yield* ctx.call(activity, input), yield* ctx.call(activity, input)];
    }
    const count = defineActivity('count', (_ctx, text: string) => text.length);
    defineOrchestration('twice', function* (ctx) {
      expectTypeOf(yield* twice(ctx, count, 'text')).toEqualTypeOf<number[]>();
    });
  });
});

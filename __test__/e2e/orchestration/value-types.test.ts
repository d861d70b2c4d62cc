import { Client, defineActivity, defineOrchestration, PayloadError, type Provider, RuntimeStateError } from 'perdure';
import { replay, TestRuntime } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';
import { add, checkout } from '../../support/types-work.mjs';
import { CardDeclined, Cart, Money, types } from '../../support/value-types.mjs';

const cart = (...cents: number[]): Cart =>
  new Cart(new Map(cents.map((price, n) => [`item ${n}`, new Money(price, 'EUR')])), new Money(0, 'EUR'));

const WORK = new URL('../../support/types-work.mjs', import.meta.url);
const NAMELESS = new URL('../../support/thread-work.mjs', import.meta.url);

const CODEC = {
  encode: (text: string) => Buffer.from(text).toString('base64'),
  decode: (text: string) => Buffer.from(text, 'base64').toString(),
};

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Runs the checkout up to its end, and returns its id and output. */
  async function checkedOut(provider: Provider, name = checkout.name): Promise<[id: string, output: any]> {
    const client = new Client(provider);
    const id = store.id();
    await client.startOrchestration(id, name, cart(5, 7));
    await client.raiseEvent(id, 'tip', new Money(1, 'EUR'));
    return [id, (await client.waitForOrchestration(id, SOON)).output];
  }

  it.each([
    ['', {}],
    [' through a codec', { codec: CODEC }],
    [' through an asynchronous codec', { codec: { ...CODEC, async: true as const } }],
  ])('instances of registered classes come back as instances%s', async (_, options) => {
    const provider = await store.open({ types, ...options });
    await store.start((runtime) => runtime.register(add, checkout), {}, provider);
    const client = new Client(provider);
    const [id, [full, paid]] = await checkedOut(provider);
    expect(full).toBeInstanceOf(Cart);
    expect(full.items.get('item 1')).toBeInstanceOf(Money);
    expect(full.total.cents).toBe(12);
    expect(paid.plus(full.total).cents).toBe(25);

    const status = await client.getStatus(id, { input: true });
    expect(status?.customStatus).toBeInstanceOf(Money);
    expect(status?.input).toBeInstanceOf(Cart);
    const events = await client.getHistory(id);
    expect(events.find(({ kind }) => kind === 'EventReceived')?.payload).toBeInstanceOf(Money);

    const exported = JSON.parse(JSON.stringify(await client.exportHistory(id)));
    expect(replay(exported, checkout, { types }).executions[0]?.outcome).toBe('completed');
  });

  it('an error of a registered class comes back as one, in the orchestration and to its client', async () => {
    const provider = await store.open({ types });
    await store.start((runtime) => runtime.register(add, checkout), {}, provider);
    const handle = await new Client(provider).start(checkout, cart(900, 900), { id: store.id() });
    const error: any = await rejection(handle.result({ timeout: SOON }));
    expect(error).toBeInstanceOf(CardDeclined);
    expect(error.limit).toBeInstanceOf(Money);
    expect(error).toMatchObject({ name: 'CardDeclined', card: '1234', isFinal: false });
    const status = await handle.status();
    expect(status?.error).toBeInstanceOf(CardDeclined);
    expect(JSON.parse(JSON.stringify(status)).error).toMatchObject({ name: 'CardDeclined', card: '1234' });
  });

  it('a replay finds the same values', async () => {
    const provider = await store.open({ types });
    const first = await store.start((runtime) => runtime.register(add, checkout), {}, provider);
    const client = new Client(provider);
    const id = store.id();
    await client.startOrchestration(id, checkout.name, cart(1, 2));
    await client.waitForStatusChange(id, 0, '1s', SOON);
    await first.shutdown();
    await store.start((runtime) => runtime.register(add, checkout), {}, provider);
    await client.raiseEvent(id, 'tip', new Money(1, 'EUR'));
    const { status, output } = await client.waitForOrchestration<any>(id, SOON);
    expect([status, output[1].cents]).toEqual(['Completed', 4]);
  });

  it('worker threads need the classes, too', async () => {
    const provider = await store.open({ types });
    const without = store.runtime({ threads: 1, modules: [NAMELESS] }, provider);
    const error = await rejection(without.start());
    expect(error).toBeInstanceOf(RuntimeStateError);
    expect(error.message).toContain(
      'the provider has types (Money, Cart, CardDeclined), and worker threads need them too: ' +
        "one of the modules must export them as 'types'",
    );
    await store.start(() => {}, { threads: 2, modules: [WORK] }, provider);
    const [, [full, paid]] = await checkedOut(provider);
    expect([full.total.cents, paid.cents]).toEqual([12, 13]);
  });

  it.runIf(kind.isShared)('a reader without the class is told which one is missing', async () => {
    const provider = await store.open({ types });
    const id = store.id();
    await new Client(provider).startOrchestration(id, 'nobody registers it', { price: new Money(1, 'EUR') });
    expect((await store.client.getStatus(id))?.status).toBe('Pending');
    expect(await rejection(store.client.getStatus(id, { input: true }))).toMatchObject({
      name: 'PayloadError',
      message: expect.stringContaining("holds a value of the type 'Money', which is not registered here"),
    });
  });

  it.runIf(kind.isShared)(
    'an instance is suspended where a class is missing, and goes on where it is not',
    async () => {
      const provider = await store.open({ types });
      const name = store.id('reads');
      const reads = defineOrchestration(name, function* (ctx, price: Money) {
        const tip = yield* ctx.waitForEvent<Money>('tip');
        return price.plus(tip).cents;
      });
      const id = store.id();
      const client = new Client(provider);
      const without = await store.start((runtime) => runtime.register(reads));
      await client.startOrchestration(id, name, new Money(1, 'EUR'));
      await store.suspended(id);
      expect(await client.getStatus(id)).toMatchObject({
        status: 'Suspended',
        error: {
          code: 'PAYLOAD',
          message: expect.stringContaining("input cannot be read: it holds a value of the type 'Money'"),
        },
      });
      await without.shutdown();
      store.errors.splice(0);
      await store.start((runtime) => runtime.register(reads), {}, provider);
      await client.resume(id);
      await client.raiseEvent(id, 'tip', new Money(2, 'EUR'));
      expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output: 3 });
    },
  );

  it('an output that cannot be stored says that the activity has run, and is not retried', async () => {
    let calls = 0;
    const charge = defineActivity(
      store.id('charge'),
      async () => {
        calls += 1;
        return { receipts: [new Money(1, 'EUR')] };
      },
      { retry: { maxAttempts: 5 } },
    );
    const pay = defineOrchestration(store.id('pay'), function* (ctx) {
      return yield* ctx.call(charge);
    });
    await store.start((runtime) => runtime.register(charge, pay));
    const handle = await store.client.start(pay, undefined, { id: store.id() });
    const error: any = await rejection(handle.result({ timeout: SOON }));
    expect(calls).toBe(1);
    expect(error).toMatchObject({ name: 'ActivityError', attempt: 1 });
    expect(error.cause).toBeInstanceOf(PayloadError);
    expect(error.cause).toMatchObject({
      path: 'output.receipts[0]',
      message:
        'output.receipts[0] cannot be stored: it is an instance of Money, which nothing describes: register the ' +
        'class in the option `types` of the provider, or hand over plain data. ' +
        'The activity has run, so what it did has happened; it is not retried',
    });
  });
});

it('a test runtime takes the same classes', async () => {
  await using test = await TestRuntime.create({ types });
  test.register(add, checkout);
  const handle = await test.start(checkout, cart(1, 2));
  await test.client.raiseEvent(handle.id, 'tip', new Money(1, 'EUR'));
  expect((await handle.result())[1].cents).toBe(4);
});

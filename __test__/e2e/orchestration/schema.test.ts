// Standard Schemas: of inputs, which are checked where they are handed over and where code receives them, and of
// events.

import { defineActivity, defineOrchestration, PayloadError, type StandardSchema } from 'perdure';
import { describe, expect, it } from 'vitest';

import { checkSchema, parse, parseSync } from '../../../js/values/schema.ts';
import { rejection } from '../../support/async.ts';
import { kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

interface RawOrder {
  total: number;
  items: { price: number }[];
  placedAt?: string;
}

interface Order {
  total: number;
  items: { price: number }[];
  placedAt: Date;
}

type Validate<I, O> = StandardSchema<I, O>['~standard']['validate'];

function schemaOf<I, O>(validate: Validate<I, O>): StandardSchema<I, O> {
  return { '~standard': { version: 1, vendor: 'test', validate } };
}

/** Parses raw orders to orders. An order without a date gets the current time. */
const orderSchema = schemaOf<RawOrder, Order>((value) => {
  const { total, items, placedAt } = (value ?? {}) as Partial<RawOrder>;
  const issues = [];
  if (typeof total !== 'number') issues.push({ message: 'must be a number', path: ['total'] });
  for (const [i, { price }] of (items ?? []).entries()) {
    if (typeof price !== 'number')
      issues.push({ message: 'has no price', path: [{ key: 'items' }, { key: i }, 'price'] });
  }
  if (issues.length > 0) return { issues };
  const date = placedAt === undefined ? new Date() : new Date(placedAt);
  return { value: { total: total as number, items: items ?? [], placedAt: date } };
});

/** Accepts a number, asynchronously. */
const slowNumber = schemaOf<number, number>(async (value) =>
  typeof value === 'number' ? { value: value * 2 } : { issues: [{ message: 'must be a number' }] },
);

const BAD = { total: 'much', items: [{ price: 1 }, {}] } as unknown as RawOrder;
const REFUSAL = {
  name: 'PayloadError',
  code: 'PAYLOAD',
  path: 'input.total',
  message: 'input does not fit its schema: input.total: must be a number; input.items[1].price: has no price',
  cause: [
    { path: 'input.total', message: 'must be a number' },
    { path: 'input.items[1].price', message: 'has no price' },
  ],
};

describe('a schema', () => {
  it('may be an object or a function with the standard property', () => {
    expect(() => checkSchema(orderSchema, 'x')).not.toThrow();
    expect(() =>
      checkSchema(
        Object.assign(() => {}, orderSchema),
        'x',
      ),
    ).not.toThrow();
    for (const wrong of [undefined, null, 5, {}, () => {}, { '~standard': {} }, { '~standard': null }]) {
      expect(() => checkSchema(wrong, 'the input')).toThrow(/^the input must be a Standard Schema/);
    }
  });

  it('gives its value or all of its issues with their paths', () => {
    expect(parse(orderSchema, { total: 1 }, 'input')).toMatchObject({ total: 1, items: [] });
    expect(() => parse(orderSchema, BAD, 'input')).toThrow(PayloadErrorOfHere);
    const strange = schemaOf(() => ({
      issues: [{ message: 'no', path: ['a b', Symbol('s'), '0'] }, { message: 'never' }],
    }));
    expect(() => parse(strange, 1, 'input')).toThrow('input["a b"][Symbol(s)]["0"]: no; input: never');
    expect(() =>
      parse(
        schemaOf(() => ({ issues: [] })),
        1,
        'input',
      ),
    ).toThrow('reported no issue');
    const many = schemaOf(() => ({ issues: Array.from({ length: 130 }, (_, i) => ({ message: `no ${i}` })) }));
    expect(() => parse(many, 1, 'input')).toThrow(/no 99; 30 more$/);
  });

  it('is awaited if it is asynchronous, and refused where it cannot be awaited', async () => {
    expect(await parse(slowNumber, 4, 'input')).toBe(8);
    expect(await rejection(parse(slowNumber, 'x', 'input') as Promise<unknown>)).toMatchObject({
      path: 'input',
      code: 'PAYLOAD',
    });
    expect(() => parseSync(slowNumber, 4, 'input', "activity 'a'")).toThrow(TypeError);
    // The rejection of the abandoned promise does not count as unhandled.
    const fails = schemaOf(() => Promise.reject(new Error('boom')));
    expect(() => parseSync(fails, 4, 'input', "activity 'a'")).toThrow(/activity 'a' returned a promise/);
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('is checked when it is given', () => {
    const wrong = { input: {} as StandardSchema };
    expect(() => defineOrchestration('a', function* () {}, wrong)).toThrow(
      /orchestration 'a': input must be a Standard Schema/,
    );
    expect(() => defineActivity('a', () => 1, wrong)).toThrow(/activity 'a': input must be a Standard Schema/);
    expect(() => defineOrchestration('a', function* () {}, { versoin: '1' } as object)).toThrow(
      /did you mean `version`/,
    );
    expect(() =>
      defineActivity('a', () => 1, { input: orderSchema, timeot: 1 } as { input: typeof orderSchema }),
    ).toThrow(/did you mean `timeout`/);
    expect(defineActivity('a', () => 1, { input: orderSchema, timeout: 5 }).options).toEqual({ timeout: 5 });
  });
});

/** js/ and the built package each have a class of that name. */
const PayloadErrorOfHere = expect.objectContaining(REFUSAL);

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('an orchestration gets the parsed input, and the same in a replay', async () => {
    const passes: Order[] = [];
    const order = defineOrchestration(
      'order',
      function* (ctx, input) {
        passes.push(input);
        yield ctx.scheduleTimer(30);
        yield ctx.scheduleTimer(30);
        return input.placedAt.getTime();
      },
      { input: orderSchema },
    );
    await store.start((runtime) => runtime.register(order), { cachedInstancesMax: 0 });
    const given = await store.client.start(order, { total: 1, items: [], placedAt: '2020-01-01T00:00:00Z' });
    expect(await given.result({ timeout: SOON })).toBe(Date.UTC(2020, 0));
    // The input is stored as it was handed over.
    const [started] = await store.client.getHistory(given.id);
    expect(started?.payload).toEqual({ total: 1, items: [], placedAt: '2020-01-01T00:00:00Z' });
    passes.length = 0;
    const now = await store.client.start(order, { total: 1, items: [] });
    const result = await now.result({ timeout: SOON });
    expect(passes.length).toBeGreaterThan(0);
    expect(passes.map(({ placedAt }) => placedAt.getTime())).toEqual(passes.map(() => result));
  });

  it('an input that does not fit is refused at the client, and nothing is stored', async () => {
    const order = defineOrchestration(
      'order',
      function* (_, input) {
        return input.total;
      },
      { input: orderSchema },
    );
    const id = store.id();
    const error = await rejection(store.client.start(order, BAD, { id }));
    expect(error).toBeInstanceOf(PayloadError);
    expect(error).toMatchObject(REFUSAL);
    expect(await store.client.getStatus(id)).toBeNull();
    const slow = defineOrchestration(
      'slow',
      function* (_, n) {
        return n;
      },
      { input: slowNumber },
    );
    expect(await rejection(store.client.start(slow, 'x' as unknown as number))).toMatchObject({ path: 'input' });
  });

  it('an execution that has such an input all the same fails with it, before its code runs', async () => {
    let ran = false;
    const order = defineOrchestration(
      'order',
      function* (_, input) {
        ran = true;
        return input.total;
      },
      { input: orderSchema },
    );
    await store.start((runtime) => runtime.register(order));
    const id = store.id();
    await store.client.startOrchestration(id, 'order', BAD);
    const { status, error } = await store.client.waitForOrchestration(id, SOON);
    expect(status).toBe('Failed');
    expect(error).toBeInstanceOf(PayloadError);
    expect(error).toMatchObject(REFUSAL);
    expect(ran).toBe(false);
  });

  it('an orchestration whose schema is asynchronous fails with a TypeError that says so', async () => {
    const slow = defineOrchestration(
      'slow',
      function* (_, n) {
        return n;
      },
      { input: slowNumber },
    );
    await store.start((runtime) => runtime.register(slow));
    const handle = await store.client.start(slow, 4);
    const error = await rejection(handle.result({ timeout: SOON }));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(/^the schema of orchestration 'slow' returned a promise/);
  });

  it('an activity gets its parsed input', async () => {
    const total = defineActivity('total', (_, order) => [order.placedAt.toISOString(), order.total], {
      input: orderSchema,
    });
    await store.start((runtime) =>
      runtime.register(total).registerOrchestration('calls', function* (ctx) {
        const order = { total: 7, items: [], placedAt: '2020-01-01T00:00:00Z' };
        return [yield* ctx.call(total, order), yield ctx.scheduleActivity('total', order)];
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'calls');
    const expected = ['2020-01-01T00:00:00.000Z', 7];
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([expected, expected]);
    expect(
      (await store.client.getHistory(id)).find((event) => event.kind === 'ActivityScheduled')?.payload,
    ).toMatchObject({
      placedAt: '2020-01-01T00:00:00Z',
    });
  });

  it('an activity is refused a wrong input by the call, or by its only attempt', async () => {
    let ran = 0;
    const charge = defineActivity(
      'charge',
      () => {
        ran += 1;
      },
      { input: orderSchema, retry: { maxAttempts: 5 } },
    );
    const slow = defineActivity('slow', (_, n) => n, { input: slowNumber, retry: { maxAttempts: 5 } });
    await store.start((runtime) =>
      runtime.register(charge, slow).registerOrchestration('refused', function* (ctx) {
        const told: unknown[] = [];
        for (const call of [
          () => ctx.call(charge, BAD),
          () => ctx.call(slow, 4),
          () => ctx.scheduleActivity('charge', BAD),
          () => ctx.scheduleActivity('slow', 'x'),
        ]) {
          try {
            yield call();
          } catch (error) {
            told.push(error);
          }
        }
        told.push(yield ctx.scheduleActivity('slow', 4));
        return told;
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'refused');
    const [called, async, attempted, slowly, doubled] = (await store.client.waitForOrchestration<any>(id, SOON)).output;
    expect(called).toMatchObject(REFUSAL);
    expect(async).toBeInstanceOf(TypeError);
    expect(attempted).toMatchObject({
      name: 'ActivityError',
      attempt: 1,
      cause: { path: 'input.total', code: 'PAYLOAD' },
    });
    expect(slowly).toMatchObject({ name: 'ActivityError', attempt: 1, cause: { path: 'input' } });
    expect([doubled, ran]).toEqual([8, 0]);
    const history = await store.client.getHistory(id);
    expect(kinds(history).filter((name) => name === 'ActivityScheduled')).toHaveLength(3);
    expect(kinds(history)).not.toContain('ActivityAttemptFailed');
  });

  it('an event goes through its schema, which takes part in the determinism of the instance', async () => {
    const passes: unknown[][] = [];
    await store.start(
      (runtime) =>
        runtime.registerOrchestration('waits', function* (ctx) {
          const seen: unknown[] = [];
          passes.push(seen);
          // The wait loses the race, and consumes no event.
          const lost = yield* ctx.race(ctx.waitForEvent('order', orderSchema), ctx.scheduleTimer(1));
          seen.push(lost.index);
          ctx.setCustomStatus('listens');
          for (let i = 0; i < 3; i += 1) {
            try {
              const order = yield* ctx.waitForEvent('order', orderSchema);
              seen.push(order.placedAt.getTime(), order.placedAt.getTime() === ctx.now());
            } catch (error) {
              seen.push((error as Error).message, (error as PayloadError).path);
            }
          }
          yield ctx.scheduleTimer(1);
          return seen;
        }),
      { cachedInstancesMax: 0 },
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'waits');
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    await store.client.raiseEvent(id, 'order', { total: 1, placedAt: '2020-01-01T00:00:00Z' });
    await store.client.raiseEvent(id, 'order', BAD);
    await store.client.raiseEvent(id, 'order', { total: 1 });
    const { output } = await store.client.waitForOrchestration<any>(id, SOON);
    expect(output).toEqual([
      1,
      Date.UTC(2020, 0),
      false,
      'event does not fit its schema: event.total: must be a number; event.items[1].price: has no price',
      'event.total',
      expect.any(Number),
      true,
    ]);
    expect(passes.length).toBeGreaterThan(1);
    for (const pass of passes) expect(pass).toEqual(output.slice(0, pass.length));
  });

  it('an event fails its wait when the schema is asynchronous or throws', async () => {
    const throws = schemaOf(() => {
      throw new RangeError('boom');
    });
    await store.start((runtime) =>
      runtime.registerOrchestration('strange', function* (ctx) {
        const told: string[] = [];
        for (const schema of [slowNumber, throws, {} as StandardSchema]) {
          try {
            yield ctx.waitForEvent('n', schema);
          } catch (error) {
            told.push(`${(error as Error).name}: ${(error as Error).message}`);
          }
        }
        return told;
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'strange');
    await store.client.raiseEvent(id, 'n', 1);
    await store.client.raiseEvent(id, 'n', 2);
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
      expect.stringMatching(/^TypeError: the schema of event 'n' returned a promise/),
      'RangeError: boom',
      expect.stringMatching(/^TypeError: event '\w+': the schema must be a Standard Schema/),
    ]);
  });
});

// Entities: keyed objects whose state one handler at a time changes.

import {
  type CallableEntity,
  defineActivity,
  defineEntity,
  defineOrchestration,
  LimitError,
  NotRegisteredError,
  type OrchestrationContext,
  PayloadError,
  type Runtime,
  RuntimeStateError,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expect, it } from 'vitest';

import { eventually, rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Limit of the waits for one-way calls. */
const WITHIN_MS = 20_000;

const same = defineActivity('same', async (_ctx, value: unknown) => value);

/** The numbers that were added to an account, as the key says: `from` is where an account begins. */
const account = defineEntity('account', {
  initial: (key) => ({ key, sum: 0, lines: [] as string[] }),
  handlers: {
    *add(ctx, by: number) {
      ctx.state.lines.push(`begin ${by}`);
      ctx.state.sum += (yield* ctx.call(same, by)) as number;
      ctx.state.lines.push(`end ${by}`);
      return ctx.state.sum;
    },
    *addAtOnce(ctx, by: number) {
      ctx.state = { ...ctx.state, sum: ctx.state.sum + by };
      return ctx.state.sum;
    },
    *fail(ctx, why: string) {
      ctx.state.sum = 1e6;
      yield* free.call(same, why);
      throw new RangeError(`${why} of ${ctx.key}`);
    },
    *hold(ctx) {
      yield* ctx.waitForEvent('release');
      return 'held';
    },
    *spoil(ctx) {
      (ctx.state as unknown) = { sum: () => {} };
    },
    *swell(ctx) {
      ctx.state.lines = ['x'.repeat(17 * 1024 * 1024)];
    },
    *tellTooMuch(ctx) {
      ctx.state.sum = 1e6;
      return () => {};
    },
    *renew(ctx) {
      yield* (ctx as unknown as OrchestrationContext).continueAsNew();
    },
    *callItself(ctx) {
      return yield* ctx.entity(itself(), ctx.key).add(1);
    },
    *sendItself(ctx, by: number) {
      yield* ctx.entity(itself(), ctx.key).send.add(by);
    },
  },
  reads: {
    sum: ({ sum }) => sum,
    lines: ({ lines }, from: number) => lines.slice(from),
    key: ({ key }) => key,
  },
});

/** Returns the entity with the types that its own handlers need. */
function itself(): CallableEntity<{ add(ctx: unknown, by: number): Generator<any, number, any> }> {
  return account;
}

const teller = defineOrchestration('teller', function* (ctx, key: string) {
  const mine = ctx.entity(account, key);
  const answers: unknown[] = [yield* mine.sum(), yield* mine.add(2), yield* free.entity(account, key).addAtOnce(3)];
  yield* mine.send.add(4);
  answers.push(yield* mine.add(0), yield* mine.sum());
  try {
    yield* mine.fail('no such luck');
  } catch (error) {
    answers.push(`${(error as Error).name}: ${(error as Error).message}`);
  }
  yield* mine.delete();
  answers.push(yield* mine.sum(), yield* mine.add(1));
  return answers;
});

function register(runtime: Runtime): void {
  runtime.register(account, teller, same);
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Returns an account of its own, and the id of its instance. */
  function opened() {
    const key = store.id('a/b');
    return { key, id: `account/${key}`, mine: store.client.entity(account, key) };
  }

  it('an entity is there from its first call, with its initial state', async () => {
    await store.start(register);
    const { key, id, mine } = opened();
    expect(await mine.sum()).toBe(0);
    expect(await mine.key()).toBe(key);
    expect(await store.client.getStatus(id)).toBeNull();
    expect(await mine.add(5)).toBe(5);
    expect(await mine.add(6)).toBe(11);
    expect(await mine.sum()).toBe(11);
    expect(await mine.lines(2)).toEqual(['begin 6', 'end 6']);
    expect((await store.client.getState(id, 'state'))?.value).toMatchObject({ sum: 11 });
  });

  it('its handlers run one at a time, no matter how the calls come', async () => {
    await store.start(register);
    const { mine } = opened();
    const numbers = Array.from({ length: 20 }, (_, n) => n);
    const answers = await Promise.all(numbers.map((n) => (n % 4 === 3 ? mine.send.add(n) : mine.add(n))));
    await eventually(WITHIN_MS, 'the sum is 190', async () => (await mine.sum()) === 190);
    const lines = await mine.lines(0);
    const taken = lines.filter((_, n) => n % 2 === 0).map((line) => Number(line.replace('begin ', '')));
    expect(lines).toEqual(taken.flatMap((n) => [`begin ${n}`, `end ${n}`]));
    expect(taken.toSorted((a, b) => a - b)).toEqual(numbers);
    // Each answer is the sum up to its call.
    let sum = 0;
    for (const n of taken) {
      sum += n;
      expect(answers[n]).toBe(n % 4 === 3 ? undefined : sum);
    }
  });

  it('a handler that throws leaves the state as it was, and its error is the answer', async () => {
    await store.start(register);
    const { key, mine } = opened();
    await mine.add(1);
    const error = await rejection(mine.fail('broken'));
    expect(error).toBeInstanceOf(RangeError);
    expect(error.message).toBe(`broken of ${key}`);
    expect(await rejection(mine.spoil())).toBeInstanceOf(PayloadError);
    expect(await rejection(mine.tellTooMuch())).toBeInstanceOf(PayloadError);
    expect(await rejection(mine.swell())).toSatisfy(
      (error) => error instanceof PayloadError || error instanceof LimitError,
    );
    expect(await rejection(mine.renew())).toMatchObject({
      name: 'TypeError',
      message: 'a handler of an entity has no ctx.continueAsNew',
    });
    expect(await mine.sum()).toBe(1);
    expect(await mine.add(1)).toBe(2);
  });

  it('a call with the same id runs once, and has the same answer', async () => {
    await store.start(register);
    const { mine } = opened();
    const options = { updateId: 'once' };
    expect(await Promise.all([mine.add(1, options), mine.add(1, options)])).toEqual([1, 1]);
    expect(await mine.add(7, options)).toBe(1);
    expect(await mine.sum()).toBe(1);
  });

  it('a call of an unknown handler is refused, and a one-way call of one is dropped', async () => {
    await store.start(register);
    const { key, id, mine } = opened();
    await mine.add(1);
    const other = store.client.entity(
      defineEntity('account', { initial: () => 0, handlers: { *subtract() {}, *toString() {} } }),
      key,
    );
    expect(await rejection(store.client.update(id, 'perdure.entity'))).toBeInstanceOf(NotRegisteredError);
    const error = await rejection(other.subtract());
    expect(error).toBeInstanceOf(NotRegisteredError);
    expect(error.message).toMatch(/^entity 'account' has no handler 'subtract'; it has 'add', /);
    expect(await rejection(other.toString())).toBeInstanceOf(NotRegisteredError);
    await other.send.subtract();
    await mine.send.add(1);
    await eventually(WITHIN_MS, 'the sum is 2', async () => (await mine.sum()) === 2);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Running' });
  });

  it('an entity that is deleted begins anew with its next call', async () => {
    await store.start(register);
    const { id, mine } = opened();
    await mine.add(5);
    await mine.delete();
    expect(await mine.sum()).toBe(0);
    await store.client.handle(id).result({ timeout: SOON });
    expect(await mine.add(1)).toBe(1);
    // A call that waits for a handler when the entity is deleted makes it anew.
    const all = [mine.hold(), mine.delete(), mine.add(7)];
    await eventually(WITHIN_MS, 'all calls wait', async () => (await store.client.getHistory(id)).length > 6);
    await store.client.raiseEvent(id, 'release');
    expect(await Promise.all(all)).toEqual(['held', undefined, 7]);
    expect(await mine.sum()).toBe(7);
    expect(await mine.delete()).toBeUndefined();
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Completed' });
    await mine.delete();
  });

  it('a call while it is deleted is answered, or fails', async () => {
    await store.start(register);
    const { mine } = opened();
    await mine.add(1);
    const calls = Array.from({ length: 10 }, (_, n) => (n % 2 === 0 ? mine.delete() : mine.add(1)));
    for (const outcome of await Promise.allSettled(calls)) {
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(RuntimeStateError);
      else expect([1, 2, 3, 4, 5, 6, undefined]).toContain(outcome.value);
    }
    await mine.delete();
    expect(await mine.sum()).toBe(0);
    expect(await mine.add(2)).toBe(2);
  });

  it('its history is bounded', async () => {
    await store.start(register);
    const { id, mine } = opened();
    for (let n = 0; n < 600; n += 100) {
      await Promise.all(Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? mine.addAtOnce(1) : mine.send.add(1))));
    }
    await eventually(WITHIN_MS, 'the sum is 600', async () => (await mine.sum()) === 600);
    const { executionId } = (await store.client.getStatus(id)) ?? {};
    expect(executionId).toBeGreaterThan(1);
    expect((await store.client.getHistory(id)).length).toBeLessThan(1_500);
  });

  it('orchestrations call it', async () => {
    await store.start(register);
    const { key } = opened();
    const handle = await store.client.start(teller, key);
    const answers = [0, 2, 5, 9, 9, `RangeError: no such luck of ${key}`, 0, 1];
    expect(await handle.result({ timeout: SOON })).toEqual(answers);
  });

  it('it cannot wait for itself, and can send to itself', async () => {
    await store.start(register);
    const { id, mine } = opened();
    const error = await rejection(mine.callItself());
    expect(error.message).toBe(`entity '${id}' cannot wait for itself: use send`);
    await mine.sendItself(3);
    await eventually(WITHIN_MS, 'the sum is 3', async () => (await mine.sum()) === 3);
  });

  it('a call ends early by its timeout, and its handler goes on', async () => {
    await store.start(register);
    const { id, mine } = opened();
    const error = await rejection(mine.hold(undefined, { timeout: '20ms', updateId: 'held' }));
    expect(error.name).toBe('TimeoutError');
    await store.client.raiseEvent(id, 'release');
    expect(await mine.hold(undefined, { updateId: 'held' })).toBe('held');
  });

  it('an entity without runtime keeps the calls until there is one', async () => {
    const { mine } = opened();
    const call = mine.add(1);
    await mine.send.add(2);
    await store.start(register);
    expect([1, 3]).toContain(await call);
    await eventually(WITHIN_MS, 'the sum is 3', async () => (await mine.sum()) === 3);
  });
});

describe('defineEntity', () => {
  const initial = () => 0;
  const handlers = { *add() {} };

  it('names what is wrong', () => {
    const wrong = (name: unknown, options: unknown) => () => defineEntity(name as string, options as never);
    expect(wrong('a/b', { initial, handlers })).toThrow("at most 200 characters and no '/', got 'a/b'");
    expect(wrong('a', { handlers })).toThrow("entity 'a' must have 'initial' and 'handlers'");
    expect(wrong('a', { initial, handlers: { async add() {} } })).toThrow(/handlers\.add must be a function\*, got/);
    expect(wrong('a', { initial, handlers: [] })).toThrow(/handlers must be an object of functions/);
    expect(wrong('a', { initial: async () => 0, handlers })).toThrow(/initial must be a function that answers at once/);
    expect(wrong('a', { initial, handlers: { *send() {} } })).toThrow(/handlers must not have the name 'send'/);
    expect(wrong('a', { initial, handlers, reads: { then: () => 1 } })).toThrow(/must not have the name 'then'/);
    expect(wrong('a', { initial, handlers, reads: { add: () => 1 } })).toThrow("'add' is both a handler and a read");
  });
});

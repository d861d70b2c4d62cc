// Events and queues by their definitions: each place that takes a name takes a definition, the sender and the receiver
// apply its schema.

import { defineEvent, defineOrchestration, defineQueue, PayloadError, type StandardSchema } from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Turns `'2020-01-01'` into the time in ms. */
const day: StandardSchema<string, number> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) =>
      typeof value === 'string' && !Number.isNaN(Date.parse(value))
        ? { value: Date.parse(value) }
        : { issues: [{ message: 'must be a day' }] },
  },
};

const [FIRST, SECOND] = ['2020-01-01', '2020-01-02'];
const NO_DAY = { path: 'event', message: 'event does not fit its schema: event: must be a day' };

const asked = defineEvent('asked', day);
const days = defineQueue('days', day);
const approved = defineEvent<{ by: string }>('approved');
const stop = defineEvent('stop');

describe('a definition', () => {
  it('is a plain frozen object', () => {
    expect(stop).toEqual({ kind: 'event', name: 'stop' });
    expect(days).toEqual({ kind: 'queue', name: 'days', schema: day });
    expect(Object.isFrozen(days) && Object.isFrozen(stop)).toBe(true);
  });

  it('is checked when it is made', () => {
    expect(() => defineEvent('')).toThrow('the event name must not be empty');
    expect(() => defineQueue(5 as never)).toThrow('the queue name must be a string, got 5');
    expect(() => defineQueue('a', {} as typeof day)).toThrow("queue 'a': the schema must be a Standard Schema");
  });
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('stands for its name at each sender and receiver', async () => {
    const receiver = defineOrchestration('receiver', function* (ctx) {
      const early = yield* ctx.pollEvent(stop);
      const { by } = yield* ctx.waitForEvent(approved);
      const again = yield* free.waitForEvent<{ by: string }>('approved');
      return [early, by, again.by];
    });
    const sender = defineOrchestration('sender', function* (ctx, id: string) {
      yield* ctx.raiseEvent(id, approved, { by: 'an orchestration' });
    });
    await store.start((runtime) => runtime.register(receiver, sender));
    const handle = await store.client.start(receiver);
    await handle.raiseEvent(approved, { by: 'a client' });
    await (await store.client.start(sender, handle.id)).result({ timeout: SOON });
    expect(await handle.result({ timeout: SOON })).toEqual([undefined, 'a client', 'an orchestration']);
  });

  it('gives the output of its schema to each kind of wait, and the same in a replay', async () => {
    const passes: unknown[] = [];
    const waits = defineOrchestration('waits', function* (ctx) {
      const found: unknown[] = [yield* ctx.waitForEvent(asked), yield* ctx.dequeueEvent(days)];
      found.push(yield* ctx.pollEvent(asked), yield* ctx.tryDequeue(days));
      found.push(yield* ctx.pollEvent(asked), yield* ctx.dequeueBatch(days, 2, '1h'));
      found.push(yield* ctx.drainQueue(days), yield* ctx.tryDequeue(days));
      passes.push(found);
      yield* ctx.scheduleTimer(10);
      yield* ctx.scheduleTimer(10);
      return found;
    });
    const handle = await store.client.start(waits);
    for (const text of [FIRST, SECOND]) await handle.raiseEvent(asked, text);
    for (const text of [FIRST, SECOND, FIRST, SECOND, FIRST]) await handle.enqueueEvent(days, text);
    await store.start((runtime) => runtime.register(waits), { cachedInstancesMax: 0 });
    const [first, second] = [Date.parse(FIRST), Date.parse(SECOND)];
    const result = await handle.result({ timeout: SOON });
    expect(result).toEqual([first, first, second, second, undefined, [first, second], [first], undefined]);
    expect(passes.length).toBeGreaterThan(1);
    for (const found of passes) expect(found).toEqual(result);
    // A message is stored as it was handed over.
    const received = (await store.client.getHistory(handle.id)).filter(({ kind: name }) => name === 'EventReceived');
    expect(received.slice(0, 1).map(({ payload }) => payload)).toEqual([FIRST]);
  });

  it('refuses data that does not fit at the sender, and nothing is sent', async () => {
    const waits = defineOrchestration('waits', function* (ctx) {
      yield* ctx.waitForEvent(stop);
      return [yield* ctx.pollEvent('asked'), yield* ctx.drainQueue('days')];
    });
    const sender = defineOrchestration('sender', function* (ctx, id: string) {
      const errors: unknown[] = [];
      for (const send of [() => ctx.raiseEvent(id, asked, 'soon'), () => free.enqueueEvent(id, days, 5 as never)]) {
        try {
          send();
        } catch (error) {
          errors.push(error);
        }
      }
      return errors;
    });
    await store.start((runtime) => runtime.register(waits, sender));
    const handle = await store.client.start(waits);
    const refusals = [
      await rejection(store.client.raiseEvent(handle.id, asked, 'soon')),
      await rejection(handle.enqueueEvent(days, undefined as never)),
    ];
    for (const refusal of refusals) {
      expect(refusal).toBeInstanceOf(PayloadError);
      expect(refusal).toMatchObject({ ...NO_DAY, cause: [{ path: 'event', message: 'must be a day' }] });
    }
    const inside = await (await store.client.start(sender, handle.id)).result({ timeout: SOON });
    expect(inside).toMatchObject([
      { path: 'data', message: 'data does not fit its schema: data: must be a day' },
      { path: 'data', message: 'data does not fit its schema: data: must be a day' },
    ]);
    await handle.raiseEvent(stop);
    expect(await handle.result({ timeout: SOON })).toEqual([undefined, []]);
  });

  it('fails the wait for a message that was sent by name and does not fit', async () => {
    const waits = defineOrchestration('waits', function* (ctx) {
      const errors: string[] = [];
      for (const wait of [
        () => ctx.waitForEvent(asked),
        () => ctx.dequeueEvent(days),
        () => ctx.dequeueBatch(days, 5, '1h'),
      ]) {
        try {
          yield* wait();
        } catch (error) {
          errors.push((error as PayloadError).message);
        }
      }
      return errors;
    });
    await store.start((runtime) => runtime.register(waits));
    const handle = await store.client.start(waits);
    await handle.raiseEvent('asked', 'soon');
    await handle.enqueueEvent('days', 5);
    await handle.enqueueEvent(days, FIRST);
    await handle.enqueueEvent('days', 5);
    expect(await handle.result({ timeout: SOON })).toEqual([NO_DAY.message, NO_DAY.message, NO_DAY.message]);
  });

  it('of the other kind is refused by each method', async () => {
    const wrong = defineOrchestration('wrong', function* (ctx) {
      const messages: string[] = [];
      for (const call of [
        () => ctx.waitForEvent(days as never),
        () => ctx.pollEvent(days as never),
        () => ctx.raiseEvent('x', days as never),
        () => ctx.dequeueEvent(asked as never),
        () => ctx.tryDequeue(asked as never),
        () => ctx.drainQueue(asked as never),
        () => ctx.dequeueBatch(asked as never, 1, 1),
        () => ctx.enqueueEvent('x', asked as never),
      ]) {
        try {
          call();
        } catch (error) {
          messages.push(String(error));
        }
      }
      return messages;
    });
    await store.start((runtime) => runtime.register(wrong));
    const noEvent = "TypeError: the event must be a name or a result of defineEvent, got the queue 'days'";
    const noQueue = "TypeError: the queue must be a name or a result of defineQueue, got the event 'asked'";
    expect(await (await store.client.start(wrong)).result({ timeout: SOON })).toEqual([
      ...Array.from({ length: 3 }, () => noEvent),
      ...Array.from({ length: 5 }, () => noQueue),
    ]);
    expect(String(await rejection(store.client.raiseEvent('x', days as never)))).toBe(noEvent);
    expect(String(await rejection(store.client.enqueueEvent('x', asked as never)))).toBe(noQueue);
    expect(String(await rejection(store.client.raiseEvent('x', {} as never)))).toBe(
      'TypeError: the event must be a name or a result of defineEvent, got an object',
    );
  });
});

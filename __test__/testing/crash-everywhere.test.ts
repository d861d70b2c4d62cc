// `crashEverywhere`: a scenario, with a crash after each event.

import { defineActivity, defineEntity, defineOrchestration } from 'perdure';
import { crashEverywhere, type TestRuntime } from 'perdure/testing';
import { describe, expect, it, vi } from 'vitest';

import { rejection } from '../support/async.ts';

const pack = defineActivity('pack', async (_, item: string) => `a packed ${item}`);

const parcel = defineOrchestration('parcel', function* (ctx, item: string) {
  const packed = yield* ctx.call(pack, item);
  yield ctx.scheduleTimer('2d');
  return packed;
});

const order = defineOrchestration('order', function* (ctx, items: string[]) {
  const parcels = yield* ctx.all(items.map((item) => ctx.callOrchestration(parcel, item)));
  ctx.setCustomStatus('packed');
  const { by } = yield* ctx.waitForEvent<{ by: string }>('signed');
  const number = yield* ctx.run('number', () => 7);
  return { parcels, by, number, dice: ctx.random() };
});

/** The scenario of an order that is signed three days later. */
async function signed(test: TestRuntime): Promise<unknown> {
  test.register(order, parcel, pack);
  const handle = await test.start(order, ['cup', 'plate']);
  await test.advance('3d');
  await handle.raiseEvent('signed', { by: 'ada' });
  return handle.result();
}

describe('crashEverywhere', () => {
  it('runs a scenario with a crash after each event of each instance, and finds no difference', async () => {
    const { result, crashes } = await crashEverywhere(signed);
    expect(result).toEqual({
      parcels: ['a packed cup', 'a packed plate'],
      by: 'ada',
      number: 7,
      dice: expect.any(Number),
    });
    // Events of each parcel: start, schedule, completion, timer twice, end. Events of the order: start, two children,
    // two ends, the event, the number twice, end.
    const events = 2 * 6 + 9;
    const attempts = 3;
    expect(crashes).toBe(events + attempts);
  });

  it('logs a failed instance once, not once for each crash', async () => {
    const written = vi.spyOn(console, 'error').mockReturnValue();
    const fails = defineOrchestration('fails', function* (ctx) {
      yield* ctx.call(pack, 'cup');
      throw new Error('no parcel');
    });
    const { crashes } = await crashEverywhere(async (test) => {
      test.register(fails, pack);
      const handle = await test.start(fails);
      return String(await handle.result().catch((error) => error));
    });
    expect(crashes).toBeGreaterThan(3);
    expect(written.mock.calls.map(([line]) => JSON.parse(String(line)).message)).toEqual([
      expect.stringMatching(/^instance '.+' of orchestration 'fails' failed: Error: no parcel$/),
    ]);
    written.mockRestore();
  });

  it('finds an activity that cannot be called twice, and says where it crashed', async () => {
    const error = await rejection(
      crashEverywhere(async (test) => {
        let calls = 0;
        test.activity('count', async () => (calls += 1));
        test.registerOrchestration('counted', function* (ctx) {
          return yield ctx.scheduleActivity('count');
        });
        await test.client.startOrchestration('c', 'counted');
        await test.settled();
        return (await test.client.waitForOrchestration('c')).output;
      }),
    );
    expect(error).toMatchObject({
      code: 'CRASH_DIFFERENCE',
      message:
        "with a crash before the result of attempt 1 of activity 'count' is stored, " +
        'the scenario returned 2 instead of 1',
    });
  });

  it('finds an orchestration that keeps something in memory', async () => {
    const error = await rejection(
      crashEverywhere(async (test) => {
        const seen: string[] = [];
        test.activity('pack', () => 'packed');
        test.registerOrchestration('leaky', function* (ctx) {
          seen.push('begun');
          yield ctx.scheduleActivity('pack');
          yield ctx.scheduleTimer(10);
          return seen.length;
        });
        await test.client.startOrchestration('l', 'leaky');
        return (await test.client.waitForOrchestration('l')).output;
      }),
    );
    expect(error).toMatchObject({
      code: 'CRASH_DIFFERENCE',
      message: expect.stringContaining("of execution 1 of instance 'l', the scenario returned 2 instead of 1"),
    });
  });

  it('shows little of a result that holds a text a million times', async () => {
    const texts = Array.from({ length: 100 }, () => 'x'.repeat(10_000));
    const lists = Array.from({ length: 6 }, () => Array.from({ length: 100 }, () => texts));
    let runs = 0;
    const error = await rejection<Error>(
      crashEverywhere(async (test) => {
        await (await test.register(parcel, pack).start(parcel, 'cup')).result();
        return [(runs += 1), lists];
      }),
    );
    expect(error).toMatchObject({
      code: 'CRASH_DIFFERENCE',
      message: expect.stringMatching(/the scenario returned \[\s+2,\s+\[\s+\[\s+\[Array\]/),
    });
    expect(error.message.length).toBeLessThan(100_000);
  });

  it('rethrows an error of the scenario itself', async () => {
    const error = await rejection(
      crashEverywhere(() => {
        throw new RangeError('no');
      }),
    );
    expect(error).toBeInstanceOf(RangeError);
    expect(await rejection(crashEverywhere(3 as never))).toMatchObject({
      name: 'TypeError',
      message: expect.stringContaining('the scenario must be a function'),
    });
  });

  it('finds no difference in blocks that hold locks, one after the other', async () => {
    const account = defineEntity('account', {
      initial: () => [] as string[],
      handlers: {
        *add(ctx, item: string) {
          return ctx.state.push(yield* ctx.call(pack, item));
        },
      },
      reads: { all: (items) => items },
    });
    const packs = defineOrchestration('packs', function* (ctx, item: string) {
      return yield* ctx.lock(['door', account.at('a')], function* () {
        const mine = ctx.entity(account, 'a');
        yield* mine.add(`${item} 1`);
        yield* ctx.sleep('1h');
        return yield* mine.add(`${item} 2`);
      });
    });
    const { result, crashes } = await crashEverywhere(async (test) => {
      test.register(account, packs, pack);
      const cup = await test.start(packs, 'cup', { id: 'cup' });
      await test.advance('30m');
      const jug = await test.start(packs, 'jug', { id: 'jug' });
      return [await cup.result(), await jug.result(), await test.client.entity(account, 'a').all()];
    });
    const items = ['cup 1', 'cup 2', 'jug 1', 'jug 2'].map((item) => `a packed ${item}`);
    expect(result).toEqual([2, 4, items]);
    expect(crashes).toBeGreaterThan(40);
  }, 60_000);

  it('finds no difference in calls of entities, whose handlers sleep, fail and follow each other', async () => {
    const account = defineEntity('account', {
      initial: () => ({ sum: 0, lines: [] as string[] }),
      handlers: {
        *add(ctx, by: number) {
          ctx.state.lines.push(`begin ${by}`);
          yield* ctx.sleep('1h');
          ctx.state.lines.push(yield* ctx.call(pack, String(by)));
          if (by < 0) throw new RangeError('only up');
          ctx.state.sum += by;
          return ctx.state.sum;
        },
      },
      reads: { all: (state) => state },
    });
    const saves = defineOrchestration('saves', function* (ctx) {
      const mine = ctx.entity(account, 'a');
      const first = mine.add(1);
      const failed = yield* ctx.allSettled([first, mine.add(-1), mine.add(2)]);
      yield* mine.send.add(3);
      return [failed.map(({ status }) => status), yield* first, yield* mine.add(4), yield* mine.all()];
    });
    const { result } = await crashEverywhere(async (test) => {
      test.register(account, saves, pack);
      const handle = await test.start(saves);
      const saved = handle.result();
      for (let hour = 0; hour < 6; hour += 1) await test.advance('1h');
      return [await saved, await test.client.entity(account, 'a').all()];
    });
    const lines = [1, 2, 3, 4].flatMap((by) => [`begin ${by}`, `a packed ${by}`]);
    const state = { sum: 10, lines };
    expect(result).toEqual([[['fulfilled', 'rejected', 'fulfilled'], 1, 10, state], state]);
  });

  it('finds no difference in updates whose handlers take steps, from a client and from an orchestration', async () => {
    const shelf = defineOrchestration('shelf', function* (ctx) {
      const items: string[] = [];
      ctx.onUpdate(
        'put',
        function* (item: string) {
          const packed = yield* ctx.call(pack, item);
          yield* ctx.sleep('1h');
          if (item === 'bomb') throw new RangeError('it does not fit');
          items.push(packed);
          ctx.state.set('count', items.length);
          return items.length;
        },
        {
          validate: (item) => {
            if (item === '') throw new TypeError('there is nothing to put');
          },
        },
      );
      yield* ctx.waitForEvent('close');
      yield* ctx.finishUpdates();
      return items;
    });
    const puts = defineOrchestration('puts', function* (ctx, items: string[]) {
      const answers: unknown[] = [];
      for (const item of items) {
        const [answer] = yield* ctx.allSettled([ctx.update('shelf', 'put', item)]);
        answers.push(answer?.status === 'fulfilled' ? answer.value : `${answer?.reason}`);
        answers.push(yield* ctx.readState('shelf', 'count'));
      }
      return answers;
    });
    const { result, crashes } = await crashEverywhere(async (test) => {
      test.register(shelf, puts, pack);
      await test.start(shelf, undefined, { id: 'shelf' });
      const own = test.client.update('shelf', 'put', 'cup', { updateId: 'own' });
      await test.advance('2h');
      const handle = await test.start(puts, ['jug', 'bomb', '', 'plate'], { id: 'puts' });
      const answers = handle.result();
      for (let hour = 0; hour < 4; hour += 1) await test.advance('1h');
      const told = [await own, await answers];
      await test.client.raiseEvent('shelf', 'close');
      return [...told, await test.client.handle('shelf').result()];
    });
    const refusals = ['RangeError: it does not fit', 2, 'TypeError: there is nothing to put', 2];
    expect(result).toEqual([1, [2, 2, ...refusals, 3, 3], ['cup', 'jug', 'plate'].map((item) => `a packed ${item}`)]);
    expect(crashes).toBeGreaterThan(30);
  });

  it('finds no difference in tokens that are resolved, rejected and late', async () => {
    const asks = defineOrchestration('asks', function* (ctx) {
      const [one, two] = [ctx.token<string>({ data: 'one' }), ctx.token({ data: 'two' })];
      const late = ctx.token({ data: 'late', timeout: '1d' });
      ctx.setCustomStatus('asked');
      yield* ctx.call(pack, 'question');
      const answers = yield* ctx.allSettled([one, two, late]);
      return answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : `${answer.reason}`));
    });
    const { result, crashes } = await crashEverywhere(async (test) => {
      test.register(asks, pack);
      const handle = await test.start(asks, undefined, { id: 'asks' });
      await test.settled();
      const ids = new Map<unknown, string>();
      for await (const { data, id } of test.client.listTokens({ open: true })) ids.set(data, id);
      await test.client.resolveToken(ids.get('one') ?? '', 'yes');
      await test.client.rejectToken(ids.get('two') ?? '', 'no');
      await test.advance('2d');
      const statuses: Record<string, string> = {};
      for await (const { data, status } of test.client.listTokens()) statuses[String(data)] = status;
      return [await handle.result(), statuses];
    });
    const late = 'TimeoutError: the token was not resolved within 86400000 ms';
    expect(result).toEqual([['yes', 'Error: no', late], { one: 'resolved', two: 'rejected', late: 'expired' }]);
    expect(crashes).toBeGreaterThan(15);
  });

  it('finds no difference in a queue with limits, whose slots are free again after each crash', async () => {
    const works = defineOrchestration('works', function* (ctx, item: string) {
      const packed = yield* ctx.call(pack, item);
      yield* ctx.sleep('1h');
      return packed;
    });
    const { result, crashes } = await crashEverywhere(async (test) => {
      test.register(works, pack);
      await test.client.queues.set('packing', { concurrency: 2, perKey: { concurrency: 1 } });
      const start = (id: string, key: string) => test.start(works, id, { id, queue: 'packing', key });
      const handles = [await start('a1', 'a'), await start('a2', 'a'), await start('b1', 'b'), await start('b2', 'b')];
      await test.settled();
      const { running, waiting } = (await test.client.queues.get('packing')) ?? {};
      await test.advance('1h');
      await test.advance('1h');
      const packed = await Promise.all(handles.map((handle) => handle.result()));
      const later = await start('c1', 'c');
      await test.advance('1h');
      const left = await test.client.queues.get('packing');
      return [running, waiting, packed, await later.result(), left?.running, left?.waiting];
    });
    const packed = ['a1', 'a2', 'b1', 'b2', 'c1'].map((item) => `a packed ${item}`);
    expect(result).toEqual([2, 2, packed.slice(0, 4), packed[4], 0, 0]);
    expect(crashes).toBeGreaterThan(20);
  });
});

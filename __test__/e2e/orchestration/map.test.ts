import { defineActivity, defineOrchestration, MapItemError } from 'perdure';
import { crashEverywhere } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { deferred } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

// `ctx.map`: a step for each item, a limited number of them at a time.

const double = defineActivity('double', (_ctx, n: number) => n * 2);

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('gives the results in the order of the items, with at most `concurrency` under way', async () => {
    let [running, most] = [0, 0];
    const slow = defineActivity('slow', async (_ctx, n: number) => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((done) => setTimeout(done, (7 - (n % 7)) * 3));
      running -= 1;
      return n * n;
    });
    const all = defineOrchestration('squares', function* (ctx, count: number) {
      const items = Array.from({ length: count }, (_, n) => n);
      return yield* ctx.map(items, (n) => ctx.call(slow, n), { concurrency: 3 });
    });
    await store.start((runtime) => runtime.register(slow, all));
    const handle = await store.client.start(all, 20);
    expect(await handle.result()).toEqual(Array.from({ length: 20 }, (_, n) => n * n));
    expect(most).toBe(3);
  });

  it('runs a block for each item, takes items lazily, and gives nothing for nothing', async () => {
    const blocks = defineOrchestration('blocks', function* (ctx) {
      const taken: number[] = [];
      function* numbers(): Generator<number> {
        for (let n = 0; n < 5; n += 1) {
          taken.push(n);
          yield n;
        }
      }
      const block = function* (n: number, index: number) {
        const twice = yield* ctx.call(double, n);
        return { index, four: yield* ctx.call(double, twice), taken: taken.length };
      };
      return [yield* ctx.map(numbers(), block, { concurrency: 1 }), yield* ctx.map([], block)];
    });
    await store.start((runtime) => runtime.register(double, blocks));
    const handle = await store.client.start(blocks);
    expect(await handle.result()).toEqual([[0, 1, 2, 3, 4].map((n) => ({ index: n, four: 4 * n, taken: n + 1 })), []]);
  });

  it('stops at the first failure, names the item, and waits for the steps under way', async () => {
    const [begun, gate] = [deferred(), deferred()];
    const order: string[] = [];
    const step = defineActivity(
      'step',
      async (_ctx, n: number) => {
        order.push(`begin ${n}`);
        if (n === 1) {
          await begun.promise;
          throw new Error('no stock');
        }
        begun.resolve();
        await gate.promise;
        order.push(`end ${n}`);
        return n;
      },
      { retry: { maxAttempts: 1 } },
    );
    const stops = defineOrchestration('stops', function* (ctx) {
      const block = function* (n: number) {
        try {
          const done = yield* ctx.call(step, n);
          order.push(`got ${done}`);
          yield* ctx.sleep('1h');
        } catch (error) {
          order.push(`${n}: ${(error as Error).name}`);
          if (n === 1) ctx.setCustomStatus('failed');
          throw error;
        }
      };
      const options = { concurrency: 2, key: (n: number) => `order-${n}` };
      try {
        yield* ctx.map([0, 1, 2, 3], block, options);
      } catch (error) {
        order.push('map failed');
        const { index, key, message, cause } = error as MapItemError;
        return { is: error instanceof MapItemError, index, key, message, cause: (cause as Error).name };
      }
    });
    await store.start((runtime) => runtime.register(step, stops));
    const handle = await store.client.start(stops);
    await store.client.waitForStatusChange(handle.id, 0, undefined, SOON);
    gate.resolve();
    expect(await handle.result()).toEqual({
      is: true,
      index: 1,
      key: 'order-1',
      message: "item 1, 'order-1' failed: activity 'step' failed at its first attempt: no stock",
      cause: 'ActivityError',
    });
    expect(order).toEqual([
      'begin 0',
      'begin 1',
      '1: ActivityError',
      'end 0',
      'got 0',
      '0: CancelledError',
      'map failed',
    ]);
  });

  it('does all items and gives the outcome of each with stopOnError: false', async () => {
    const odd = defineActivity(
      'odd',
      (_ctx, n: number) => {
        if (n % 2 === 0) throw new Error(`${n} is even`);
        return n;
      },
      { retry: { maxAttempts: 1 } },
    );
    const settles = defineOrchestration('settles', function* (ctx) {
      const outcomes = yield* ctx.map([1, 2, 3], (n) => ctx.call(odd, n), { stopOnError: false, concurrency: 2 });
      return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.message));
    });
    await store.start((runtime) => runtime.register(odd, settles));
    const handle = await store.client.start(settles);
    expect(await handle.result()).toEqual([
      1,
      "item 1 failed: activity 'odd' failed at its first attempt: 2 is even",
      3,
    ]);
  });

  it('fails with an error that survives the store', async () => {
    const fails = defineOrchestration('fails', function* (ctx) {
      yield* ctx.map(['x'], () => ctx.run('throws', () => Promise.reject(new Error('no'))), {
        key: (name) => name,
      });
    });
    await store.start((runtime) => runtime.register(fails));
    const handle = await store.client.start(fails, undefined);
    const error = await handle.result().catch((caught) => caught);
    expect(error).toBeInstanceOf(MapItemError);
    expect({ ...error }).toMatchObject({ code: 'MAP_ITEM', index: 0, key: 'x' });
    expect(error.cause.cause.message).toBe('no');
  });

  it('is cancelled with its items, which clean up', async () => {
    const cancels = defineOrchestration('cancels', function* (ctx) {
      const cleaned: number[] = [];
      const block = function* (n: number) {
        try {
          yield* ctx.waitForEvent('never');
        } finally {
          cleaned.push(yield* ctx.call(double, n));
        }
      };
      try {
        yield* ctx.withTimeout('10ms', ctx.map([1, 2, 3], block, { concurrency: 2 }));
      } catch (error) {
        return [(error as Error).name, cleaned];
      }
    });
    await store.start((runtime) => runtime.register(double, cancels));
    const handle = await store.client.start(cancels);
    expect(await handle.result()).toEqual(['TimeoutError', [2, 4]]);
  });
});

it('gives the same with a crash at each place', async () => {
  const sums = defineOrchestration('sums', function* (ctx) {
    const doubled = yield* ctx.map([1, 2, 3, 4], (n) => ctx.call(double, n), { concurrency: 2 });
    return doubled.reduce((sum, n) => sum + n, 0);
  });
  const { result } = await crashEverywhere(async (test) => {
    test.register(double, sums);
    return (await test.start(sums)).result();
  });
  expect(result).toBe(20);
});

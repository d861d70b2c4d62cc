// Orders and the starts of their instances are written in one transaction by processes that roll back and die. In the
// end there is an instance for each committed order, and none for any other. Half of the instances go through a queue.

import { join } from 'node:path';
import { defineOrchestration } from 'perdure';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { expectAllOver } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { change, query } from '../support/rows.ts';
import { useStore } from '../support/store.ts';

vi.setConfig({ testTimeout: 240_000 });

type Said = { readonly type: 'at'; readonly number: number } | { readonly type: 'done' };

/** Orders in all, and processes that share them. */
const [ORDERS, SHOPS] = [10_000, 3];

const order = defineOrchestration('order', function* (ctx, number: number) {
  return number + (yield* ctx.waitForEvent<number>('more'));
});

afterEach(async () => {
  await Promise.all([...Process.running].map((shop) => shop.kill()));
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Runs a shop until it is done with its orders. Returns the number of its deaths. */
  async function shop(from: number, to: number): Promise<number> {
    let next = from;
    for (let deaths = 0; ; deaths += 1) {
      const options = { address: store.address, from: next, to, seed: next };
      const program = join(root, '__test__/crash/outbox.mjs');
      const child = new Process<Said, object>(`shop ${from}`, [process.execPath, program, JSON.stringify(options)]);
      const { code, signal } = await child.exited();
      if (child.all('done').length > 0) return deaths;
      expect({ code, signal, stderr: child.stderr }).toEqual({ code: null, signal: 'SIGKILL', stderr: '' });
      next = child.all('at').at(-1)?.number ?? next;
    }
  }

  it('each committed order has its instance, and no other order has one', async () => {
    change(store.address, 'CREATE TABLE orders (number integer PRIMARY KEY)');
    await store.client.queues.set('orders', { concurrency: 200, fairness: 'key' });
    const part = Math.ceil(ORDERS / SHOPS);
    const parts = Array.from({ length: SHOPS }, (_, n) => [n * part, Math.min(ORDERS, (n + 1) * part)] as const);
    const deaths = await Promise.all(parts.map(([from, to]) => shop(from, to)));
    for (const count of deaths) expect(count).toBeGreaterThan(0);
    const orders = query(store.address, 'SELECT number FROM orders ORDER BY number').map(({ number }) => number);
    expect(orders.length).toBeGreaterThan(ORDERS / 2);
    // The instances of dead shops are finished here.
    const runtime = await store.start((started) => started.register(order));
    // A shop that dies while an instance is on probation alone looks like the death of a poison pill.
    for await (const { id } of store.client.listInstances({ status: 'Suspended' })) await store.client.resume(id);
    for await (const { id } of store.client.listInstances({ status: ['Pending', 'Running'] }))
      await store.client.waitForOrchestration(id, '60s');
    await runtime.shutdown();
    const instances = query(store.address, 'SELECT id, status FROM instances');
    expect(instances.map(({ id }) => id).sort()).toEqual(orders.map((number) => `order-${number}`).sort());
    expect(instances.filter(({ status }) => status !== 'Completed')).toEqual([]);
    expect((await store.client.checkStore()).findings).toEqual([]);
    expectAllOver(store.address);
  });
});

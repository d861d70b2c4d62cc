// Orders and the starts of their instances are written in one transaction by processes that roll back and die. In the
// end there is an instance for each committed order, and none for any other. Half of the instances go through a queue.

import { defineOrchestration } from 'perdure';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { expectAllOver } from '../support/invariants.ts';
import { Process } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { change, query } from '../support/rows.ts';
import { useStore } from '../support/store.ts';
import { runShare } from './shares.ts';

vi.setConfig({ testTimeout: 240_000 });

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

  it('each committed order has its instance, and no other order has one', async () => {
    change(store.address, 'CREATE TABLE orders (number integer PRIMARY KEY)');
    await store.client.queues.set('orders', { concurrency: 200, fairness: 'key' });
    const part = Math.ceil(ORDERS / SHOPS);
    const parts = Array.from({ length: SHOPS }, (_, n) => [n * part, Math.min(ORDERS, (n + 1) * part)] as const);
    const shops = await Promise.all(
      parts.map(([from, to]) => runShare('outbox.mjs', { address: store.address, from, to })),
    );
    for (const { length } of shops) expect(length).toBeGreaterThan(1);
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

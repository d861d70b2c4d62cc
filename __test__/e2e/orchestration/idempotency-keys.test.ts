// Idempotency keys: each call of an activity has its own, for ever. Once three charges of three starts of one id had
// the same key, so a payment service that knows such keys took one payment for three orders.

import { describe, expect, it } from 'vitest';

import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('an idempotency key on $name', (kind) => {
  const store = useStore(kind);

  /** Collects the keys of the attempts, in order. */
  const charging = async () => {
    const keys: string[] = [];
    await store.start((runtime) =>
      runtime
        .registerActivity('charge', ({ idempotencyKey }) => void keys.push(idempotencyKey))
        .registerOrchestration('order', function* (ctx) {
          yield ctx.scheduleActivity('charge');
        }),
    );
    return keys;
  };

  it('is another one after each start of the same id', async () => {
    const keys = await charging();
    const id = store.id();
    const run = async () => {
      await store.client.startOrchestration(id, 'order', null, { onConflict: 'restartIfTerminal' });
      await store.client.waitForOrchestration(id, SOON);
    };
    await run();
    await run();
    await store.client.deleteInstance(id);
    await run();
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(3);
  });

  it('is another one when a child or a detached instance is started again under its id', async () => {
    const keys = await charging();
    const [child, detached] = [store.id('child'), store.id('detached')];
    await store.start((runtime) =>
      runtime.registerOrchestration('family', function* (ctx) {
        yield ctx.scheduleSubOrchestration('order', null, { id: child });
        yield ctx.startOrchestration('order', detached);
      }),
    );
    for (const _ of [1, 2]) {
      const id = store.id();
      await store.client.startOrchestration(id, 'family');
      await store.client.waitForOrchestration(id, SOON);
      for (const started of [child, detached]) {
        await store.client.waitForOrchestration(started, SOON);
        await store.client.deleteInstance(started);
      }
    }
    expect(keys).toHaveLength(4);
    expect(new Set(keys).size).toBe(4);
  });

  it.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])(
    'is the same in each attempt, wherever that runs, of instances that are %s, and names its execution',
    async (_, options) => {
      const keys: string[] = [];
      await store.start(
        (runtime) =>
          runtime.registerOrchestration('counts', function* (ctx, n: number) {
            yield ctx.scheduleActivity('elsewhere', n, { queue: 'gpu', retry: { initialInterval: 1 } });
            yield* ctx.run(
              'here',
              ({ idempotencyKey, attempt }) => {
                keys.push(idempotencyKey);
                if (attempt === 1) throw new Error('once more');
              },
              { retry: { initialInterval: 1 } },
            );
            return n > 1 ? n : yield ctx.continueAsNew(n + 1);
          }),
        options,
      );
      await store.start(
        (runtime) =>
          runtime.registerActivity('elsewhere', ({ idempotencyKey, attempt }) => {
            keys.push(idempotencyKey);
            if (attempt === 1) throw new Error('once more');
          }),
        { queues: ['gpu'] },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'counts', 1);
      await store.client.waitForOrchestration(id, SOON);
      const { events } = await store.client.exportHistory(id);
      const incarnation = events[0]?.meta?.incarnation;
      expect(incarnation).toMatch(/^[0-9a-f]{16}$/);
      const calls = ['1/2', '1/5', '2/2', '2/5'].flatMap((call) => [call, call]);
      expect(keys).toEqual(calls.map((call) => `${id}/${incarnation}/${call}`));
    },
  );
});

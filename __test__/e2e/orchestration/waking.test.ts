// Messages to instances that sleep in the store.

import type { OrchestrationContext, Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Returns the data of the events `next`, until one is `null`. */
function* collects(ctx: OrchestrationContext): Generator<any, any, any> {
  const all: number[] = [];
  for (;;) {
    const next = yield* ctx.waitForEvent<number | null>('next');
    if (next === null) return all;
    all.push(next);
  }
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Starts an instance, which sleeps when its start is acknowledged. */
  async function asleep(): Promise<{ id: string; runtime: Runtime }> {
    const runtime = await store.start((runtime) => runtime.registerOrchestration('collects', collects));
    const id = store.id();
    await store.client.startOrchestration(id, 'collects');
    return { id, runtime };
  }

  it('a message, the acquisition and the turn are one commit', async () => {
    const { id, runtime } = await asleep();
    const before = runtime.metrics().commitBatches;
    for (let event = 0; event < 20; event += 1) await store.client.raiseEvent(id, 'next', event);
    expect(runtime.metrics().commitBatches - before).toBe(20);
    await store.client.raiseEvent(id, 'next', null);
    const { output } = await store.client.waitForOrchestration(id, { timeout: SOON });
    expect(output).toEqual(Array.from({ length: 20 }, (_, event) => event));
  });

  it('messages that are sent at once come in order', async () => {
    const { id } = await asleep();
    const sent = Array.from({ length: 200 }, (_, event) => store.client.raiseEvent(id, 'next', event));
    await Promise.all([...sent, store.client.raiseEvent(id, 'next', null)]);
    const { output } = await store.client.waitForOrchestration(id, { timeout: SOON });
    expect(output).toEqual(Array.from({ length: 200 }, (_, event) => event));
  });

  it('an acknowledged message has had its turn', async () => {
    const { id } = await asleep();
    await store.client.raiseEvent(id, 'next', 7);
    const received = (await store.client.getHistory(id)).filter(({ kind }) => kind === 'EventReceived');
    expect(received).toMatchObject([{ payload: 7 }]);
  });
});

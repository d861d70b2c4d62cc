// The markers of streams: what a later run of an activity replaces, also if entries were deleted before.

import { defineActivity, defineOrchestration, type OrchestrationDefinition } from 'perdure';
import { describe, expect, it } from 'vitest';

import { type Deferred, deferred } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';
import { all, type Item, told } from '../../support/stream-items.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  let gates: Record<string, Deferred<void>> = {};

  /** Writes entries one by one. The first attempt fails after them. The second one waits, and keeps few. */
  const writes = defineActivity(
    'writes',
    async (ctx, { who, max, count }: { who: string; max: number; count: number }) => {
      const { attempt } = ctx;
      if (attempt === 2) await gates[who]?.promise;
      const entries = ctx.stream('s', { maxEntries: attempt === 1 ? 100 : max });
      for (let n = 0; n < count; n += 1) {
        entries.write(`${who}${attempt}.${n}`);
        await entries.flush();
      }
      if (attempt === 1) throw new Error('again');
    },
    { retry: { initialInterval: 1, jitter: 0, maxAttempts: 2 } },
  );

  it('a marker names entries that were deleted, and comes although the first entries of its run were', async () => {
    const alone = defineOrchestration('alone', function* (ctx) {
      yield* ctx.call(writes, { who: 'a', max: 2, count: 4 });
    });
    gates = { a: deferred() };
    await store.start((runtime) => runtime.register(writes, alone));
    const { id, result } = await startOf(alone);
    const reader = store.client.readStream<string>(id, 's');
    let last: Item | undefined;
    while (last?.index !== 3) last = (await reader.next()).value as Item;
    gates.a?.resolve();
    await result;
    const left = ['6 reset 0', '6 "a2.2"', '7 "a2.3"'];
    expect(told(await all(reader))).toEqual(left);
    expect(told(await all(store.client.readStream<string>(id, 's')))).toEqual(left);
    // Readers from the beginning of the run on get the marker, and later ones need none.
    expect(told(await all(store.client.readStream<string>(id, 's', { from: 4 })))).toEqual(left);
    expect(told(await all(store.client.readStream<string>(id, 's', { from: 5 })))).toEqual(left.slice(1));
  });

  it('each run has one marker, if first entries of several runs were deleted', async () => {
    const both = defineOrchestration('both', function* (ctx) {
      yield* ctx.all(['a', 'b'].map((who) => ctx.call(writes, { who, max: 3, count: 2 })));
    });
    gates = { a: deferred(), b: deferred() };
    await store.start((runtime) => runtime.register(writes, both));
    const { id, result } = await startOf(both);
    const reader = store.client.readStream<string>(id, 's');
    const firsts = new Map<string, number>();
    for (let item: Item | undefined; item?.index !== 3; ) {
      item = (await reader.next()).value as Item;
      if (!item.reset && item.value.endsWith('.0')) firsts.set(item.value, item.index);
    }
    gates.a?.resolve();
    const live = store.client.readStream<string>(id, 's', { from: 4 });
    while ((await live.next()).value?.index !== 5);
    gates.b?.resolve();
    await result;
    const [a, b] = ['a1.0', 'b1.0'].map((entry) => firsts.get(entry));
    expect(told(await all(reader))).toEqual([`5 reset ${a}`, '5 "a2.1"', `6 reset ${b}`, '6 "b2.0"', '7 "b2.1"']);
  });

  async function startOf(definition: OrchestrationDefinition<any>): Promise<{ id: string; result: Promise<unknown> }> {
    const { id } = await store.client.start(definition, undefined);
    return { id, result: store.client.waitForOrchestration(id, SOON) };
  }
});

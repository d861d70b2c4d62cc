// Starts that are to run later: delay and startAt, on each store.

import { Client, defineOrchestration } from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const DELAY_MS = 300;

/** Returns the time at which it begins. */
const clock = defineOrchestration('clock', function* (ctx) {
  return yield* ctx.run('now', () => Date.now());
});

const waiter = defineOrchestration('waiter', function* (ctx) {
  return yield* ctx.waitForEvent('go');
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('run after the delay, or at the time', async () => {
    await store.start((runtime) => runtime.register(clock));
    const from = Date.now();
    const at = new Date(from + DELAY_MS);
    const delayed = await store.client.start(clock, undefined, { delay: DELAY_MS });
    const timed = await store.client.start(clock, undefined, { startAt: at });
    const many = await store.client.startMany([{ definition: clock, startAt: at.toISOString() }]);
    expect((await delayed.status())?.status).toBe('Pending');
    // The clock of a Postgres server may differ by some ms.
    for (const id of [delayed.id, timed.id, many[0]?.id as string])
      expect(await store.client.handle(clock, id).result({ timeout: SOON })).toBeGreaterThanOrEqual(
        from + DELAY_MS - 20,
      );
  });

  it('run at once if the time is past, or the delay is none', async () => {
    await store.start((runtime) => runtime.register(clock));
    for (const options of [{ startAt: new Date(0) }, { startAt: '1960-01-01' }, { delay: 0 }])
      await (await store.client.start(clock, undefined, options)).result({ timeout: SOON });
  });

  it('keep their time over a suspension', async () => {
    await store.start((runtime) => runtime.register(clock));
    const from = Date.now();
    const { id } = await store.client.start(clock, undefined, { delay: 4 * DELAY_MS });
    await store.client.suspend(id, 'a question');
    await store.client.resume(id);
    expect((await store.client.getStatus(id))?.status).toBe('Pending');
    expect(await store.client.handle(clock, id).result({ timeout: SOON })).toBeGreaterThanOrEqual(
      from + 4 * DELAY_MS - 20,
    );
  });

  it('run later from inside an orchestration, too', async () => {
    const parent = defineOrchestration('parent', function* (ctx): Generator<any, number[], any> {
      const from = Date.now();
      const child = ctx.callOrchestration(clock, undefined, { delay: DELAY_MS });
      const timed = ctx.callOrchestration(clock, undefined, { startAt: new Date(from + DELAY_MS) });
      const times: number[] = yield* ctx.all([child, timed]);
      return times.map((time) => time - from);
    });
    await store.start((runtime) => runtime.register(clock, parent), { cachedInstancesMax: 0 });
    const handle = await store.client.start(parent);
    for (const after of await handle.result({ timeout: SOON })) expect(after).toBeGreaterThanOrEqual(DELAY_MS - 20);
    const scheduled = (await store.client.getHistory(handle.id)).filter(({ kind }) => kind === 'ChildScheduled');
    expect(scheduled.map(({ meta }) => meta)).toMatchObject([
      { admission: { delayMs: DELAY_MS } },
      { admission: { startAtMs: expect.any(Number) } },
    ]);
  });

  it('are not run earlier by a message, nor by another start of a runtime', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const handle = await store.client.start(waiter, undefined, { delay: '1d' });
    await handle.raiseEvent('go', 'there');
    await store.settled();
    expect((await handle.status())?.status).toBe('Pending');
    await handle.cancel('not needed');
    expect(await store.client.waitForOrchestration(handle.id, SOON)).toMatchObject({ status: 'Cancelled' });
  });

  it('come into line in their queue when they are due', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const name = store.id('queue');
    await store.client.queues.set(name, { concurrency: 1 });
    const first = await store.client.start(waiter, undefined, { queue: name });
    await eventually(20_000, 'it runs', async () => (await store.client.queues.get(name))?.running === 1);
    const delayed = await store.client.start(waiter, undefined, { queue: name, delay: DELAY_MS });
    const read = async () => await store.client.queues.get(name);
    expect(await read()).toMatchObject({ delayed: 1, waiting: 0 });
    await eventually(20_000, 'it is in line', async () => (await read())?.waiting === 1);
    expect(await read()).toMatchObject({ delayed: 0, running: 1 });
    for (const handle of [first, delayed]) await handle.raiseEvent('go', 'there');
    for (const handle of [first, delayed]) expect(await handle.result({ timeout: SOON })).toBe('there');
  });

  it.skipIf(!kind.isShared)('run after the process that started them is gone', async () => {
    const provider = await store.open();
    const handle = await new Client(provider).start(clock, undefined, { delay: DELAY_MS });
    await provider.close();
    await store.start((runtime) => runtime.register(clock));
    expect(await store.client.handle(clock, handle.id).result({ timeout: SOON })).toBeGreaterThan(0);
  });
});

// The limit of the instances that a runtime works on at the same time: `orchestrationConcurrency`.

import { Client, Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { Counter, deferred } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Notes how many activities of different instances run at the same time. */
class Gauge {
  most = 0;
  #running = 0;

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#running += 1;
    this.most = Math.max(this.most, this.#running);
    try {
      return await work();
    } finally {
      this.#running -= 1;
    }
  }
}

const round = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('a parent, its child and its grandchild end with a limit of 1', async () => {
    const name = store.id('family');
    await store.start(
      (runtime) =>
        runtime
          .registerActivity(name, async (_, level: number) => level)
          .registerOrchestration(name, function* (ctx, level: number) {
            const own: number = yield ctx.scheduleActivity(name, level);
            if (level === 0) return [own];
            const below: number[] = yield ctx.scheduleSubOrchestration(name, level - 1);
            return [...below, own];
          }),
      { orchestrationConcurrency: 1 },
    );
    const id = store.id();
    await store.client.startOrchestration(id, name, 2);
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([0, 1, 2]);
  });

  it('no more instances than the limit run an activity at the same time, and all end', async () => {
    const name = store.id('limited');
    const gauge = new Gauge();
    const calls = new Counter();
    // The first activity waits for a second one, which another instance runs at the same time.
    const work = async (): Promise<void> => {
      calls.add();
      await (calls.count === 1 ? calls.reaches(2) : round());
    };
    await store.start(
      (runtime) =>
        runtime
          .registerActivity(name, () => gauge.during(work))
          .registerOrchestration(name, function* (ctx) {
            yield ctx.scheduleTimer(5);
            yield ctx.scheduleActivity(name);
            yield ctx.scheduleTimer(5);
            yield ctx.scheduleActivity(name);
            return 'done';
          }),
      { orchestrationConcurrency: 2 },
    );
    const ids = Array.from({ length: 50 }, () => store.id());
    await Promise.all(ids.map((id) => store.client.startOrchestration(id, name)));
    const ends = await Promise.all(ids.map((id) => store.client.waitForOrchestration(id, SOON)));
    expect(ends.map(({ output }) => output)).toEqual(ids.map(() => 'done'));
    expect(gauge.most).toBe(2);
  });

  it('an instance that waits for an event makes place for the one that raises it', async () => {
    const [waits, raises] = [store.id('waits'), store.id('raises')];
    const id = store.id();
    await store.start(
      (runtime) =>
        runtime
          .registerActivity(raises, async ({ client }) => client.raiseEvent(id, 'go', 'now'))
          .registerOrchestration(waits, function* (ctx) {
            return yield ctx.waitForEvent('go');
          })
          .registerOrchestration(raises, function* (ctx) {
            yield ctx.scheduleActivity(raises);
          }),
      { orchestrationConcurrency: 1 },
    );
    await store.client.startOrchestration(id, waits);
    await store.client.startOrchestration(store.id(), raises);
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('now');
  });

  it('children and detached instances of a turn respect the limit', async () => {
    const name = store.id('starts');
    const gauge = new Gauge();
    const detached = Array.from({ length: 5 }, () => store.id('detached'));
    await store.start(
      (runtime) =>
        runtime
          .registerActivity(name, () => gauge.during(round))
          .registerOrchestration(name, function* (ctx) {
            yield ctx.scheduleActivity(name);
          })
          .registerOrchestration(`${name}-parent`, function* (ctx) {
            for (const id of detached) yield ctx.startOrchestration(name, id);
            yield ctx.all(detached.map(() => ctx.scheduleSubOrchestration(name)));
          }),
      { orchestrationConcurrency: 2 },
    );
    const id = store.id();
    await store.client.startOrchestration(id, `${name}-parent`);
    for (const each of [id, ...detached])
      expect((await store.client.waitForOrchestration(each, SOON)).status).toBe('Completed');
    expect(gauge.most).toBeLessThanOrEqual(2);
  });

  it('an instance beyond the limit waits in the store until one ends', async () => {
    const name = store.id('queued');
    const calls = new Counter();
    const gate = deferred();
    await store.start(
      (runtime) =>
        runtime
          .registerActivity(name, async () => {
            calls.add();
            await gate.promise;
          })
          .registerOrchestration(name, function* (ctx) {
            yield ctx.scheduleActivity(name);
          }),
      { orchestrationConcurrency: 1 },
    );
    const [first, second] = [store.id(), store.id()];
    await store.client.startOrchestration(first, name);
    await calls.reaches(1);
    await store.client.startOrchestration(second, name);
    await store.settled();
    expect(await store.client.getStatus(second)).toMatchObject({ status: 'Pending' });
    expect((await store.client.workers())[0]?.instances).toBe(1);
    gate.resolve();
    expect((await store.client.waitForOrchestration(second, SOON)).status).toBe('Completed');
    expect(calls.count).toBe(2);
  });

  it('rejects a limit that is no whole number from 1 on', () => {
    for (const orchestrationConcurrency of [0, 1.5, -1, Number.NaN, 1_000_001, '2' as any])
      expect(() => new Runtime(store.provider, { orchestrationConcurrency })).toThrow(
        /^new Runtime: orchestrationConcurrency must be a whole number from 1 to 1000000, got/,
      );
  });
});

describe.each(SHARED_STORES)('on $name, with two runtimes', (kind) => {
  const store = useStore(kind);

  it('both work on what waits, each up to its limit', async () => {
    const name = store.id('shared');
    const started = [new Counter(), new Counter()];
    const gate = deferred();
    for (const counter of started) {
      await store.start(
        (runtime) =>
          runtime
            .registerActivity(name, async () => {
              counter.add();
              await gate.promise;
            })
            .registerOrchestration(name, function* (ctx) {
              yield ctx.scheduleActivity(name);
            }),
        { orchestrationConcurrency: 1 },
        await store.open(),
      );
    }
    const client = new Client(await store.open());
    const ids = Array.from({ length: 6 }, () => store.id());
    for (const id of ids) await client.startOrchestration(id, name);
    await Promise.all(started.map((counter) => counter.reaches(1)));
    expect((await client.stats()).instances).toMatchObject({ Running: 2, Pending: 4 });
    expect((await client.workers()).map(({ instances }) => instances)).toEqual([1, 1]);
    gate.resolve();
    for (const id of ids) expect((await client.waitForOrchestration(id, SOON)).status).toBe('Completed');
    expect(started.reduce((sum, { count }) => sum + count, 0)).toBe(6);
  });
});

// Pruning of ended instances, and the statistics of the store.

import { InstanceNotFoundError, type PruneOptions, RuntimeStateError, type StoreStats } from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred, rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Returns instances that ended, the longest ended first. */
  async function ended(count: number, name = store.id('ended'), tags: Record<string, string> = {}): Promise<string[]> {
    const ids = Array.from({ length: count }, (_, n) => `${name}/${n}`);
    const runtime = await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (_, n) {
        return n;
      }),
    );
    for (const id of ids) {
      await store.client.startOrchestration(id, name, id, { tags });
      await store.client.waitForOrchestration(id, SOON);
    }
    await runtime.shutdown();
    return ids;
  }

  describe('a deletion', () => {
    it('takes an instance with all that is known of it, and its id is free', async () => {
      const [id] = (await ended(1)) as [string];
      const { client } = store;
      await client.deleteInstance(id);
      expect(await client.getStatus(id)).toBeNull();
      const attempts = [
        client.getHistory(id),
        client.deleteInstance(id),
        client.raiseEvent(id, 'e'),
        client.waitForOrchestration(id),
      ];
      for (const error of await Promise.all(attempts.map(rejection)))
        expect(error).toBeInstanceOf(InstanceNotFoundError);
      await client.startOrchestration(id, 'nobody registers this', 'anew');
      expect((await client.getHistory(id)).map(({ payload }) => payload)).toEqual(['anew']);
    });

    it('keeps instances that have not ended', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'nobody registers this');
      const error = await rejection(store.client.deleteInstance(id));
      expect(error).toBeInstanceOf(RuntimeStateError);
      expect(error).toMatchObject({
        instanceId: id,
        status: 'Pending',
        message: expect.stringContaining('Cancel or terminate it first'),
      });
      await store.client.suspend(id);
      expect(await rejection(store.client.deleteInstance(id))).toMatchObject({ status: 'Suspended' });
      expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
    });

    it('removes a long history completely while the store is busy', async () => {
      const [id, name] = [store.id(), store.id('long')];
      await store.start((runtime) =>
        runtime.registerOrchestration(name, function* (ctx) {
          yield ctx.all(Array.from({ length: 3_000 }, () => ctx.scheduleTimer(0)));
        }),
      );
      await store.client.startOrchestration(id, name);
      await store.client.waitForOrchestration(id, SOON);
      await Promise.all([
        store.client.deleteInstance(id),
        ...Array.from({ length: 50 }, () => store.client.startOrchestration(store.id(), 'nobody registers this')),
      ]);
      expect(await store.client.getStatus(id)).toBeNull();
    });

    it('of a parent leaves its child running', async () => {
      const name = store.id('family');
      const parent = store.id();
      const gate = deferred<string>();
      await store.start((runtime) =>
        runtime
          .registerActivity(name, () => gate.promise)
          .registerOrchestration(`${name}/child`, function* (ctx) {
            try {
              return yield ctx.scheduleActivity(name);
            } catch {
              return yield* ctx.uncancellable(function* () {
                return yield ctx.waitForEvent('go');
              });
            }
          })
          .registerOrchestration(name, function* (ctx) {
            ctx.scheduleSubOrchestration(`${name}/child`, null, { id: `${ctx.instanceId}/child` });
            yield ctx.waitForEvent('never');
          }),
      );
      await store.client.startOrchestration(parent, name);
      await store.client.terminateInstance(parent);
      await store.client.deleteInstance(parent);
      await store.client.raiseEvent(`${parent}/child`, 'go', 'an orphan');
      const child = await store.client.waitForOrchestration(`${parent}/child`, SOON);
      expect(child).toMatchObject({ output: 'an orphan', parentId: parent });
      gate.resolve('too late');
    });
  });

  describe('prune', () => {
    it('deletes only ended instances that match', async () => {
      const { client } = store;
      const [a, b] = [await ended(3, undefined, { keep: 'no' }), await ended(2, undefined, { keep: 'yes' })];
      const open = store.id();
      await client.startOrchestration(open, 'nobody registers this', null, { tags: { keep: 'no' } });
      const third = (await client.getStatus(a[2] as string))?.completedAt as Date;
      const left = async (ids: string[]) =>
        (await Promise.all(ids.map((id) => client.getStatus(id)))).filter((status) => status !== null).length;

      expect(await client.prune({ tags: { keep: 'no' }, status: ['Failed', 'Cancelled'] })).toEqual({ deleted: 0 });
      expect(await client.prune({ tags: { keep: 'no' }, limit: 1 })).toEqual({ deleted: 1 });
      expect(await client.getStatus(a[0] as string), 'the longest ended goes first').toBeNull();
      const { deleted } = await client.prune({ tags: { keep: 'no' }, completedBefore: third });
      expect(await left(a)).toBe(2 - deleted);
      expect(await client.getStatus(a[2] as string)).not.toBeNull();
      await client.prune({ tags: { keep: 'no' }, status: 'Completed' });
      expect([await left(a), await left(b), await left([open])]).toEqual([0, 2, 1]);
      expect(await client.prune({ completedBefore: '2000-01-01' })).toEqual({ deleted: 0 });
    });

    it('goes through any number of them', async () => {
      const name = store.id('many');
      await store.start((runtime) => runtime.registerOrchestration(name, function* () {}));
      const ids = Array.from({ length: 500 }, (_, n) => `${name}/${n}`);
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, name)));
      await Promise.all(ids.map((id) => store.client.waitForOrchestration(id, SOON)));
      expect(await store.client.prune({ name })).toEqual({ deleted: 500 });
      expect((await store.client.listInstances({ name }).page()).items).toEqual([]);
    });

    it('deletes the instances with some ids', async () => {
      const [first, second, third] = (await ended(3)) as [string, string, string];
      const { client } = store;
      const listed = await client.listInstances({ ids: [first, third, 'absent'] }).page();
      expect(listed.items.map(({ id }) => id)).toEqual([third, first]);
      expect(await client.prune({ ids: [first, third, 'absent'], completedBefore: new Date(0) })).toEqual({
        deleted: 0,
      });
      expect(await client.prune({ ids: [first, third, 'absent'] })).toEqual({ deleted: 2 });
      expect(await client.getStatus(second)).not.toBeNull();
    });

    it('refuses options that are wrong', async () => {
      const wrong: [any, RegExp][] = [
        [undefined, /say what is to be deleted/],
        [{ status: 'Running' }, /status must be one of 'Completed'/],
        [{ completdBefore: new Date() }, /`completedBefore`/],
        [{ completedBefore: '30d' }, /completedBefore must be a time/],
        [{ limit: 0 }, /limit/],
        [{ ids: [] }, /ids must name at least one instance/],
        [{ ids: ['a', ''] }, /ids\[1\]/],
        [{ ids: Array.from({ length: 1_001 }, (_, n) => `${n}`) }, /ids must have at most 1000 ids, got 1001/],
      ];
      for (const [options, message] of wrong) {
        const error = await rejection(store.client.prune(options as PruneOptions));
        expect(error).toBeInstanceOf(TypeError);
        expect(error.message).toMatch(message);
      }
    });
  });
});

describe.each(STORES)('former executions, on $name', (kind) => {
  const store = useStore(kind);

  it('are deleted except the last ones, and the instance continues', async () => {
    const [id, name] = [store.id(), store.id('rounds')];
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx, round: number) {
        ctx.setCustomStatus(round);
        yield ctx.waitForEvent('next');
        return round === 5 ? 'done' : yield ctx.continueAsNew(round + 1);
      }),
    );
    const { client } = store;
    await client.startOrchestration(id, name, 1);
    for (let round = 2; round <= 4; round += 1) {
      await client.raiseEvent(id, 'next');
      await client.waitForStatusChange(id, round - 1, undefined, SOON);
    }
    expect(await client.pruneExecutions({ name: 'other', keep: 1 })).toEqual({ deleted: 0 });
    expect(await client.pruneExecutions({ name, status: 'Running', keep: 2 })).toEqual({ deleted: 2 });
    const error = await rejection(client.getHistory(id, 2));
    expect(error).toBeInstanceOf(InstanceNotFoundError);
    expect(error.message).toContain('was pruned');
    expect((await client.getHistory(id, 3)).at(-1)?.kind).toBe('ExecutionContinuedAsNew');
    for (let round = 4; round <= 5; round += 1) await client.raiseEvent(id, 'next');
    expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ output: 'done', executionId: 5 });
    expect(await client.pruneExecutions({ keep: 1 })).toEqual({ deleted: 2 });
    expect((await client.getHistory(id)).at(-1)?.kind).toBe('ExecutionCompleted');
  });

  it('are not deleted with options that are wrong', async () => {
    for (const options of [
      undefined,
      {},
      { keep: 0 },
      { keep: 1, nmae: 'x' },
      { keep: 1, completedBefore: 'yesterday' },
      { keep: 1, ids: 'one' },
    ]) {
      expect(await rejection(store.client.pruneExecutions(options as any))).toBeInstanceOf(TypeError);
    }
  });
});

describe.each(STORES)('counts, on $name', (kind) => {
  const store = useStore(kind);

  it('are of all that the store holds', async () => {
    const { client } = store;
    const none = { Pending: 0, Running: 0, Completed: 0, Failed: 0, Cancelled: 0, Terminated: 0, Suspended: 0 };
    const empty: StoreStats = {
      instances: none,
      messages: 0,
      tasks: { waiting: 0, running: 0, queues: [] },
      workers: 0,
      due: { instances: 0, overdue: 0, oldestMs: 0 },
    };
    expect(await client.stats()).toEqual(empty);
    const runtime = await store.start((runtime) =>
      runtime
        .registerOrchestration('ends', function* () {})
        .registerOrchestration('fails', function* () {
          throw new Error('no');
        })
        .registerOrchestration('waits', function* (ctx) {
          yield ctx.waitForEvent('never');
        })
        .registerOrchestration('offers', function* (ctx) {
          yield ctx.scheduleActivity('elsewhere', null, { queue: 'nobody serves this' });
        }),
    );
    for (const [n, name] of ['ends', 'ends', 'fails', 'waits', 'offers', 'nobody registers this'].entries()) {
      await client.startOrchestration(`${n}`, name);
      if (n < 3) await client.waitForOrchestration(`${n}`, SOON);
    }
    await client.startOrchestration('held', 'nobody registers this');
    await client.suspend('held');
    await client.raiseEvent('held', 'e');
    await client.startOrchestration('terminated', 'nobody registers this');
    await client.terminateInstance('terminated');
    const stats = await client.stats();
    expect(stats).toMatchObject({
      instances: { ...none, Pending: 1, Running: 2, Completed: 2, Failed: 1, Terminated: 1, Suspended: 1 },
      messages: 1,
      tasks: { waiting: 1, running: 0, queues: [{ name: 'nobody serves this', waiting: 1, running: 0 }] },
      workers: 1,
      due: { instances: 1, overdue: 0 },
    });
    expect(stats.due.oldestMs).toBeGreaterThanOrEqual(0);
    await runtime.shutdown();
    expect(await client.stats()).toMatchObject({ workers: 0 });
    await client.terminateInstance('4');
    await client.prune({});
    expect((await client.stats()).instances).toEqual({ ...none, Pending: 1, Running: 1, Suspended: 1 });
  });
});

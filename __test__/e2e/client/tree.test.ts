// An instance with its descendants: as a tree, and deleted together.

import { InstanceNotFoundError, type InstanceTree, RuntimeStateError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred, rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Returns the ids of a tree; `+` stands for children that were left out. */
function shape({ instance, children, hasMore }: InstanceTree): unknown[] {
  return [instance.id.split('/').at(-1), ...children.map(shape), ...(hasMore ? ['+'] : [])];
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Runs an instance with two children, of which the first has three. `slow` waits for an event in its cleanup. */
  async function family(slow?: string, began = deferred<void>()): Promise<string> {
    const id = store.id('top');
    await store.start((runtime) =>
      runtime.registerOrchestration('member', function* (ctx, kin: readonly (readonly [string, number])[]) {
        const children = kin.map(([name, count]) =>
          ctx.scheduleSubOrchestration(
            'member',
            Array.from({ length: count }, (_, n) => [`${name}${n}`, 0]),
            { id: `${ctx.instanceId}/${name}` },
          ),
        );
        if (slow !== undefined && ctx.instanceId.endsWith(`/${slow}`)) {
          try {
            began.resolve();
            ctx.setCustomStatus('waits');
            yield* ctx.waitForEvent('never');
          } finally {
            ctx.setCustomStatus('cleans up');
            yield* ctx.waitForEvent('cleaned');
          }
        }
        yield* ctx.all(children);
      }),
    );
    await store.client.startOrchestration(id, 'member', [
      ['a', 3],
      ['b', 0],
    ]);
    if (slow === undefined) await store.client.waitForOrchestration(id, SOON);
    return id;
  }

  it('is read level by level, oldest child first', async () => {
    const id = await family();
    const tree = await store.client.tree(id);
    expect(shape(tree)).toEqual([id, ['a', ['a0'], ['a1'], ['a2']], ['b']]);
    expect(tree.children[0]?.instance).toMatchObject({ status: 'Completed', parentId: id });
  });

  it('says where its depth and its limit left children out', async () => {
    const id = await family();
    const { client } = store;
    expect(shape(await client.tree(id, { depth: 0 }))).toEqual([id, '+']);
    expect(shape(await client.tree(id, { depth: 1 }))).toEqual([id, ['a', '+'], ['b']]);
    expect(shape(await client.tree(id, { limit: 4 }))).toEqual([id, ['a', ['a2'], '+'], ['b']]);
    expect(shape(await client.tree(id, { limit: 1 }))).toEqual([id, '+']);
    expect(await rejection(client.tree('absent'))).toBeInstanceOf(InstanceNotFoundError);
  });

  it('is deleted with all descendants, and no other instance', async () => {
    const [id, other] = [await family(), await family()];
    const { client } = store;
    expect(await client.deleteInstance(id, { descendants: true })).toEqual({ deleted: 6 });
    const left = client.listInstances({ idPrefix: id });
    expect((await left.page()).items).toEqual([]);
    expect(await client.deleteInstance(other)).toEqual({ deleted: 1 });
    expect((await client.listInstances({ idPrefix: other }).page()).items).toHaveLength(5);
    const error = await rejection(client.deleteInstance(other, { descendants: true }));
    expect(error).toBeInstanceOf(InstanceNotFoundError);
  });

  it('is deleted only if every descendant has ended, or else the error names one that has not', async () => {
    const began = deferred<void>();
    const id = await family('a1', began);
    const { client } = store;
    const late = `${id}/a/a1`;
    await began.promise;
    await client.waitForStatusChange(late, 0, undefined, SOON);
    await client.terminateInstance(id);
    await client.waitForStatusChange(late, 1, undefined, SOON);
    const error = await rejection(client.deleteInstance(id, { descendants: true }));
    expect(error).toBeInstanceOf(RuntimeStateError);
    expect(error).toMatchObject({ instanceId: late, status: 'Running', message: expect.stringContaining(id) });
    expect(shape(await client.tree(id))).toEqual([id, ['a', ['a0'], ['a1'], ['a2']], ['b']]);
    await client.raiseEvent(late, 'cleaned');
    await client.waitForOrchestration(late, SOON);
    await client.waitForOrchestration(`${id}/a`, SOON);
    expect(await client.deleteInstance(id, { descendants: true })).toEqual({ deleted: 6 });
  });
});

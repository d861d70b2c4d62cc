// Lists of instances: their filters and their pages.

import { Client, type InstanceStatus, type ListOptions, PayloadError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

async function ids(list: AsyncIterable<InstanceStatus>): Promise<string[]> {
  const found: string[] = [];
  for await (const { id } of list) found.push(id);
  return found;
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const list = (options?: ListOptions) => ids(store.client.listInstances(options));

  /** Starts instances of an orchestration that no other test has, the oldest first. */
  async function started(count: number, name = store.id('listed')): Promise<{ name: string; all: string[] }> {
    const all = Array.from({ length: count }, (_, n) => `${name}/${n}`);
    for (const id of all) await store.client.startOrchestration(id, name);
    return { name, all };
  }

  it('gives the newest first, with all that is known of each', async () => {
    const name = store.id('whole');
    await store.start((runtime) =>
      runtime
        .registerOrchestration(name, function* (ctx, input) {
          ctx.setCustomStatus('half');
          if (input === 'throws') throw new RangeError('no');
          return input;
        })
        .registerOrchestration(`${name}/waits`, function* (ctx) {
          yield ctx.waitForEvent('never');
        }),
    );
    const { client } = store;
    await client.startOrchestration(`${name}/1`, name, new Date(5), { tags: { team: 'a' } });
    await client.startOrchestration(`${name}/2`, name, 'throws');
    await client.startOrchestration(`${name}/3`, `${name}/waits`);
    await Promise.all([1, 2].map((n) => client.waitForOrchestration(`${name}/${n}`, SOON)));
    const items: InstanceStatus[] = [];
    for await (const item of client.listInstances({ idPrefix: name })) items.push(item);
    expect(items.map(({ id }) => id)).toEqual([`${name}/3`, `${name}/2`, `${name}/1`]);
    expect(items[1]).toMatchObject({ status: 'Failed', error: expect.any(RangeError), customStatus: 'half' });
    expect(items[2]).toMatchObject({ status: 'Completed', output: new Date(5), tags: { team: 'a' } });
    for (const item of items) expect(await client.getStatus(item.id)).toEqual(item);
  });

  it('returns pages with cursors, and each page continues the one before', async () => {
    const { name, all } = await started(7);
    const found: string[] = [];
    let cursor: string | undefined;
    const lengths: number[] = [];
    do {
      const page = await store.client
        .listInstances({ name, limit: 3, ...(cursor === undefined ? {} : { cursor }) })
        .page();
      found.push(...page.items.map(({ id }) => id));
      lengths.push(page.items.length);
      // An instance that is started between two pages is newer, and is not on the next pages.
      await store.client.startOrchestration(store.id('between'), name);
      cursor = page.cursor ?? undefined;
    } while (cursor !== undefined);
    expect(found).toEqual(all.toReversed());
    expect(lengths).toEqual([3, 3, 1]);
  });

  it('goes through more than one read of the store, and stops when the loop does', async () => {
    const { name, all } = await started(450);
    expect(await list({ name })).toEqual(all.toReversed());
    expect(await list({ name, limit: 201 })).toEqual(all.toReversed().slice(0, 201));
    const { items, cursor } = await store.client.listInstances({ name }).page();
    expect(items).toHaveLength(100);
    expect(await list({ name, cursor: cursor as string })).toHaveLength(350);
    for await (const { id } of store.client.listInstances({ name })) {
      expect(id).toBe(all.at(-1));
      break;
    }
    const again = store.client.listInstances({ name, limit: 2 });
    expect(await ids(again)).toEqual(await ids(again));
  });

  it('takes all conditions together', async () => {
    const name = store.id('conditions');
    const { client } = store;
    const before = new Date();
    await client.startOrchestration(`${name}/1`, name, null, { version: '1.0.0', tags: { team: 'a', city: 'é"' } });
    await client.startOrchestration(`${name}/2`, name, null, { version: '2.0.0', tags: { team: 'a' } });
    await client.startOrchestration(`${name}/3`, name, null, { version: '2.0.0', tags: { team: 'b' } });
    await client.terminateInstance(`${name}/3`);
    const numbers = async (options: ListOptions) =>
      (await list({ name, ...options })).map((id) => Number(id.split('/')[1]));
    expect(await numbers({})).toEqual([3, 2, 1]);
    expect(await numbers({ version: '2.0.0' })).toEqual([3, 2]);
    expect(await numbers({ tags: { team: 'a' } })).toEqual([2, 1]);
    expect(await numbers({ tags: { team: 'a', city: 'é"' } })).toEqual([1]);
    expect(await numbers({ tags: { team: 'a' }, version: '2.0.0' })).toEqual([2]);
    expect(await numbers({ status: 'Pending' })).toEqual([2, 1]);
    expect(await numbers({ status: ['Terminated', 'Running'] })).toEqual([3]);
    expect(await numbers({ status: 'Completed' })).toEqual([]);
    expect(await numbers({ idPrefix: `${name}/2` })).toEqual([2]);
    expect(await numbers({ idPrefix: '%' })).toEqual([]);
    const long = new Date(before.getTime() - 1_000);
    expect(await numbers({ createdAfter: long, createdBefore: '2999-01-01' })).toEqual([3, 2, 1]);
    expect(await numbers({ createdBefore: long.toISOString() })).toEqual([]);
    const { createdAt } = (await client.getStatus(`${name}/2`))!;
    expect(await numbers({ createdAfter: createdAt })).not.toContain(2);
    expect(await numbers({ createdBefore: createdAt })).not.toContain(2);
  });

  it('finds the children of an instance', async () => {
    const parent = store.id('parent');
    await store.start((runtime) =>
      runtime
        .registerOrchestration('child', function* () {})
        .registerOrchestration('parent', function* (ctx) {
          yield ctx.all([1, 2].map((n) => ctx.scheduleSubOrchestration('child', n, { id: `${ctx.instanceId}/${n}` })));
        }),
    );
    await store.client.startOrchestration(parent, 'parent');
    await store.client.waitForOrchestration(parent, SOON);
    const expected = [`${parent}/1`, `${parent}/2`];
    expect((await list({ parentId: parent })).sort()).toEqual(expected);
    await store.client.deleteInstance(parent);
    expect((await list({ parentId: parent })).sort()).toEqual(expected);
  });

  it('refuses options that are wrong, and says which was meant', async () => {
    const wrong: [any, RegExp][] = [
      [{ statsu: 'Failed' }, /`status`/],
      [{ status: 'Faild' }, /'Failed'/],
      [{ status: [] }, /status/],
      [{ status: ['Failed', 'failed'] }, /status\[1\].*'Failed'/],
      [{ createdAfter: 'yesterday' }, /createdAfter must be a time/],
      [{ createdBefore: new Date(Number.NaN) }, /createdBefore must be a time/],
      [{ createdBefore: 5 }, /createdBefore/],
      [{ tags: { a: 1 } }, /tags\.a/],
      [{ tags: { a: '\ud800' } }, /tags/],
      [{ limit: 0 }, /limit/],
      [{ cursor: 'abc' }, /cursor/],
      [{ name: '' }, /name/],
      [null, /options/],
    ];
    for (const [options, message] of wrong) {
      expect(() => store.client.listInstances(options), JSON.stringify(options)).toThrow(TypeError);
      expect(() => store.client.listInstances(options)).toThrow(message);
    }
  });
});

describe.each(SHARED_STORES)('values that cannot be read (on $name)', (kind) => {
  const store = useStore(kind);

  it('are told when the list comes to them', async () => {
    const codec = {
      encode: (text: string) => text,
      decode(): string {
        throw new Error('another key');
      },
    };
    const provider = await store.open({ codec });
    try {
      const client = new Client(provider);
      await client.startOrchestration('secret', 'nobody registers this');
      await client.terminateInstance('secret', 'why');
      expect(await rejection(client.listInstances().page())).toBeInstanceOf(PayloadError);
    } finally {
      await provider.close();
    }
  });
});

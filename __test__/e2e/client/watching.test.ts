// Watches of the custom status of an instance, until the instance ends or the client leaves the watch.

import { Client, InstanceNotFoundError, RuntimeStateError, type StatusChange } from 'perdure';
import { describe, expect, it } from 'vitest';

import { nextTick, rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Starts an instance that sets its custom status to each message that it gets, until 'end'. */
  async function follower(): Promise<string> {
    const id = store.id();
    const name = store.id('follower');
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        for (;;) {
          const text = yield ctx.dequeueEvent('say');
          if (text === 'end') return 'ended';
          ctx.setCustomStatus(text);
        }
      }),
    );
    await store.client.startOrchestration(id, name);
    return id;
  }

  it('gives each change as it comes, and ends with the instance', async () => {
    const id = await follower();
    await store.client.enqueueEvent(id, 'say', 'first');
    const seen: StatusChange[] = [];
    for await (const change of store.client.handle(id).statusChanges()) {
      seen.push(change);
      await store.client.enqueueEvent(id, 'say', seen.length < 3 ? { n: seen.length } : 'end');
    }
    expect(seen).toEqual([
      { customStatus: 'first', customStatusVersion: 1, status: 'Running' },
      { customStatus: { n: 1 }, customStatusVersion: 2, status: 'Running' },
      { customStatus: { n: 2 }, customStatusVersion: 3, status: 'Running' },
    ]);
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('ended');
    const late: StatusChange[] = [];
    for await (const change of store.client.statusChanges(id)) late.push(change);
    expect(late).toEqual([{ customStatus: { n: 2 }, customStatusVersion: 3, status: 'Completed' }]);
    for await (const _ of store.client.statusChanges(id, { lastVersion: 3 })) expect.unreachable();
  });

  it('is stopped at once by return, also while it waits', async () => {
    const id = await follower();
    const changes = store.client.statusChanges(id);
    const [first, second] = [changes.next(), changes.next()];
    await nextTick();
    expect(await changes.return?.()).toEqual({ done: true, value: undefined });
    expect(await first).toEqual({ done: true, value: undefined });
    expect(await second).toEqual({ done: true, value: undefined });
    expect(await changes.next()).toEqual({ done: true, value: undefined });
  });

  it('is stopped at once by its signal, whose reason it throws', async () => {
    const id = await follower();
    const controller = new AbortController();
    const changes = store.client.statusChanges(id, { signal: controller.signal });
    const waiting = rejection(changes.next());
    await nextTick();
    const reason = new Error('enough');
    const { stack } = reason;
    controller.abort(reason);
    expect(await waiting).toBe(reason);
    expect(reason.stack).toBe(stack);
    expect(await changes.next()).toEqual({ done: true, value: undefined });
    expect(await rejection(store.client.statusChanges(id, { signal: controller.signal }).next())).toBe(reason);
  });

  it('rejects an unknown instance and wrong options', async () => {
    expect(await rejection(store.client.statusChanges('nobody').next())).toBeInstanceOf(InstanceNotFoundError);
    const watch = (id: any, options?: any) => () => store.client.statusChanges(id, options);
    expect(watch('')).toThrow(TypeError);
    expect(watch('id', { singal: undefined })).toThrow(/`signal`/);
    expect(watch('id', { signal: {} })).toThrow(/signal must be an AbortSignal/);
    expect(watch('id', { lastVersion: -1 })).toThrow(/lastVersion/);
  });
});

describe.each(SHARED_STORES)('on $name, from another provider', (kind) => {
  const store = useStore(kind);

  it('sees the changes of the first client, and rejects when its provider is closed', async () => {
    const name = store.id('elsewhere');
    const id = store.id();
    const provider = await store.open();
    const client = new Client(provider);
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        for (let n = 1; ; n += 1) {
          ctx.setCustomStatus(n);
          yield ctx.waitForEvent('next');
        }
      }),
    );
    await store.client.startOrchestration(id, name);
    const changes = client.statusChanges(id);
    expect((await changes.next()).value).toMatchObject({ customStatus: 1 });
    const second = changes.next();
    await store.client.raiseEvent(id, 'next');
    expect((await second).value).toMatchObject({ customStatus: 2, status: 'Running' });
    const waiting = rejection(changes.next());
    await nextTick();
    await provider.close();
    expect(await waiting).toBeInstanceOf(RuntimeStateError);
  });
});

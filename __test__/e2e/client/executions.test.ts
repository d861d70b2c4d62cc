// The executions of an instance, without a read of their histories.

import { Client, InstanceNotFoundError, type Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const CODEC = {
  encode: (text: string) => `kept:${Buffer.from(text).toString('base64')}`,
  decode: (text: string) => Buffer.from(text.slice('kept:'.length), 'base64').toString(),
};

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Runs an instance whose input is the number of executions that are to follow. */
  async function counted(
    executions: number,
    end: 'returns' | 'throws' | 'waits' = 'returns',
    provider = store.provider,
  ): Promise<string> {
    const id = store.id('counted');
    const client = new Client(provider);
    const register = (runtime: Runtime) =>
      runtime.registerOrchestration(id, function* (ctx, left: number) {
        yield* ctx.sleep(1);
        if (left > 1) return yield* ctx.continueAsNew(left - 1);
        ctx.setCustomStatus('last');
        if (end === 'throws') throw new RangeError('out of range');
        if (end === 'waits') yield* ctx.waitForEvent('go');
        return { done: true };
      });
    await store.start(register, {}, provider);
    await client.startOrchestration(id, id, executions);
    if (end === 'waits') await client.waitForStatusChange(id, 0, undefined, SOON);
    else await client.waitForOrchestration(id, SOON);
    return id;
  }

  it('come newest first, each with its status, times, events, input and output', async () => {
    const id = await counted(3);
    const { items, next } = await store.client.executions(id).page();
    expect(next).toBeNull();
    const history = await store.client.getHistory(id, 3);
    expect(items).toEqual([
      expect.objectContaining({
        executionId: 3,
        status: 'Completed',
        startedAt: history[0]?.time,
        endedAt: history.at(-1)?.time,
        events: history.length,
        input: 1,
        output: { done: true },
      }),
      expect.objectContaining({ executionId: 2, status: 'ContinuedAsNew', input: 2, endedAt: expect.any(Date) }),
      expect.objectContaining({ executionId: 1, status: 'ContinuedAsNew', input: 3, version: '1.0.0' }),
    ]);
    expect(items[1]).not.toHaveProperty('output');
  });

  it('tell the error of a failed one, and the status of one that goes on', async () => {
    const failed = await counted(2, 'throws');
    const [last] = (await store.client.executions(failed, { limit: 1 }).page()).items;
    expect(last).toMatchObject({ status: 'Failed', error: expect.any(RangeError) });
    const waiting = await counted(1, 'waits');
    const [current] = (await store.client.executions(waiting).page()).items;
    expect(current).toMatchObject({ executionId: 1, status: 'Running', input: 1, version: '1.0.0' });
    expect(current).not.toHaveProperty('endedAt');
    await store.client.terminateInstance(waiting, 'enough');
    const [ended] = (await store.client.executions(waiting).page()).items;
    expect(ended).toMatchObject({
      status: 'Terminated',
      error: expect.objectContaining({ message: expect.stringContaining('enough') }),
    });
  });

  it('come in pages, and without those that were pruned', async () => {
    const id = await counted(5);
    const { client } = store;
    const first = await client.executions(id, { limit: 2 }).page();
    expect([first.items.map(({ executionId }) => executionId), first.next]).toEqual([[5, 4], 3]);
    const rest = await client.executions(id, { from: 3, limit: 2 }).page();
    expect([rest.items.map(({ executionId }) => executionId), rest.next]).toEqual([[3, 2], 1]);
    await client.pruneExecutions({ ids: [id], completedBefore: new Date(Date.now() + 60_000), keep: 4 });
    const all: number[] = [];
    for await (const { executionId } of client.executions(id)) all.push(executionId);
    expect(all).toEqual([5, 4, 3, 2]);
    expect((await client.executions(id, { from: 1 }).page()).items).toEqual([]);
  });

  it('have values that go through the codec of the store', async () => {
    const provider = await store.open({ codec: CODEC });
    const id = await counted(2, 'returns', provider);
    const { items } = await new Client(provider).executions(id).page();
    expect(items.map(({ input, output }) => [input, output])).toEqual([
      [1, { done: true }],
      [2, undefined],
    ]);
  });

  it('of an unknown instance are refused', async () => {
    const error = await rejection(store.client.executions('absent').page());
    expect(error).toBeInstanceOf(InstanceNotFoundError);
  });

  it('facts count the events, bytes and unread messages of an instance', async () => {
    const { client } = store;
    const id = store.id();
    await client.startOrchestration(id, 'nobody registers this', 'x'.repeat(1_000));
    for (const name of ['a', 'b', 'b']) await client.raiseEvent(id, name, 1);
    await client.enqueueEvent(id, 'jobs', 2);
    const { historyBytes, ...others } = await client.facts(id);
    expect(others).toEqual({
      executions: 1,
      events: 1,
      unread: {
        messages: 4,
        mailboxes: [
          { kind: 'event', name: 'b', messages: 2 },
          { kind: 'event', name: 'a', messages: 1 },
          { kind: 'queue', name: 'jobs', messages: 1 },
        ],
      },
    });
    expect(historyBytes).toBeGreaterThan(1_000);
    expect(historyBytes).toBeLessThan(2_000);
    expect(await rejection(client.facts('absent'))).toBeInstanceOf(InstanceNotFoundError);
  });
});

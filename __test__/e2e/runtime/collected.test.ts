// Closed stores and runtimes are garbage collected. The thread-safe function with which the addon wakes a lane, and the
// one for replies, once kept everything that they reach alive. So memory grew in a process that opened and closed
// stores, and in a test file with many runtimes.

import { Client, defineOrchestration, Runtime } from 'perdure';
import { TestRuntime } from 'perdure/testing';
import { describe, it } from 'vitest';
import { eventually } from '../../support/async.ts';
import { collectGarbage } from '../../support/garbage.ts';
import { STORES } from '../../support/providers.ts';

const order = defineOrchestration('order', function* (ctx) {
  yield ctx.scheduleTimer(1);
});

async function isCollected(refs: WeakRef<object>[]): Promise<void> {
  await eventually(10_000, 'it is collected', () => {
    collectGarbage();
    return refs.every((ref) => ref.deref() === undefined);
  });
}

describe.each(STORES)('on $name', (kind) => {
  it('a runtime and its provider are collected once they are closed', async () => {
    const site = kind.create();
    const use = async (): Promise<WeakRef<object>[]> => {
      const provider = await site.open();
      const runtime = new Runtime(provider);
      runtime.register(order);
      await runtime.start();
      await (await new Client(provider).start(order)).result();
      await runtime.shutdown();
      await provider.close();
      return [new WeakRef(provider), new WeakRef(runtime)];
    };
    await isCollected(await use());
    await site.remove();
  });
});

it('a test runtime is garbage-collected after close, in any state', async () => {
  const use = async (): Promise<WeakRef<object>[]> => {
    const test = await TestRuntime.create();
    test.register(order);
    await (await test.start(order)).result();
    test.hang('wait');
    test.activity('wait', () => {});
    test.registerOrchestration('waits', function* (ctx) {
      yield ctx.scheduleActivity('wait', null, { timeout: '1h' });
    });
    await test.client.startOrchestration('w', 'waits');
    await test.settled();
    await test.close();
    return [new WeakRef(test), new WeakRef(test.client)];
  };
  await isCollected(await use());
});

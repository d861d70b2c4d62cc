// Starts that name no version, from a process without registrations. Such a client once took 1.0.0, and if workers had
// another version, the instance stayed Pending for ever.

import { Client, type OrchestrationContext, type OrchestrationGenerator, type Runtime } from 'perdure';
import { replay } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { historyViolations } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Registers an orchestration in each of these versions. It returns its version. */
const ordersOf =
  (...versions: string[]) =>
  (runtime: Runtime): void => {
    for (const version of versions) runtime.registerOrchestration('order', order, { version });
  };

function* order(ctx: OrchestrationContext, first?: 'again' | 'wait'): OrchestrationGenerator<string> {
  if (first === 'wait') yield ctx.waitForEvent('go');
  return first === 'again' ? yield ctx.continueAsNew(null) : ctx.version;
}

describe.each(SHARED_STORES)('a start without a version by a client alone, on $name', (kind) => {
  const store = useStore(kind);

  it('gets the newest version of all live workers, on any worker', async () => {
    await store.start(ordersOf('1.9.0'), {}, await store.open());
    await store.start(ordersOf('1.2.0', '1.10.0'), {}, await store.open());
    const client = new Client(await store.open());
    for (let n = 0; n < 5; n += 1) {
      const id = store.id();
      await client.startOrchestration(id, 'order');
      expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ output: '1.10.0', version: '1.10.0' });
    }
  });

  it('waits for a worker that is started later, and keeps the version that it gets', async () => {
    const client = new Client(await store.open());
    const id = store.id();
    await client.startOrchestration(id, 'order', 'again');
    expect(await client.getStatus(id)).toMatchObject({ status: 'Pending', version: '' });
    const old = await store.start(ordersOf('2.0.0'), {}, await store.open());
    expect(await client.waitForOrchestration(id, SOON)).toMatchObject({
      output: '2.0.0',
      version: '2.0.0',
      executionId: 2,
    });
    await old.shutdown();
    const history = await client.getHistory(id, 1);
    expect(history.map(({ kind: event, meta }) => [event, meta?.version]).slice(0, 2)).toEqual([
      ['ExecutionStarted', ''],
      ['ExecutionBegan', '2.0.0'],
    ]);
    expect(historyViolations(history, 'ContinuedAsNew')).toEqual([]);
    const exported = await client.exportHistory(id, 1);
    expect(exported.version).toBe('2.0.0');
    expect(replay(exported, { name: 'order', version: '2.0.0', fn: order }).executions[0]).toMatchObject({
      outcome: 'continuedAsNew',
    });
  });

  it('takes versions into account that are registered while a worker runs', async () => {
    await store.start(ordersOf('1.0.0'), {}, await store.open());
    const later = await store.start(ordersOf('1.1.0'), {}, await store.open());
    const client = new Client(await store.open());
    const first = store.id();
    await client.startOrchestration(first, 'order');
    expect((await client.waitForOrchestration(first, SOON)).output).toBe('1.1.0');
    ordersOf('3.0.0')(later);
    // This worker takes this start. After that, the store knows its versions.
    const known = store.id();
    await client.startOrchestration(known, 'order', null, { version: '3.0.0' });
    await client.waitForOrchestration(known, SOON);
    const next = store.id();
    await client.startOrchestration(next, 'order');
    expect((await client.waitForOrchestration(next, SOON)).output).toBe('3.0.0');
  });
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('children and detached instances of orchestrations that their process has not get a version, too', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('parent', function* (ctx) {
        yield ctx.startOrchestration('order', `${ctx.instanceId}/detached`);
        return yield ctx.scheduleSubOrchestration('order', null, { id: `${ctx.instanceId}/child` });
      }),
    );
    await store.start(ordersOf('4.0.0', '4.0.1'));
    const id = store.id();
    await store.client.startOrchestration(id, 'parent');
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ output: '4.0.1' });
    for (const other of ['child', 'detached'])
      expect(await store.client.waitForOrchestration(`${id}/${other}`, SOON)).toMatchObject({ version: '4.0.1' });
  });

  it.each(['terminated', 'cancelled', 'suspended'])('an instance of an open version can be %s', async (how) => {
    const id = store.id();
    await store.client.startOrchestration(id, 'order', how === 'cancelled' ? 'wait' : null);
    if (how === 'terminated') {
      await store.client.terminateInstance(id);
      expect(await store.client.getStatus(id)).toMatchObject({ status: 'Terminated', version: '' });
      expect((await store.client.exportHistory(id)).version).toBe('');
      return;
    }
    if (how === 'cancelled') await store.client.cancelInstance(id);
    else await store.client.suspend(id);
    await store.start(ordersOf('5.0.0'));
    if (how === 'suspended') await store.client.resume(id);
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
      status: how === 'cancelled' ? 'Cancelled' : 'Completed',
      version: '5.0.0',
    });
  });
});

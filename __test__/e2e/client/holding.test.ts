// Instances that a client suspends, on any worker, and resumes.

import { Client, Runtime, RuntimeStateError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, Counter, deferred, rejection } from '../../support/async.ts';
import { historyViolations } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('stops a running activity at once, and runs it again after the resume', async () => {
    const [id, name] = [store.id(), store.id('works')];
    const attempts = new Counter();
    const reasons: unknown[] = [];
    const gate = deferred();
    await store.start((runtime) =>
      runtime
        .registerActivity(name, async ({ signal }) => {
          attempts.add();
          if (attempts.count === 1) reasons.push(await aborted(signal));
          else await gate.promise;
          return 'worked';
        })
        .registerOrchestration(name, function* (ctx) {
          ctx.setCustomStatus('working');
          return [yield ctx.scheduleActivity(name), yield ctx.waitForEvent('go')];
        }),
    );
    const { client } = store;
    await client.startOrchestration(id, name);
    await attempts.reaches(1);
    await client.suspend(id, 'the bank is down');
    const held = await client.getStatus(id);
    expect(held).toMatchObject({ status: 'Suspended', customStatus: 'working' });
    expect(held?.error).toMatchObject({ code: 'SUSPENDED', message: 'held by client.suspend: the bank is down' });
    expect(held).not.toHaveProperty('completedAt');
    await client.raiseEvent(id, 'go', 'event');
    await client.suspend(id, 'once more');
    expect(await client.getStatus(id)).toEqual(held);
    expect(attempts.count).toBe(1);

    await client.resume(id);
    await attempts.reaches(2);
    gate.resolve();
    const { status, output } = await client.waitForOrchestration(id, SOON);
    expect({ status, output }).toEqual({ status: 'Completed', output: ['worked', 'event'] });
    expect(reasons).toHaveLength(1);
    expect(historyViolations(await client.getHistory(id), 'Completed')).toEqual([]);
  });

  it('one that never ran or sleeps is held, too, and does not know of it', async () => {
    const name = store.id('later');
    const [pending, sleeping] = [store.id(), store.id()];
    const { client } = store;
    await client.startOrchestration(pending, name);
    await client.handle(pending).suspend();
    expect((await client.getStatus(pending))?.error).toMatchObject({ message: 'held by client.suspend' });
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        ctx.setCustomStatus('asleep');
        return yield ctx.race(ctx.waitForEvent('go'), ctx.scheduleTimer('1h'));
      }),
    );
    await client.startOrchestration(sleeping, name);
    await client.waitForStatusChange(sleeping, 0, undefined, SOON);
    await client.suspend(sleeping);
    await client.raiseEvent(sleeping, 'go', 1);
    expect(await client.getStatus(pending)).toMatchObject({ status: 'Suspended', customStatusVersion: 0 });
    await client.handle(pending).resume();
    await client.raiseEvent(pending, 'go', 2);
    await client.waitForOrchestration(pending, SOON);
    expect(await client.getStatus(sleeping)).toMatchObject({ status: 'Suspended' });
    await client.resume(sleeping);
    expect((await client.waitForOrchestration(sleeping, SOON)).status).toBe('Completed');
  });

  it('one that is held can be terminated and cancelled, which ends it at once', async () => {
    const name = store.id('waits');
    const ids = [store.id(), store.id()] as const;
    let cleanups = 0;
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        try {
          yield ctx.waitForEvent('never');
        } finally {
          cleanups += 1;
        }
      }),
    );
    const { client } = store;
    for (const id of ids) {
      await client.startOrchestration(id, name);
      await client.suspend(id);
    }
    await client.terminateInstance(ids[0]);
    expect(await client.getStatus(ids[0])).toMatchObject({ status: 'Terminated' });
    await client.cancelInstance(ids[1], 'no more');
    expect(await client.getStatus(ids[1])).toMatchObject({ status: 'Cancelled' });
    expect(await rejection(client.resume(ids[1]))).toMatchObject({ status: 'Cancelled' });
    expect(cleanups).toBe(0);
  });

  it('delivers an earlier cancellation after the resume', async () => {
    const [id, name] = [store.id(), store.id('later')];
    await store.client.startOrchestration(id, name);
    await store.client.cancelInstance(id, 'no more');
    await store.client.suspend(id);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
    await store.client.resume(id);
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        yield ctx.waitForEvent('never');
      }),
    );
    expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
  });

  it('one that has ended is not', async () => {
    const id = store.id();
    await store.client.startOrchestration(id, 'nobody registers this');
    await store.client.terminateInstance(id);
    const error = await rejection(store.client.suspend(id));
    expect(error).toBeInstanceOf(RuntimeStateError);
    expect(error).toMatchObject({
      instanceId: id,
      status: 'Terminated',
      message: expect.stringContaining('has ended'),
    });
    expect(await rejection(store.client.suspend(id, 5 as any))).toBeInstanceOf(TypeError);
  });
});

describe.each(SHARED_STORES)('on $name, from another provider', (kind) => {
  const store = useStore(kind);

  it('the turn of its runtime is fenced off, and the next owner continues from the store', async () => {
    const [id, name] = [store.id(), store.id('owned')];
    const running = deferred();
    const gates = [deferred<string>(), deferred<string>()];
    let attempts = 0;
    await store.start((runtime) =>
      runtime
        .registerActivity(name, () => {
          running.resolve();
          return gates[attempts++]?.promise;
        })
        .registerOrchestration(name, function* (ctx) {
          return yield ctx.scheduleActivity(name);
        }),
    );
    await store.client.startOrchestration(id, name);
    await running.promise;
    const elsewhere = new Client(await store.open());
    await elsewhere.suspend(id);
    // The runtime may or may not have noticed the suspension by now. In either case the result that it hands in is not
    // stored.
    gates[0]?.resolve('too late');
    await store.settled();
    expect(await elsewhere.getStatus(id)).toMatchObject({ status: 'Suspended' });
    await elsewhere.resume(id);
    gates[1]?.resolve('in time');
    expect((await elsewhere.waitForOrchestration(id, SOON)).output).toBe('in time');
    expect(attempts).toBe(2);
  });
});

describe.each(SHARED_STORES)('on $name, from another provider', (kind) => {
  const store = useStore(kind);

  // A runtime used to notice a suspension only with its next commit. This instance makes none, so its activity kept the
  // only slot for ever.
  it.each(['suspend', 'terminateInstance'] as const)('%s aborts the activities of the instance', async (take) => {
    const [id, other, name] = [store.id(), store.id(), store.id('hangs')];
    const begun = new Counter();
    const reasons: unknown[] = [];
    await store.start(
      (runtime) =>
        runtime
          .registerActivity(name, async ({ signal, instanceId }) => {
            begun.add();
            if (instanceId === id) reasons.push(await aborted(signal));
            return 'ran';
          })
          .registerOrchestration(name, function* (ctx) {
            return yield ctx.scheduleActivity(name);
          }),
      { activityConcurrency: 1 },
    );
    await store.client.startOrchestration(id, name);
    await begun.reaches(1);
    const elsewhere = new Client(await store.open());
    await elsewhere.startOrchestration(other, name);
    await elsewhere[take](id);
    expect(await elsewhere.waitForOrchestration(other, SOON)).toMatchObject({ output: 'ran' });
    expect(reasons).toEqual([expect.objectContaining({ name: 'CancelledError' })]);
    if (take === 'suspend') await elsewhere.terminateInstance(id);
  });
});

describe.each(SHARED_STORES)('an instance with unreadable values (on $name)', (kind) => {
  const store = useStore(kind);

  it('is held all the same, and its messages need not be read for that', async () => {
    const [id, name] = [store.id(), store.id('secret')];
    const provider = await store.open({ codec: { encode: (text) => text, decode: (text) => text } });
    const runtime = new Runtime(provider, { logLevel: 'silent' });
    runtime.registerOrchestration(name, function* (ctx, input) {
      return [input, yield ctx.waitForEvent('go')];
    });
    await runtime.start();
    const client = new Client(provider);
    await client.startOrchestration(id, name, 'input');
    await client.raiseEvent(id, 'another', 'event');
    await store.client.suspend(id, 'why');
    expect((await store.client.getStatus(id))?.error?.message).toBe('held by client.suspend: why');
    await store.client.resume(id);
    await client.raiseEvent(id, 'go', 'on');
    expect((await client.waitForOrchestration(id, SOON)).output).toEqual(['input', 'on']);
    await runtime.shutdown();
    await provider.close();
  });
});

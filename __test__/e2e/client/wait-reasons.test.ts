// Waits that say why an instance does not go on.

import { Client, NondeterminismError, type Runtime, SuspendedError, TimeoutError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { suspendByEdit } from '../../support/edited-code.ts';
import { SHARED_STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** A time after which a wait that cannot end gives up. */
const SHORT = 1_100;

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const waitsFor =
    (event: string) =>
    (runtime: Runtime): void => {
      runtime.registerOrchestration('order', function* (ctx) {
        return yield ctx.waitForEvent(event);
      });
    };

  it('a wait without a runtime, or without its orchestration, says so when its time is over', async () => {
    const id = store.id('misspelt');
    await store.client.startOrchestration(id, 'ordr');
    const error = await rejection(store.client.waitForOrchestration(id, 10));
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error).toMatchObject({
      message: `instance '${id}' has not ended within 10 ms: Pending: no runtime runs on its store`,
      reason: 'Pending: no runtime runs on its store',
      timeoutMs: 10,
    });

    await store.start(waitsFor('go'));
    const reason = "Pending: no running worker has registered orchestration 'ordr'; did you mean 'order'?";
    expect(await rejection(store.client.handle(id).result({ timeout: SHORT }))).toMatchObject({ reason });
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Pending', reason });
    await store.client.terminateInstance(id);
    expect(await store.client.getStatus(id)).not.toHaveProperty('reason');
  });

  it('the result of a suspended instance throws at once, with the reason and its error', async () => {
    const { id } = await suspendByEdit(store);
    const error = await rejection(store.client.handle(id).result());
    expect(error).toBeInstanceOf(SuspendedError);
    const reason = "the code no longer fits (event 2: recorded activity 'a', attempted activity 'b')";
    expect(error).toMatchObject({
      name: 'SuspendedError',
      code: 'SUSPENDED',
      instanceId: id,
      message: `instance '${id}' is Suspended: ${reason}`,
      cause: expect.any(NondeterminismError),
    });
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended', reason: `Suspended: ${reason}` });
    expect(await rejection(store.client.waitForOrchestration(id, 10))).toMatchObject({
      reason: `Suspended: ${reason}`,
    });
    await store.client.terminateInstance(id);
  });

  it('a wait for a result ends when the instance becomes suspended, unless it is told to wait', async () => {
    await store.start(waitsFor('go'));
    const id = store.id('held');
    await store.client.startOrchestration(id, 'order');
    const handle = store.client.handle(id);
    const patient = handle.result({ onSuspended: 'wait', timeout: SOON });
    const suspended = rejection(handle.result({ timeout: SOON }));
    await store.client.suspend(id, 'a pause');
    expect(await suspended).toMatchObject({ code: 'SUSPENDED', message: expect.stringContaining('a pause') });
    await store.client.resume(id);
    await store.client.raiseEvent(id, 'go', 'gone');
    expect(await patient).toBe('gone');
    expect(await handle.result({ timeout: SOON })).toBe('gone');
  });

  it('the result of an instance that another process suspends throws, too', async () => {
    await store.start(waitsFor('go'), {}, await store.open());
    const id = store.id('held-elsewhere');
    await store.client.startOrchestration(id, 'order');
    const suspended = rejection(store.client.handle(id).result({ timeout: SOON }));
    await new Client(await store.open()).suspend(id);
    expect(await suspended).toBeInstanceOf(SuspendedError);
    await store.client.terminateInstance(id);
  });
});

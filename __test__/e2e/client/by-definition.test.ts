// Instances that are addressed by a definition: typed, and refused where they run another orchestration.

import {
  defineOrchestration,
  InstanceNotFoundError,
  type OrchestrationContext,
  PayloadError,
  type StandardSchema,
  WrongDefinitionError,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

interface Order {
  total: number;
}

interface Progress {
  step: 'charging' | 'done';
}

const order = defineOrchestration('order', function* (ctx: OrchestrationContext<Order, Progress>, { total }) {
  ctx.setCustomStatus({ step: 'charging' });
  yield* ctx.waitForEvent('go');
  const before = ctx.getCustomStatus();
  ctx.setCustomStatus({ step: 'done' });
  return { paid: total, before: before?.step };
});
const other = defineOrchestration('other', function* (ctx) {
  ctx.setCustomStatus('waits');
  yield* ctx.waitForEvent('go');
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('a handle and a status have the types of the definition', async () => {
    await store.start((runtime) => runtime.register(order));
    const id = store.id();
    expect(await store.client.getStatus(order, id)).toBeNull();
    await store.client.start(order, { total: 12 }, { id });
    const handle = store.client.handle(order, id);
    expect(handle.id).toBe(id);
    expect((await handle.waitForStatusChange(0))?.customStatus?.step).toBe('charging');
    expect((await store.client.getStatus(order, id))?.customStatus).toEqual({ step: 'charging' });
    const steps: string[] = [];
    await handle.raiseEvent('go');
    for await (const { customStatus } of handle.statusChanges({ lastVersion: 1 })) steps.push(customStatus?.step ?? '');
    expect(steps).toEqual(['done']);
    const { paid, before } = await handle.result({ timeout: SOON });
    expect([paid, before]).toEqual([12, 'charging']);
    const status = await handle.status();
    expect([status?.status, status?.output?.paid, status?.customStatus?.step]).toEqual(['Completed', 12, 'done']);
  });

  it('each read of an instance of another orchestration fails, and nothing else', async () => {
    await store.start((runtime) => runtime.register(other));
    const { id } = await store.client.start(other);
    await store.client.waitForStatusChange(id, 0);
    const wrong = {
      name: 'WrongDefinitionError',
      code: 'WRONG_DEFINITION',
      message: `instance '${id}' runs orchestration 'other', not 'order'`,
      instanceId: id,
      expected: 'order',
      actual: 'other',
    };
    const handle = store.client.handle(order, id);
    for (const read of [
      () => store.client.getStatus(order, id),
      () => handle.status(),
      () => handle.waitForStatusChange(0),
      () => handle.statusChanges().next(),
    ]) {
      const error = await rejection(read());
      expect(error).toBeInstanceOf(WrongDefinitionError);
      expect(error).toMatchObject(wrong);
    }
    await handle.raiseEvent('go');
    expect(await rejection(handle.result({ timeout: SOON }))).toMatchObject(wrong);
    expect((await store.client.handle(other, id).status())?.status).toBe('Completed');
  });

  it('a start that returns an instance of another orchestration gives a handle that says so', async () => {
    await store.start((runtime) => runtime.register(order, other));
    const { id } = await store.client.start(other);
    const handle = await store.client.start(order, { total: 1 }, { id, onConflict: 'return' });
    await handle.raiseEvent('go');
    expect(await rejection(handle.result({ timeout: SOON }))).toBeInstanceOf(WrongDefinitionError);
  });

  it('an instance that does not exist is not found, and a wrong id is refused', async () => {
    const handle = store.client.handle(order, 'absent');
    expect(await handle.status()).toBeNull();
    for (const read of [() => handle.waitForStatusChange(0), () => handle.statusChanges().next()])
      expect(await rejection(read())).toBeInstanceOf(InstanceNotFoundError);
    expect(() => store.client.handle(order, 5 as never)).toThrow('the instance id must be a string, got 5');
    expect(() => store.client.handle({} as never)).toThrow('the instance id must be a string, got an object');
    expect(String(await rejection(store.client.getStatus(order, '')))).toMatch(/instance id must not be empty/);
  });

  it('an orchestration starts a detached one by its definition', async () => {
    const positive: StandardSchema<number> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value) =>
          typeof value === 'number' && value > 0 ? { value } : { issues: [{ message: 'must be positive' }] },
      },
    };
    const half = defineOrchestration(
      'half',
      function* (ctx, n) {
        return [n / 2, ctx.version, ctx.parentId];
      },
      { version: '2.0.0', input: positive },
    );
    const starter = defineOrchestration('starter', function* (ctx) {
      const named = yield* ctx.start(half, 4, { id: `${ctx.instanceId}-half`, tags: { of: 'starter' } });
      const unnamed = yield* free.start(half, 6);
      let refusal: unknown;
      try {
        ctx.start(half, -1);
      } catch (error) {
        refusal = error;
      }
      const taken = yield* ctx.allSettled([ctx.start(half, 1, { id: named })]);
      return { named, unnamed, refusal, taken: taken[0].status };
    });
    await store.start((runtime) => runtime.register(half, starter));
    const handle = await store.client.start(starter);
    const { named, unnamed, refusal, taken } = await handle.result({ timeout: SOON });
    expect(named).toBe(`${handle.id}-half`);
    expect(unnamed).toMatch(/^[0-9a-f-]{36}$/);
    expect(refusal).toBeInstanceOf(PayloadError);
    expect(refusal).toMatchObject({ path: 'input' });
    expect(taken).toBe('rejected');
    for (const [id, n] of [[named, 2] as const, [unnamed, 3] as const])
      expect(await store.client.handle(half, id).result({ timeout: SOON })).toEqual([n, '2.0.0', undefined]);
    expect((await store.client.getStatus(half, named))?.tags).toEqual({ of: 'starter' });
  });
});

import { defineOrchestration, type OnConflict } from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred, rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

// Starts of an id that is in use.

/** An orchestration that ends as its input says, or goes on until it is told. */
const job = defineOrchestration('job', function* (ctx, how: string) {
  if (how === 'wait') how = yield* ctx.waitForEvent<string>('go');
  if (how === 'fail') throw new Error('as told');
  return how;
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function ended(how: 'complete' | 'fail' | 'cancel' | 'terminate'): Promise<string> {
    const id = store.id(how);
    const isOpen = how === 'cancel' || how === 'terminate';
    await store.client.start(job, isOpen ? 'wait' : how, { id });
    if (how === 'cancel') await store.client.cancelInstance(id);
    if (how === 'terminate') await store.client.terminateInstance(id);
    await store.client.waitForOrchestration(id, SOON);
    return id;
  }

  async function again(id: string, onConflict: OnConflict): Promise<unknown> {
    const handle = await store.client.start(job, 'anew', { id, onConflict });
    return handle.result().catch((error) => error.name);
  }

  it('returns an instance that goes on, and begins anew after any end: returnOrRestart', async () => {
    await store.start((runtime) => runtime.register(job));
    const id = store.id();
    await store.client.start(job, 'wait', { id });
    const handle = await store.client.start(job, 'anew', { id, onConflict: 'returnOrRestart' });
    await store.client.raiseEvent(id, 'go', 'the first');
    expect(await handle.result()).toBe('the first');
    for (const how of ['complete', 'fail', 'cancel', 'terminate'] as const)
      expect(await again(await ended(how), 'returnOrRestart'), how).toBe('anew');
  });

  it('begins anew only after a failure: restartIfFailed', async () => {
    await store.start((runtime) => runtime.register(job));
    expect(await again(await ended('complete'), 'restartIfFailed')).toBe('complete');
    for (const how of ['fail', 'cancel', 'terminate'] as const)
      expect(await again(await ended(how), 'restartIfFailed'), how).toBe('anew');
    const id = store.id();
    await store.client.start(job, 'wait', { id });
    const handle = await store.client.start(job, 'anew', { id, onConflict: 'restartIfFailed' });
    await store.client.raiseEvent(id, 'go', 'the first');
    expect(await handle.result()).toBe('the first');
  });

  it('terminates an instance that goes on, and its activities: terminateAndRestart', async () => {
    const began = deferred<void>();
    const aborted = deferred<unknown>();
    const busy = defineOrchestration('busy', function* (ctx, isFirst: boolean) {
      if (!isFirst) return 'anew';
      yield* ctx.run('hang', ({ signal }) => {
        began.resolve();
        return new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            aborted.resolve(signal.reason);
            reject(signal.reason);
          });
        });
      });
    });
    await store.start((runtime) => runtime.register(busy, job));
    const id = store.id();
    await store.client.start(busy, true, { id });
    await began.promise;
    const handle = await store.client.start(busy, false, { id, onConflict: 'terminateAndRestart' });
    expect(await handle.result()).toBe('anew');
    expect(await aborted.promise).toBeInstanceOf(Error);
    expect((await store.client.getHistory(id)).map(({ kind }) => kind)).not.toContain('ExecutionTerminated');
    for (const how of ['complete', 'fail'] as const)
      expect(await again(await ended(how), 'terminateAndRestart'), how).toBe('anew');
  });

  it('leaves one instance when many start it at once: terminateAndRestart', async () => {
    await store.start((runtime) => runtime.register(job));
    const id = store.id();
    const starts = Array.from({ length: 8 }, () =>
      store.client.start(job, 'wait', { id, onConflict: 'terminateAndRestart' }),
    );
    await Promise.all(starts);
    await store.client.raiseEvent(id, 'go', 'done');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('done');
  });

  it('makes one instance anew when many start it at once: restartIfFailed', async () => {
    let runs = 0;
    const counted = defineOrchestration('counted', function* (ctx, isFirst: boolean) {
      if (isFirst) throw new Error('as told');
      yield* ctx.run('count', () => {
        runs += 1;
      });
    });
    await store.start((runtime) => runtime.register(counted));
    const id = store.id();
    const first = await store.client.start(counted, true, { id });
    expect(await rejection(first.result())).toMatchObject({ message: 'as told' });
    const starts = Array.from({ length: 8 }, () =>
      store.client.start(counted, false, { id, onConflict: 'restartIfFailed' }),
    );
    await Promise.all((await Promise.all(starts)).map((handle) => handle.result()));
    expect(runs).toBe(1);
  });

  it('replaces a detached instance and a child from an orchestration', async () => {
    const starter = defineOrchestration('starter', function* (ctx, other: string) {
      const outcomes: unknown[] = [];
      for (const onConflict of ['error', 'return', 'terminateAndRestart'] as const) {
        try {
          outcomes.push(yield* ctx.startOrchestration('job', other, 'anew', { onConflict }));
        } catch (error) {
          outcomes.push((error as Error).name);
        }
      }
      const id = `${other}/child`;
      outcomes.push(yield* ctx.callOrchestration(job, 'one', { id }));
      outcomes.push(yield* ctx.callOrchestration(job, 'two', { id, onConflict: 'restartIfTerminal' }));
      const waiting = ctx.callOrchestration(job, 'wait', { id: `${id}2` });
      yield* ctx.sleep(1);
      outcomes.push(yield* ctx.callOrchestration(job, 'three', { id: `${id}2`, onConflict: 'terminateAndRestart' }));
      try {
        yield* waiting;
      } catch (error) {
        outcomes.push((error as Error).name);
      }
      try {
        yield* ctx.startOrchestration('starter', ctx.instanceId, other, { onConflict: 'terminateAndRestart' });
      } catch (error) {
        outcomes.push((error as Error).name);
      }
      return outcomes;
    });
    await store.start((runtime) => runtime.register(job, starter));
    const other = store.id('other');
    await store.client.start(job, 'wait', { id: other });
    const handle = await store.client.start(starter, other);
    expect(await handle.result()).toEqual([
      'InstanceExistsError',
      other,
      other,
      'one',
      'two',
      'three',
      'SubOrchestrationError',
      'InstanceExistsError',
    ]);
    expect((await store.client.waitForOrchestration(other, SOON)).output).toBe('anew');
  });
});

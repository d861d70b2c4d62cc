// The time limit of an instance: the options timeout and gracePeriod of its start, on each store.

import { CancelledError, defineOrchestration, defineSchedule, SubOrchestrationError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const TIMEOUT_MS = 300;
const REASON = `timed out after ${TIMEOUT_MS} ms`;

/** Waits for ever, and says how it was cancelled. */
const waiter = defineOrchestration('waiter', function* (ctx): Generator<any, unknown, any> {
  const from = Date.now();
  try {
    return yield* ctx.waitForEvent('go');
  } catch (error) {
    if (error instanceof CancelledError) return { reason: error.reason, after: Date.now() - from };
    throw error;
  }
});

const rest = defineOrchestration('rest', function* (ctx, ms: number) {
  yield* ctx.sleep(ms);
});

/** Cleans up for ever. */
const stubborn = defineOrchestration('stubborn', function* (ctx) {
  try {
    yield* ctx.waitForEvent('never');
  } finally {
    yield* ctx.sleep('365d');
  }
});

/** Begins its executions anew, the last of which waits. */
const chain = defineOrchestration('chain', function* (ctx, round: number): Generator<any, number, any> {
  if (round < 3) {
    yield* ctx.sleep(TIMEOUT_MS / 6);
    return yield* ctx.continueAsNew(round + 1);
  }
  try {
    yield* ctx.waitForEvent('never');
  } catch {
    return round;
  }
  return -1;
});

/** Begins its executions anew without a wait. */
const endless = defineOrchestration('endless', function* (ctx, round: number): Generator<any, number, any> {
  return yield* ctx.continueAsNew(round + 1);
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('cancels the instance, wherever it sleeps', async () => {
    await store.start((runtime) => runtime.register(waiter), { cachedInstancesMax: 0 });
    const handle = await store.client.start(waiter, undefined, { timeout: TIMEOUT_MS });
    const result = (await handle.result({ timeout: SOON })) as { reason: string; after: number };
    expect(result.reason).toBe(REASON);
    expect(result.after).toBeGreaterThanOrEqual(TIMEOUT_MS);
    const history = await store.client.getHistory(handle.id);
    expect(history.map(({ kind }) => kind)).toEqual(['ExecutionStarted', 'CancelRequested', 'ExecutionCompleted']);
    expect(history[0]?.meta).toMatchObject({ timeLimit: { timeoutMs: TIMEOUT_MS } });
  });

  it('leaves an instance alone that ends in time', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const handle = await store.client.start(waiter, undefined, { timeout: '1h', gracePeriod: '1h' });
    await handle.raiseEvent('go', 'in time');
    expect(await handle.result({ timeout: SOON })).toBe('in time');
  });

  it('ends cleanup after the grace period', async () => {
    await store.start((runtime) => runtime.register(stubborn), { cachedInstancesMax: 0 });
    const options = { timeout: TIMEOUT_MS, gracePeriod: 50 };
    const handle = await store.client.start(stubborn, undefined, options);
    const ended = await store.client.waitForOrchestration(handle.id, SOON);
    expect(ended.status).toBe('Cancelled');
    expect(ended.error?.message).toContain(REASON);
    expect((ended.error?.cause as Error).message).toContain('grace period');
  });

  it('goes on over executions, with and without a wait in them', async () => {
    await store.start((runtime) => runtime.register(chain, endless), { cachedInstancesMax: 0 });
    const slow = await store.client.start(chain, 1, { timeout: TIMEOUT_MS });
    const quick = await store.client.start(endless, 1, { timeout: TIMEOUT_MS });
    expect(await slow.result({ timeout: SOON })).toBe(3);
    const ended = await store.client.waitForOrchestration(quick.id, SOON);
    expect(ended).toMatchObject({ status: 'Cancelled' });
    expect(ended.executionId).toBeGreaterThan(1);
  });

  it('limits children and detached instances', async () => {
    const parent = defineOrchestration('parent', function* (ctx): Generator<any, unknown, any> {
      const detached = ctx.start(waiter, undefined, { id: `${ctx.instanceId}-detached`, timeout: TIMEOUT_MS });
      yield* detached;
      try {
        yield* ctx.callOrchestration(stubborn, undefined, { timeout: TIMEOUT_MS, gracePeriod: 0 });
      } catch (error) {
        return error instanceof SubOrchestrationError && (error.cause as Error).message;
      }
      return 'it ended';
    });
    await store.start((runtime) => runtime.register(waiter, stubborn, parent));
    const handle = await store.client.start(parent);
    expect(await handle.result({ timeout: SOON })).toContain(REASON);
    const detached = store.client.handle(waiter, `${handle.id}-detached`);
    expect(await detached.result({ timeout: SOON })).toMatchObject({ reason: REASON });
  });

  it('limits what a message starts, and the runs of a schedule', async () => {
    const id = store.id('nightly');
    const start = { definition: waiter, timeout: TIMEOUT_MS };
    const nightly = defineSchedule(id, { every: '1d', start });
    await store.start((runtime) => runtime.register(waiter, nightly));
    const sent = store.id('sent');
    await store.client.enqueueEvent(sent, 'notes', 'hello', { start });
    expect(await store.client.handle(waiter, sent).result({ timeout: SOON })).toMatchObject({ reason: REASON });
    const { runId = '' } = await store.client.schedules.trigger(id);
    expect(await store.client.handle(waiter, runId).result({ timeout: SOON })).toMatchObject({ reason: REASON });
    await store.client.schedules.delete(id);
  });

  it('begins when the instance does: time in a queue and before a later start does not count', async () => {
    await store.start((runtime) => runtime.register(waiter, rest));
    const queue = store.id('queue');
    await store.client.queues.set(queue, { concurrency: 1 });
    const first = await store.client.start(waiter, undefined, { queue });
    await eventually(20_000, 'it runs', async () => (await store.client.queues.get(queue))?.running === 1);
    const second = await store.client.start(waiter, undefined, { queue, timeout: TIMEOUT_MS, delay: TIMEOUT_MS });
    const pause = await store.client.start(rest, 3 * TIMEOUT_MS);
    await pause.result({ timeout: SOON });
    expect((await second.status())?.status).toBe('Pending');
    await first.raiseEvent('go', 'there');
    const result = (await second.result({ timeout: SOON })) as { after: number };
    expect(result.after).toBeGreaterThanOrEqual(TIMEOUT_MS);
  });

  it('takes effect in another process after the one that ran the instance has gone', async () => {
    const runtime = await store.start((runtime) => runtime.register(waiter));
    const handle = await store.client.start(waiter, undefined, { timeout: 2 * TIMEOUT_MS });
    await eventually(20_000, 'it runs', async () => (await handle.status())?.status === 'Running');
    await runtime.shutdown();
    await store.start((runtime) => runtime.register(waiter));
    expect(await handle.result({ timeout: SOON })).toMatchObject({ reason: `timed out after ${2 * TIMEOUT_MS} ms` });
  });

  it('refuses options that make no sense', async () => {
    const start = (options: object) => store.client.start(waiter, undefined, options);
    await expect(start({ timeout: 0 })).rejects.toThrow(TypeError);
    await expect(start({ timeout: 'soon' })).rejects.toThrow(/timeout/);
    await expect(start({ gracePeriod: '1s' })).rejects.toThrow(/gracePeriod needs the option timeout/);
  });
});

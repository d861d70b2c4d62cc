// Changes of code while its instances run: `ctx.patched` over several deployments.

import { defineActivity, defineOrchestration, type OrchestrationContext, type OrchestrationDefinition } from 'perdure';
import { patched } from 'perdure/orchestration';
import { describe, expect, it } from 'vitest';

import { kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const charge = defineActivity('charge', async () => 'charged');
const check = defineActivity('check', async () => 'checked');

/** The three deployments of one orchestration. */
const old = defineOrchestration('order', function* (ctx) {
  yield ctx.waitForEvent('go');
  return [yield* ctx.call(charge)];
});
const withPatch = defineOrchestration('order', function* (ctx) {
  const done: string[] = [];
  if (ctx.patched('check first')) done.push(yield* ctx.call(check));
  yield ctx.waitForEvent('go');
  done.push(yield* ctx.call(charge));
  // Called in a helper, as the free function, and not for the first time.
  return patched('check first') ? done : [...done, 'unchecked'];
});
const newAlone = defineOrchestration('order', function* (ctx) {
  const done = [yield* ctx.call(check)];
  yield ctx.waitForEvent('go');
  return [...done, yield* ctx.call(charge)];
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  const deploy = (order: OrchestrationDefinition) => store.start((runtime) => runtime.register(order, charge, check));

  async function startWaiting(id: string): Promise<void> {
    await store.client.startOrchestration(id, 'order');
    await expect.poll(async () => (await store.client.getStatus(id))?.status).toBe('Running');
  }

  async function outputOf(id: string): Promise<unknown> {
    await store.client.raiseEvent(id, 'go');
    return (await store.client.waitForOrchestration(id, SOON)).output;
  }

  it('an execution from before a patch keeps the old code, and a later one needs no question', async () => {
    const [before, after] = [store.id('before'), store.id('after')];
    const first = await deploy(old);
    await startWaiting(before);
    await first.shutdown();

    const second = await deploy(withPatch);
    await startWaiting(after);
    expect(await outputOf(before)).toEqual(['charged', 'unchecked']);
    expect(kinds(await store.client.getHistory(before))).not.toContain('PatchApplied');
    await second.shutdown();

    await deploy(newAlone);
    expect(await outputOf(after)).toEqual(['checked', 'charged']);
    expect(await store.client.getHistory(after)).toContainEqual(
      expect.objectContaining({ kind: 'PatchApplied', name: 'check first' }),
    );
  });

  it('a replay of a new execution repeats its answers, in fibers and loops too', async () => {
    const order = defineOrchestration('loops', function* (ctx: OrchestrationContext) {
      const body = function* (name: string): Generator<any, boolean[], any> {
        const answers: boolean[] = [];
        for (let i = 0; i < 3; i += 1) {
          answers.push(ctx.patched(`of ${name}`), ctx.patched('shared'));
          yield* ctx.call(charge);
        }
        return answers;
      };
      return yield* ctx.all([body('a'), body('b')]);
    });
    await store.start((runtime) => runtime.register(order, charge), { cachedInstancesMax: 0 });
    const handle = await store.client.start(order, undefined, { id: store.id() });
    expect(await handle.result({ timeout: SOON })).toEqual([Array(6).fill(true), Array(6).fill(true)]);
    const patches = (await store.client.getHistory(handle.id)).filter((event) => event.kind === 'PatchApplied');
    expect(patches.map((event) => event.name)).toEqual(['of a', 'shared', 'of b']);
  });

  it('refuses an invalid id', async () => {
    const order = defineOrchestration('no id', function* (ctx) {
      return ctx.patched('');
    });
    await store.start((runtime) => runtime.register(order));
    const handle = await store.client.start(order, undefined, { id: store.id() });
    await expect(handle.result({ timeout: SOON })).rejects.toThrow(new TypeError('the patch id must not be empty'));
  });
});

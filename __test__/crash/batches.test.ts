// Inputs of batches are started by processes that die. In the end each input whose start was acknowledged has come to
// one instance, no input has come to two, and no instance has more inputs than a batch may have.

import { defineOrchestration } from 'perdure';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { expectAllOver } from '../support/invariants.ts';
import { Process } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { runShare } from './shares.ts';

vi.setConfig({ testTimeout: 240_000 });

/** Inputs in all, and processes that share them. */
const [INPUTS, SENDERS] = [4_500, 3];

/** The same as in batches.mjs. */
const collect = defineOrchestration(
  'collect',
  function* (ctx, numbers: number[]) {
    return yield* ctx.run('pass on', () => numbers);
  },
  { batch: { max: 7, within: '50ms', key: (number) => `${number % 3}` } },
);

afterEach(async () => {
  await Promise.all([...Process.running].map((sender) => sender.kill()));
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('each input comes to one batch', async () => {
    const part = INPUTS / SENDERS;
    const senders = await Promise.all(
      Array.from({ length: SENDERS }, (_, n) =>
        runShare('batches.mjs', { address: store.address, from: n * part, to: (n + 1) * part }),
      ),
    );
    for (const { length } of senders) expect(length).toBeGreaterThan(1);
    const started = senders.flat().flatMap((sender) => sender.all('started').flatMap(({ numbers }) => numbers));
    expect(started.length).toBeGreaterThan(INPUTS / 2);
    const runtime = await store.start((worker) => worker.register(collect));
    // A sender that dies while an instance is on probation alone looks like the death of a poison pill.
    for await (const { id } of store.client.listInstances({ status: 'Suspended' })) await store.client.resume(id);
    for await (const { id } of store.client.listInstances({ status: ['Pending', 'Running'] }))
      await store.client.waitForOrchestration(id, '60s');
    await runtime.shutdown();
    const inputs: number[] = [];
    for await (const { status, output } of store.client.listInstances()) {
      const numbers = output as number[];
      expect(status).toBe('Completed');
      expect(numbers.length).toBeLessThanOrEqual(7);
      expect(new Set(numbers.map((number) => number % 3)).size).toBe(1);
      inputs.push(...numbers);
    }
    const seen = new Set(inputs);
    expect(inputs.filter((number, n) => inputs.indexOf(number) !== n)).toEqual([]);
    expect(started.filter((number) => !seen.has(number))).toEqual([]);
    expect((await store.client.checkStore()).findings).toEqual([]);
    expectAllOver(store.address);
  });
});

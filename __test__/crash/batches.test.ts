// Inputs of batches are started by processes that die. In the end each input whose start was acknowledged has come to
// one instance, no input has come to two, and no instance has more inputs than a batch may have.

import { join } from 'node:path';
import { defineOrchestration } from 'perdure';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { expectAllOver } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';

vi.setConfig({ testTimeout: 240_000 });

type Said =
  | { readonly type: 'at'; readonly number: number }
  | { readonly type: 'started'; readonly numbers: number[] }
  | { readonly type: 'done' };

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
  const started: number[] = [];

  /** Runs a sender until it is done with its inputs. Returns the number of its deaths. */
  async function send(from: number, to: number): Promise<number> {
    let next = from;
    for (let deaths = 0; ; deaths += 1) {
      const options = { address: store.address, from: next, to, seed: next };
      const program = join(root, '__test__/crash/batches.mjs');
      const child = new Process<Said, object>(`sender ${from}`, [process.execPath, program, JSON.stringify(options)]);
      const { code, signal } = await child.exited();
      for (const { numbers } of child.all('started')) started.push(...numbers);
      if (child.all('done').length > 0) return deaths;
      expect({ code, signal, stderr: child.stderr }).toEqual({ code: null, signal: 'SIGKILL', stderr: '' });
      next = child.all('at').at(-1)?.number ?? next;
    }
  }

  it('each input comes to one batch', async () => {
    const part = INPUTS / SENDERS;
    const deaths = await Promise.all(Array.from({ length: SENDERS }, (_, n) => send(n * part, (n + 1) * part)));
    for (const count of deaths) expect(count).toBeGreaterThan(0);
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

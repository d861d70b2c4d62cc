import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HistoryEvent } from 'perdure';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { expectAllOver, expectInvariants } from '../support/invariants.ts';
import { POSTGRES_URL, type PostgresAddress, postgresAt, temporaryFolder } from '../support/providers.ts';
import { Proxy } from '../support/proxy.ts';
import { SOON, useStore } from '../support/store.ts';
import { readEffects, Worker } from '../support/worker.ts';
import { type Absence, concurrentViolations } from './checker.ts';
import { outputOf } from './outputs.ts';

const STEPS = 20;

describe('on Postgres', () => {
  const store = useStore(postgresAt(POSTGRES_URL));
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));
  let proxy: Proxy | undefined;
  afterEach(() => proxy?.close());

  it('a commit that arrives when its worker was taken over changes nothing (S8)', async () => {
    const { client } = store;
    const address = store.address as PostgresAddress;
    const log = join(folder, 'log');
    const way = await Proxy.to(address.url);
    proxy = way.proxy;
    const options = { log, stepMs: 20, runtime: { lease: '2s' } };
    // The first worker connects through a proxy that is blocked later, the other one directly.
    const first = await Worker.start({ ...options, store: { ...address, url: way.url }, name: 'first' });
    const other = await Worker.start({ ...options, store: address, name: 'other' });
    const instances = Array.from({ length: 10 }, (_, i) => ({ id: `late-${i}`, input: { seed: i, steps: STEPS } }));
    first.tell({ type: 'start', name: 'steps', instances });
    await first.said('acknowledged', instances.length);
    await first.said('step', 2 * instances.length);

    // The end of a step is on its way to the server while other workers continue the instance.
    const from = Date.now();
    await way.proxy.blockAt('ActivityCompleted');
    await other.said('step', instances.length);
    expect(way.proxy.holds).toBe(true);
    // The first worker has not begun anything for longer than a step takes.
    const absence: Absence = { worker: 'first', from, by: Date.now() };
    way.proxy.free();

    for (const { id, input } of instances) {
      expect(await client.waitForOrchestration(id, SOON), id).toMatchObject({
        status: 'Completed',
        output: outputOf(input.seed, STEPS),
      });
    }
    expectInvariants(address);
    expect(first.stderr).toMatch(/worker [-0-9a-f]+ lost its lease: .*; it starts over/);
    expect(await first.stop()).toEqual({ code: 0, signal: null });
    expect(await other.stop()).toEqual({ code: 0, signal: null });
    expectAllOver(address);

    const end = new Map<string, HistoryEvent[]>();
    for (const { id } of instances) end.set(id, await client.getHistory(id));
    expect(concurrentViolations(readEffects(log), [absence], end)).toEqual([]);
  });
});

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HistoryEvent } from 'perdure';
import { afterAll, describe, expect, it } from 'vitest';

import { expectAllOver, expectInvariants } from '../support/invariants.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { isLocked, query } from '../support/rows.ts';
import { SOON, useStore } from '../support/store.ts';
import { readEffects, Worker } from '../support/worker.ts';
import { type Absence, begunBefore, concurrentViolations } from './checker.ts';
import { outputOf } from './outputs.ts';

const STEPS = 20;
const LEASE_MS = 2_000;

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it('instances of a stopped worker continue elsewhere, and the returning worker repeats nothing', async () => {
    const { client, address } = store;
    const log = join(folder, 'log');
    const options = { store: address, log, stepMs: 20 };
    // Only this worker serves the queue `far`: activities for that queue run only after it is back.
    const zombie = await Worker.start({
      ...options,
      name: 'zombie',
      runtime: { lease: `${LEASE_MS}ms`, queues: ['default', 'far'] },
    });
    const other = await Worker.start({ ...options, name: 'other', runtime: { lease: `${LEASE_MS}ms` } });
    const workerOf = (name: string) => query(address, `SELECT id FROM workers WHERE name = '${name}'`);
    const before = workerOf('zombie');
    const instances = Array.from({ length: 10 }, (_, i) => ({ id: `zombie-${i}`, input: { seed: i, steps: STEPS } }));
    zombie.tell({ type: 'start', name: 'steps', instances });
    await zombie.said('acknowledged', instances.length);
    await zombie.said('step', 2 * instances.length);

    let from = Date.now();
    zombie.pause();
    while (isLocked(address)) {
      // The worker was stopped in the middle of a write to an SQLite file, and no other process can write while it
      // stands still. It is continued and stopped again.
      zombie.resume();
      from = Date.now();
      zombie.pause();
    }
    const absence: Absence = { worker: 'zombie', from, by: Date.now() };
    // No client starts anything now, so an attempt that the other worker begins was the zombie's.
    await other.said('step');
    // The takeover takes at most a lease and a second, on a machine that is not too busy.
    expect(Date.now() - from).toBeLessThan(LEASE_MS + 1_000 + 3_000);
    await client.startOrchestration('far', 'queued', { steps: 3 });
    expectInvariants(address);

    const back = Date.now();
    zombie.resume();
    expect(await client.waitForOrchestration('far', SOON)).toMatchObject({ status: 'Completed', output: 6 });
    expect(zombie.stderr).toMatch(/worker [-0-9a-f]+ lost its lease: .*; it starts over/);
    const after = workerOf('zombie');
    expect([before.length, after.length]).toEqual([1, 1]);
    expect(after, 'it is another worker').not.toEqual(before);
    for (const { id, input } of instances) {
      expect(await client.waitForOrchestration(id, SOON), id).toMatchObject({
        status: 'Completed',
        output: outputOf(input.seed, STEPS),
      });
    }
    expect(await zombie.stop()).toEqual({ code: 0, signal: null });
    expect(await other.stop()).toEqual({ code: 0, signal: null });
    expectAllOver(address);

    // The zombie ran no step that it had no right to: each step that began twice began in the zombie before it was
    // stopped, and in the other worker after that.
    const effects = begunBefore(readEffects(log), absence, back);
    const end = new Map<string, HistoryEvent[]>();
    for (const { id } of [...instances, { id: 'far' }]) end.set(id, await client.getHistory(id));
    expect(concurrentViolations(effects, [absence], end)).toEqual([]);
    const begins = effects.filter(({ event }) => event === 'begin');
    expect(begins.length, 'it was stopped in the middle of something').toBeGreaterThan(
      new Set(begins.map(({ key }) => key)).size,
    );
  });
});

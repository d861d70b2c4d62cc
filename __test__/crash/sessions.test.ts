// Sessions of activities while the processes that hold them are killed.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { expectInvariants } from '../support/invariants.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { readEffects, Worker } from '../support/worker.ts';

const SESSIONS = 20;
const STEPS = 10;

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  afterEach(() => expectInvariants(store.address));
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it('the sessions of a killed process continue on one other process each', async () => {
    const { client, address } = store;
    const log = join(folder, 'sessions.log');
    const start = (name: string, max: number, stepMs: number): Promise<Worker> =>
      Worker.start({ store: address, log, name, stepMs, runtime: { sessions: { max } } });
    // Two instances use each session.
    const ids = Array.from({ length: 2 * SESSIONS }, (_, n) => `${n % SESSIONS}:${n}`);
    // The first process takes as many sessions as it may before there is another one. It ends no step.
    const killed = await start('killed', 8, 3_600_000);
    for (const id of ids) await client.startOrchestration(id, 'session', { steps: STEPS / 2 });
    await killed.said('step', 16);
    const others = await Promise.all([start('second', 15, 20), start('third', 15, 20)]);
    await Promise.race(others.map((worker) => worker.said('step')));
    await killed.kill();
    for (const id of ids) expect((await client.waitForOrchestration(id, SOON)).output).toBe(15);
    for (const worker of others) await worker.stop();

    const begun = readEffects(log).filter(({ event }) => event === 'begin');
    const workers = new Map<string, string[]>();
    for (const { id, worker } of begun) {
      const [session = ''] = id.split(':');
      const seen = workers.get(session) ?? [];
      if (seen.at(-1) !== worker) seen.push(worker);
      workers.set(session, seen);
    }
    expect(workers.size).toBe(SESSIONS);
    for (const [session, seen] of workers) {
      const living = seen.filter((name) => name !== 'killed');
      expect(living, `the workers of session ${session}: ${seen}`).toHaveLength(1);
      expect(seen, `the workers of session ${session}`).toEqual(
        seen.includes('killed') ? ['killed', ...living] : living,
      );
    }
    const heldBy = (name: string): number => [...workers.values()].filter((seen) => seen.includes(name)).length;
    expect(heldBy('killed')).toBe(8);
    for (const name of ['second', 'third']) expect(heldBy(name)).toBeLessThanOrEqual(15);
  });
});

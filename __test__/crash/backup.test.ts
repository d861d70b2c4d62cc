// A backup that is taken while workers run, and its use when the store is lost.

import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client, SqliteProvider } from 'perdure';
import { afterAll, describe, expect, it } from 'vitest';

import { expectAllOver } from '../support/invariants.ts';
import { temporaryFolder } from '../support/providers.ts';
import { SOON } from '../support/store.ts';
import { Worker } from '../support/worker.ts';
import { outputOf } from './outputs.ts';

const STEPS = 8;

describe('a SQLite store', () => {
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it('that is restored from a backup under load has all work acknowledged before, and continues', async () => {
    const [path, copy] = [join(folder, 'store.db'), join(folder, 'copy.db')];
    const options = { store: { kind: 'sqlite', path }, log: join(folder, 'log'), stepMs: 20 } as const;
    const first = await Worker.start({ ...options, name: 'first' });
    const instances = Array.from({ length: 12 }, (_, i) => ({ id: `i-${i}`, input: { seed: i, steps: STEPS } }));
    first.tell({ type: 'start', name: 'steps', instances });
    await first.said('acknowledged', 6);
    await first.said('step', 10);
    // The worker is in the middle of steps, and of starting the remaining instances.
    const before = first.all('acknowledged').map(({ id }) => id);
    const provider = await SqliteProvider.open(path);
    expect((await provider.backup(copy)).bytes).toBeGreaterThan(0);
    await provider.close();
    await first.said('acknowledged', instances.length);
    await first.kill();

    // The store is lost with its log; the copy takes its place.
    for (const end of ['', '-wal', '-shm']) rmSync(`${path}${end}`, { force: true });
    renameSync(copy, path);
    const second = await Worker.start({ ...options, name: 'second', runtime: { lease: '1s' } });
    const restored = await SqliteProvider.open(path);
    const client = new Client(restored);
    for (const id of before) {
      const { input } = instances.find((instance) => instance.id === id)!;
      expect(await client.waitForOrchestration(id, SOON), id).toMatchObject({
        status: 'Completed',
        output: outputOf(input.seed, STEPS),
      });
    }
    for await (const { id } of client.listInstances()) await client.waitForOrchestration(id, SOON);
    expect(await client.checkStore()).toMatchObject({ findings: [], cursor: null });
    expect(await second.stop()).toEqual({ code: 0, signal: null });
    await restored.close();
    expectAllOver(options.store);
  });
});

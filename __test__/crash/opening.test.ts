import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { expectAllOver } from '../support/invariants.ts';
import { SHARED_STORES, type StoreSite, temporaryFolder } from '../support/providers.ts';
import { Worker } from '../support/worker.ts';

const PROCESSES = 8;

describe.each(SHARED_STORES)('on $name', (kind) => {
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));
  let site: StoreSite | undefined;
  afterEach(() => site?.remove());

  it(`${PROCESSES} processes that open a new store at once all start, and share it`, async () => {
    site = kind.create();
    const { address } = site;
    const names = Array.from({ length: PROCESSES }, (_, i) => `worker ${i}`);
    const workers = await Promise.all(
      names.map((name) => Worker.start({ store: address, log: join(folder, 'log'), name })),
    );
    const instances = names.map((id, i) => ({ id, input: { seed: i, steps: 3 } }));
    for (const [i, worker] of workers.entries()) {
      worker.tell({ type: 'start', name: 'steps', instances: instances.slice(i, i + 1) });
      await worker.said('acknowledged');
    }
    for (const worker of workers) {
      worker.tell({ type: 'wait', ids: names });
      await worker.said('ended', PROCESSES);
      expect(worker.all('ended').map(({ status }) => status)).toEqual(names.map(() => 'Completed'));
    }
    for (const worker of workers) {
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      expect(worker.stderr).toBe('');
    }
    expectAllOver(address);
  });
});

// Kept lines of orchestrations whose workers are killed.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { expectInvariants } from '../support/invariants.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { Worker } from '../support/worker.ts';

const STEPS = 20;
const INSTANCES = 20;
const KILLS = 4;

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  afterEach(() => expectInvariants(store.address));
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it('each line is kept once over kills of the workers', async () => {
    const { client, address } = store;
    const runtime = { keepLogs: {}, logLevel: 'error' };
    const options = { store: address, log: join(folder, 'log'), stepMs: 1, runtime };
    const ids = Array.from({ length: INSTANCES }, (_, n) => `logs-${n}`);
    for (const id of ids) await client.startOrchestration(id, 'logs', { steps: STEPS });
    for (let kill = 1; kill <= KILLS; kill += 1) {
      const worker = await Worker.start({ ...options, name: `worker ${kill}` });
      await worker.said('step', 50 + kill);
      await worker.kill();
      await worker.exited();
    }
    const last = await Worker.start({ ...options, name: 'the last worker' });
    const expected = Array.from({ length: STEPS }, (_, n) => [`before ${n + 1}`, `after ${n + 1}`]).flat();
    for (const id of ids) {
      expect((await client.waitForOrchestration(id, SOON)).status).toBe('Completed');
      const page = await client.logs(id, { limit: 1_000 });
      expect(page?.lines.map(({ message }) => message)).toEqual(expected);
    }
    await last.stop();
  });
});

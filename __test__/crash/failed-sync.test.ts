// A commit whose sync fails is written again. If the failure persists, its caller gets an error. Its frames are in the
// log by then, and a process that reads the log after a crash may find them. The error must therefore say that the
// outcome is unknown.

import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client, SqliteProvider } from 'perdure';
import { afterAll, describe, expect, it } from 'vitest';
import { Process, root } from '../support/process.ts';
import { temporaryFolder } from '../support/providers.ts';

interface Told {
  readonly type: 'told';
  readonly told: unknown;
}

const traces = process.platform === 'linux' && spawnSync('strace', ['-o', '/dev/null', 'true']).status === 0;

describe.skipIf(!traces)('on an SQLite file (with strace, on Linux)', () => {
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it("a start whose sync failed has the outcome 'unknown', and may be there after a crash", async () => {
    const path = join(folder, 'store.db');
    const child = new Process<Told, never>('starter', [
      process.execPath,
      join(root, '__test__/crash/failed-sync.mjs'),
      path,
    ]);
    await child.said('told');
    await child.kill();
    const [{ told }] = child.all('told') as [Told];
    expect(told).toMatchObject({ name: 'ProviderError', retryable: true, outcome: 'unknown' });
    expect(told).toMatchObject({
      message: expect.stringMatching(/check its disk\. It is unknown if the write took effect\.$/),
    });

    const provider = await SqliteProvider.open(path);
    const client = new Client(provider);
    expect(await client.getStatus('before')).toMatchObject({ status: 'Pending' });
    expect(await client.getStatus('during')).toMatchObject({ status: 'Pending' });
    // A client that got this error may repeat the start.
    await client.startOrchestration('during', 'nobody registers this', undefined, { onConflict: 'return' });
    expect((await client.listInstances().page()).items.map(({ id }) => id).sort()).toEqual(['before', 'during']);
    await provider.close();
  });
});

// Workers of two users on one machine with systemd's `ProtectProc=`. A process that /proc does not show is not dead.
// Such workers once took each other over every two seconds.

import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

import { behindHidepid, isShownTo, noHidepid } from '../support/hidepid.ts';
import { POSTGRES_URL, postgresAt, temporaryFolder } from '../support/providers.ts';
import { query } from '../support/rows.ts';
import { SOON, useStore } from '../support/store.ts';
import { Worker } from '../support/worker.ts';
import { outputOf } from './outputs.ts';

const USERS = [65_532, 65_533] as const;
/** No lease ends while the test runs, so each takeover happens because a process is gone. */
const LEASE = '1h';
const skipped = noHidepid === undefined ? '' : ` (skipped: ${noHidepid})`;
const GONE = 'is gone; its instances continue on other workers';

describe('on Postgres', () => {
  const store = useStore(postgresAt(POSTGRES_URL));
  const folder = temporaryFolder(0o777);
  afterAll(() => rmSync(folder, { recursive: true }));

  it.skipIf(noHidepid !== undefined)(
    `a worker that is hidden from the others keeps its work, and is taken over when it dies${skipped}`,
    async () => {
      const { client, address } = store;
      const log = join(folder, 'log');
      const start = async (name: string, user: number, more: object) => {
        const options = { store: address, log, name, runtime: { lease: LEASE, logLevel: 'info' }, ...more };
        const worker = Worker.spawn(options, behindHidepid(user));
        await worker.said('ready');
        return worker;
      };
      const first = await start('first', USERS[0], { stepMs: 500, holds: true });
      chmodSync(log, 0o666);
      // The first worker holds one instance, and the other takes it seconds: the second worker looks at the first one
      // again and again meanwhile.
      first.tell({ type: 'start', name: 'holds', instances: [{ id: 'held', input: null }] });
      await first.said('step');
      const second = await start('second', USERS[1], {});
      const [row] = query(address, `SELECT pid FROM workers WHERE name = 'first'`);
      expect(isShownTo(USERS[1], Number(row?.pid)), 'the first is hidden from the second').toBe(false);
      first.tell({ type: 'start', name: 'steps', instances: [{ id: 'steps', input: { seed: 1, steps: 12 } }] });
      await first.said('acknowledged', 2);
      expect(await client.waitForOrchestration('steps', SOON)).toMatchObject({
        status: 'Completed',
        output: outputOf(1, 12),
      });
      expect(first.stderr + second.stderr).not.toContain(GONE);
      expect(second.all('step')).toEqual([]);

      await first.kill();
      // Its process id is free, and the second worker may check that.
      await second.wrote(GONE);
      expect(await client.waitForOrchestration('held', SOON)).toMatchObject({ status: 'Completed', output: 'second' });
      expect(await second.stop()).toEqual({ code: 0, signal: null });
    },
  );
});

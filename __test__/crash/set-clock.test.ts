// A schedule under workers of a machine whose clock is set back and forward: due times are late or made up for, and
// each of them has one run.

import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { expectInvariants } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { noWallClock, WallClock } from '../support/wall-clock.ts';

const EVERY_MS = 100;
/** The time by which the clock is set back. The runtime takes less than a second for a clock that is not exact. */
const SET_MS = 1_500;
const WITHIN_MS = 60_000;
const skipped = noWallClock === undefined ? '' : ` (skipped: ${noWallClock})`;

const program = join(root, '__test__/crash/schedules.mjs');

type Part = Process<{ type: 'ready' } | { type: 'rung'; atMs: number }, { type: 'ring' }>;

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

describe.skipIf(noWallClock !== undefined).each(SHARED_STORES)(`on $name${skipped}`, (kind) => {
  const store = useStore(kind);
  let clock: WallClock;
  beforeAll(() => {
    clock = new WallClock();
  });
  afterEach(() => expectInvariants(store.address));
  afterAll(() => clock.remove());

  async function start(n: number): Promise<Part> {
    const options = { store: store.address, name: 'clocks', everyMs: EVERY_MS };
    const command = [...clock.command, process.execPath, program, JSON.stringify(options)];
    const part: Part = new Process(`clock ${n}`, command);
    await part.said('ready');
    return part;
  }

  it('each due time has one run while the clock of the machine is set', async () => {
    const { client } = store;
    const started = async (): Promise<number> => (await client.schedules.get('clock'))?.counts.started ?? 0;
    const more = async (runs: number): Promise<void> => {
      const from = await started();
      await eventually(WITHIN_MS, `${runs} more runs`, async () => (await started()) >= from + runs);
    };
    /** Resolves when the due times of a worker's store are behind this process. */
    const isBehind = async (part: Part): Promise<void> => {
      // The clock of a store on a server is that of the server.
      if (kind.name === 'Postgres') return;
      await eventually(WITHIN_MS, 'the clock is behind', async () => {
        part.tell({ type: 'ring' });
        await part.said('rung', part.all('rung').length + 1);
        return (part.all('rung').at(-1)?.atMs ?? 0) < Date.now() - SET_MS / 2;
      });
    };
    const workers = [await start(0), await start(1)] as [Part, Part];
    await more(3);
    clock.set(-SET_MS);
    await isBehind(workers[0]);
    await more(3);
    // The clock is set back while no worker runs.
    await Promise.all(workers.map((worker) => worker.kill()));
    clock.set(-2 * SET_MS);
    workers[0] = await start(2);
    workers[1] = await start(3);
    await isBehind(workers[1]);
    await more(3);
    clock.set(0);
    await more(10);

    await client.schedules.pause('clock');
    const found = await client.schedules.get('clock');
    expect(found?.counts).toMatchObject({ skipped: 0, missed: 0 });
    const dues: number[] = [];
    await eventually(WITHIN_MS, 'all runs have ended', async () => {
      dues.length = 0;
      for await (const { id, status } of client.listInstances({ name: 'tick' }))
        if (status === 'Completed') dues.push(Date.parse(id.slice('clock/'.length)));
      return dues.length === found?.counts.started;
    });
    dues.sort((a, b) => a - b);
    const [first = 0] = dues;
    expect(dues).toEqual(dues.map((_, n) => first + n * EVERY_MS));
  }, 240_000);
});

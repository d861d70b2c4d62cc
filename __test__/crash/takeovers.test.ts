// The deaths of workers that instances live through, as they are stored and drawn.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

import { perdure, storeFlags } from '../cli/perdure.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { Worker } from '../support/worker.ts';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it('each killed owner of an instance is named in its takeovers and in its timeline', async () => {
    const { client, address } = store;
    const options = { store: address, log: join(folder, 'log'), stepMs: 5, runtime: { logLevel: 'error' } };
    const id = store.id('steps');
    await client.startOrchestration(id, 'steps', { seed: 1, steps: 60 });
    for (const name of ['one', 'two']) {
      const worker = await Worker.start({ ...options, name, runtime: { ...options.runtime, workerName: name } });
      await worker.said('step', 5);
      await worker.kill();
      await worker.exited();
    }
    const last = await Worker.start({ ...options, name: 'last' });
    expect((await client.waitForOrchestration(id, SOON)).status).toBe('Completed');
    await last.stop();

    const takeovers = await client.takeovers(id);
    expect(takeovers.map(({ worker }) => worker.name)).toEqual(['one', 'two']);
    const history = await client.getHistory(id);
    for (const { time, eventId, executionId, activityEventId } of takeovers) {
      expect([executionId, activityEventId]).toEqual([1, undefined]);
      const next = history.find((event) => event.eventId === eventId);
      expect(next?.time.getTime()).toBeGreaterThanOrEqual(time.getTime());
    }
    const drawn = await perdure(...storeFlags(address), 'timeline', id, '--all');
    const lines = drawn.out.split('\n').map((line) => line.split(/ {2,}/)[0]);
    const [one, two] = ['✗ worker one died', '✗ worker two died'].map((line) => lines.indexOf(line));
    expect(one).toBeGreaterThan(0);
    expect(two).toBeGreaterThan(one as number);
    expect(await client.deleteInstance(id)).toEqual({ deleted: 1 });
    await expect(client.takeovers(id)).rejects.toThrow('no instance');
  });

  it('a killed worker that ran an activity for another worker is named with that activity', async () => {
    const { client, address } = store;
    const options = { store: address, log: join(folder, 'log'), stepMs: 5, runtime: { logLevel: 'error' } };
    const owner = await Worker.start({ ...options, name: 'owner' });
    const far = { ...options.runtime, queues: ['far'] };
    const helper = await Worker.start({
      ...options,
      name: 'helper',
      stepMs: 600_000,
      runtime: { ...far, workerName: 'helper' },
    });
    const id = store.id('far');
    // A worker owns the instances that it starts.
    owner.tell({ type: 'start', name: 'queued', instances: [{ id, input: { steps: 1 } }] });
    await helper.said('step');
    await helper.kill();
    await helper.exited();
    const next = await Worker.start({ ...options, name: 'next', runtime: far });
    expect((await client.waitForOrchestration(id, SOON)).status).toBe('Completed');
    for (const worker of [next, owner]) await worker.stop();
    const scheduled = (await client.getHistory(id)).find(({ kind }) => kind === 'ActivityScheduled')?.eventId as number;
    expect(await client.takeovers(id)).toEqual([
      {
        time: expect.any(Date),
        worker: { id: expect.any(String), name: 'helper' },
        executionId: 1,
        eventId: scheduled + 1,
        activityEventId: scheduled,
      },
    ]);
  });
});

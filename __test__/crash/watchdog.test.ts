// Code that blocks the event loop, and code that ends its process. Other instances are not held up for long, and an
// instance that does this again and again is suspended.

import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { InstanceStatus } from 'perdure';
import { afterAll, describe, expect, it } from 'vitest';

import { historyViolations } from '../support/history.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { type Effect, readEffects, Worker, type WorkerOptions } from '../support/worker.ts';

const DEADLINE_MS = 1_000;
/**
 * By then another worker has taken the instances that were released, and run them. It may take another fifth of the
 * deadline to notice them.
 */
const IN_TIME = '3s';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  function worker(log: string, name: string, more: Partial<WorkerOptions> = {}): Promise<Worker> {
    return Worker.start({
      store: store.address,
      log: join(folder, log),
      name,
      runtime: { turnDeadline: DEADLINE_MS },
      ...more,
    });
  }

  /** Starts a harmful worker, with instances that wait for an activity which returns in every other worker. */
  async function harmful(log: string, name: string, count = 20): Promise<{ first: Worker; ids: string[] }> {
    const first = await worker(log, name, { holds: true, harms: true });
    const ids = Array.from({ length: count }, () => store.id('waits'));
    first.tell({ type: 'start', name: 'holds', instances: ids.map((id) => ({ id, input: null })) });
    await first.said('step', ids.length);
    await first.said('acknowledged', ids.length);
    return { first, ids };
  }

  async function start(of: Worker, name: string, input: unknown = null): Promise<string> {
    const id = store.id(name);
    const before = of.all('acknowledged').length;
    of.tell({ type: 'start', name, instances: [{ id, input }] });
    await of.said('acknowledged', before + 1);
    return id;
  }

  /**
   * Polls until the instance is suspended. There is no notification: the worker that decided on the suspension may be
   * held up.
   */
  async function suspended(id: string): Promise<InstanceStatus> {
    for (;;) {
      const status = await store.client.getStatus(id);
      if (status?.status === 'Suspended') return status;
    }
  }

  function effectsOf(log: string, id: string): Pick<Effect, 'event' | 'worker'>[] {
    const effects = readEffects(join(folder, log)).filter((effect) => effect.id === id);
    return effects.map(({ event, worker: by }) => ({ event, worker: by }));
  }

  it('an orchestration that never yields blocks no other instance, and the third worker suspends it', async () => {
    const { client } = store;
    const log = 'spins';
    const { first, ids } = await harmful(log, 'first');
    const other = await worker(log, 'other');
    const spins = await start(first, 'spins');
    await client.raiseEvent(spins, 'go');
    for (const id of ids)
      expect(await client.waitForOrchestration(id, IN_TIME)).toMatchObject({ status: 'Completed', output: 'other' });
    expect(first.stderr).toContain(`held up for more than ${DEADLINE_MS} ms by a turn of instance '${spins}'`);

    for (const name of ['second', 'third']) await (await worker(log, name, { harms: true })).wrote('held up');
    const { error } = await suspended(spins);
    expect(error).toMatchObject({
      code: 'SUSPENDED',
      message: expect.stringMatching(/^3 workers died .*: its turn blocked .* for more than 1000 ms$/),
    });
    expect(historyViolations(await client.getHistory(spins), 'Suspended')).toEqual([]);

    const later = await start(other, 'holds');
    expect(await client.waitForOrchestration(later, SOON)).toMatchObject({ output: 'other' });
    await client.cancelInstance(spins, 'enough');
    expect(await client.getStatus(spins)).toMatchObject({ status: 'Cancelled' });
    expect(await other.stop()).toEqual({ code: 0, signal: null });
    expect(other.stderr).toBe('');
  });

  it('an activity that blocks the event loop is not run twice, and others do not wait for it', async () => {
    const { client } = store;
    const log = 'blocks';
    const { first, ids } = await harmful(log, 'first');
    const until = join(folder, 'it may go on');
    const blocks = await start(first, 'blocks', { until, isLater: false });
    await client.raiseEvent(blocks, 'go');
    await first.wrote('held up');
    const other = await worker(log, 'other', { harms: true });
    for (const id of ids)
      expect(await client.waitForOrchestration(id, IN_TIME)).toMatchObject({ status: 'Completed', output: 'other' });
    expect(effectsOf(log, blocks)).toEqual([{ event: 'begin', worker: 'first' }]);
    writeFileSync(until, '');
    expect(await client.waitForOrchestration(blocks, SOON)).toMatchObject({ status: 'Completed', output: 'first' });
    expect(effectsOf(log, blocks)).toEqual([
      { event: 'begin', worker: 'first' },
      { event: 'end', worker: 'first' },
    ]);

    // The worker is back, and takes work.
    expect(await other.stop()).toEqual({ code: 0, signal: null });
    const later = store.id('later');
    await client.startOrchestration(later, 'steps', { seed: 1, steps: 3 });
    expect(await client.waitForOrchestration(later, SOON)).toMatchObject({ status: 'Completed' });
    expect(await first.stop()).toEqual({ code: 0, signal: null });
  });

  it('an activity that blocks the event loop after an await is not run twice either', async () => {
    const { client } = store;
    const log = 'blocks later';
    const first = await worker(log, 'first', { harms: true });
    const until = join(folder, 'it may go on later');
    const blocks = await start(first, 'blocks', { until, isLater: true });
    await client.raiseEvent(blocks, 'go');
    await first.said('step');
    // Work must wait for the thread, or the watchdog does not miss it.
    const ids = Array.from({ length: 20 }, () => store.id('steps'));
    for (const id of ids) await client.startOrchestration(id, 'steps', { seed: 1, steps: 1 });
    await first.wrote('held up for more than 1000 ms by code outside');
    const other = await worker(log, 'other', { harms: true });
    for (const id of ids) expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed' });
    expect(effectsOf(log, blocks)).toEqual([{ event: 'begin', worker: 'first' }]);
    writeFileSync(until, '');
    expect(await client.waitForOrchestration(blocks, SOON)).toMatchObject({ status: 'Completed', output: 'first' });
    expect(effectsOf(log, blocks)).toEqual([
      { event: 'begin', worker: 'first' },
      { event: 'end', worker: 'first' },
    ]);
    await Promise.all([first.stop(), other.stop()]);
  });

  it.each([
    // The first turn wakes the instance. Its process ends before it has acquired the instance, which is no evidence.
    ['turn', 6, 7],
    ['activity', 6, 6],
  ])(
    'an instance whose %s ends the process each time is suspended, and the other instances continue',
    async (what, count, deaths) => {
      const { client } = store;
      const log = `exits ${what}`;
      const { first, ids } = await harmful(log, 'first', count);
      const exits = await start(first, `exits in ${what}`);
      await client.raiseEvent(exits, 'go');
      expect(await first.exited()).toEqual({ code: 3, signal: null });
      // Once the instance is tried together with the others. Then the others are tried alone, one by one.
      for (let death = 2; death <= deaths; death += 1) {
        const next = Worker.spawn({
          store: store.address,
          log: join(folder, log),
          name: `worker ${death}`,
          holds: true,
          harms: true,
        });
        expect(await next.exited(), `death ${death}`).toEqual({ code: 3, signal: null });
        expect((await client.getStatus(exits))?.status).toBe('Running');
      }
      await store.start(() => {});
      await store.suspended(exits);
      expect(store.errors.splice(0).map(({ message }) => message)).toEqual([
        expect.stringContaining(`instance '${exits}' is suspended`),
      ]);
      const { error } = await suspended(exits);
      expect(error).toMatchObject({
        code: 'SUSPENDED',
        message: '3 workers died or were blocked while it was running: the last worker died',
      });
      expect(historyViolations(await client.getHistory(exits), 'Suspended')).toEqual([]);

      const last = await worker(log, 'last', { harms: true });
      for (const id of ids)
        expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output: 'last' });
      await client.terminateInstance(exits);
      expect(await client.getStatus(exits)).toMatchObject({ status: 'Terminated' });
      expect(await last.stop()).toEqual({ code: 0, signal: null });
      expect(last.stderr).toBe('');
    },
  );

  it('an instance that waits is not suspended, however many workers are killed under it', async () => {
    const { client } = store;
    const log = 'killed';
    const id = store.id('waits');
    await client.startOrchestration(id, 'holds');
    for (let kill = 1; kill <= 6; kill += 1) {
      const victim = await worker(log, `victim ${kill}`, { holds: true });
      await victim.said('step');
      // The worker lives on for a while: if it were killed at once, it would look as if the instance had ended its
      // process.
      await client.waitForOrchestration(await start(victim, 'naps', 800), SOON);
      await victim.kill();
    }
    const last = await worker(log, 'last');
    expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output: 'last' });
    expect(await last.stop()).toEqual({ code: 0, signal: null });
    expect(last.stderr).toBe('');
  });
});

// Schedules under workers that are killed at any moment: each due time has one run, or is told as skipped, and no two
// runs go on at once where overlap forbids it.

import { join } from 'node:path';
import type { ScheduleInfo } from 'perdure';
import { afterEach, describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { expectInvariants } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { pause, seeded } from '../support/worker-parts.mjs';

const WORKERS = 3;
const KILLS = 25;
const EVERY_MS = 100;
/** Runs that end between two kills. */
const BETWEEN_KILLS = 6;
const WITHIN_MS = 120_000;

/** The schedules beside it, whose runs overlap now and then. Those of `buffer` come in bursts, after a kill. */
const OVERLAPS = [
  { overlap: 'skip', every: 1_000, upToMs: 2_000 },
  { overlap: 'buffer', every: 1_500, upToMs: 1_000 },
  { overlap: 'cancelPrevious', every: 1_000, upToMs: 2_000 },
] as const;

const program = join(root, '__test__/crash/schedules.mjs');

type Part = Process<{ type: 'ready' }, object>;

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  afterEach(() => expectInvariants(store.address));

  function start(n: number): Part {
    // All of them declare the schedule, and their name is that of its declaration.
    const options = { store: store.address, name: 'clocks', everyMs: EVERY_MS, overlaps: OVERLAPS };
    return new Process(`clock ${n}`, [process.execPath, program, JSON.stringify(options)]);
  }

  /** Ends the due times of a schedule, and waits until its last run has ended. Returns its due times. */
  async function ended(id: string): Promise<ScheduleInfo> {
    const { schedules } = store.client;
    const { spec } = (await schedules.get(id)) as ScheduleInfo;
    await schedules.upsert(id, { at: ['2000-01-01'], overlap: spec.overlap, start: spec.start });
    await eventually(WITHIN_MS, `the runs of ${id} have ended`, async () => {
      const { recent = [] } = (await schedules.get(id)) ?? {};
      return recent.every(({ outcome }) => outcome !== 'running' && outcome !== 'buffered');
    });
    return (await schedules.get(id)) as ScheduleInfo;
  }

  it('starts one run for each due time, and misses none', async () => {
    const random = seeded(3);
    const { client } = store;
    const started = async (): Promise<number> => (await client.schedules.get('clock'))?.counts.started ?? 0;
    const workers = Array.from({ length: WORKERS }, (_, n) => start(n));
    let next = BETWEEN_KILLS;
    for (let kills = 0; kills < KILLS; await pause(10)) {
      if ((await started()) < next) continue;
      const at = Math.floor(random() * WORKERS);
      // Two die at once now and then, also while one of them starts.
      for (const n of kills % 5 === 4 ? [at, (at + 1) % WORKERS] : [at]) {
        await workers[n]?.kill();
        workers[n] = start(n);
        kills += 1;
      }
      next = (await started()) + BETWEEN_KILLS;
    }
    await client.schedules.pause('clock');
    const found = await client.schedules.get('clock');
    expect(found?.counts).toMatchObject({ skipped: 0, missed: 0 });
    const all = async () => {
      const runs: { id: string; status: string }[] = [];
      for await (const run of client.listInstances({ name: 'tick' })) runs.push(run);
      return runs;
    };
    await eventually(WITHIN_MS, 'all runs have ended', async () => {
      const runs = await all();
      return runs.length === found?.counts.started && runs.every(({ status }) => status === 'Completed');
    });
    const dues = (await all()).map(({ id }) => Date.parse(id.slice('clock/'.length))).toSorted((a, b) => a - b);
    const [first = 0] = dues;
    expect(dues).toEqual(dues.map((_, n) => first + n * EVERY_MS));
    await eventually(WITHIN_MS, 'the schedule was told of each end', async () => {
      const { recent = [] } = (await client.schedules.get('clock')) ?? {};
      return recent.length === 100 && recent.every(({ outcome }) => outcome === 'completed');
    });

    for (const { overlap, every } of OVERLAPS) {
      const { recent, counts } = await ended(overlap);
      const runs = new Map<number, string>();
      for await (const { id, status } of client.listInstances({ idPrefix: `${overlap}/` }))
        runs.set(Date.parse(id.slice(overlap.length + 1)), status);
      expect(counts, overlap).toMatchObject({ missed: 0, started: runs.size });
      // The first due time has a run. Each later one has a run or is told as skipped.
      const [from, to] = [Math.min(...runs.keys()), recent[0]?.due.getTime() ?? 0];
      expect(counts.started + counts.skipped, overlap).toBe((to - from) / every + 1);
      for (const { due, runId, outcome } of recent) {
        expect(runs.has(due.getTime()), `${overlap} at ${due.toISOString()}`).toBe(outcome !== 'skipped');
        expect(runId !== undefined).toBe(outcome !== 'skipped');
      }
      if (overlap === 'buffer') expect(counts.skipped).toBe(0);
      const ends = new Set([...runs.values()]);
      expect(ends, overlap).toEqual(new Set(overlap === 'cancelPrevious' ? ['Completed', 'Cancelled'] : ['Completed']));
      const room = await client.getState(`room/${overlap}`, 'state');
      expect(room?.value, overlap).toMatchObject({ inside: [], most: 1 });
    }
  }, 480_000);
});

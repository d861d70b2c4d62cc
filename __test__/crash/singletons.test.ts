// Singletons that several processes start while these are killed at any moment: no two of one key run at once, and each
// start that was acknowledged runs.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { effectsSoFar } from '../support/effects.ts';
import { expectInvariants } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { pause, seeded } from '../support/worker-parts.mjs';

const PROCESSES = 3;
const KILLS = 15;
/** Instances that end between two kills. */
const BETWEEN_KILLS = 6;
const KEYS = 3;
const WITHIN_MS = 120_000;

const program = join(root, '__test__/crash/singletons.mjs');

/** A line of the log: a start was acknowledged, or an instance has begun or ended. */
interface Line {
  readonly event: 'started' | 'begin' | 'end';
  readonly id: string;
}

type Part = Process<{ type: 'ready' }, object>;

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

const keyOf = (id: string): string => id.split('/', 1)[0] as string;

/** Returns the instances that ran while another one of their key did. Attempts are repeated after a kill. */
function overlaps(lines: readonly Line[]): string[] {
  const [atWork, over] = [new Map<string, string>(), new Set<string>()];
  const found: string[] = [];
  for (const { event, id } of lines) {
    const other = atWork.get(keyOf(id));
    if (event === 'begin' && !over.has(id)) {
      if (other !== undefined && other !== id) found.push(`${id} beside ${other}`);
      atWork.set(keyOf(id), id);
    } else if (event === 'end') {
      over.add(id);
      if (other === id) atWork.delete(keyOf(id));
    }
  }
  return found;
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterEach(() => expectInvariants(store.address));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('runs one at a time, and loses none', async () => {
    const random = seeded(13);
    const log = join(folder, 'effects');
    const lines = (): Line[] => effectsSoFar(log) as unknown as Line[];
    const idsOf = (which: Line['event']) => new Set(lines().flatMap(({ event, id }) => (event === which ? [id] : [])));
    let count = 0;
    const start = (starts: boolean): Part => {
      count += 1;
      const options = { store: store.address, name: `process ${count}`, log, keys: KEYS, seed: count, starts };
      return new Process(`process ${count}`, [process.execPath, program, JSON.stringify(options)]);
    };
    const parts = Array.from({ length: PROCESSES }, () => start(true));
    let next = BETWEEN_KILLS;
    for (let kills = 0; kills < KILLS; await pause(10)) {
      if (idsOf('end').size < next) continue;
      const at = Math.floor(random() * PROCESSES);
      await parts[at]?.kill();
      parts[at] = start(true);
      kills += 1;
      next = idsOf('end').size + BETWEEN_KILLS;
    }
    await Promise.all(parts.map((part) => part.kill()));
    start(false);
    await eventually(WITHIN_MS, 'all have ended', async () => {
      const open = await store.client.listInstances({ name: 'alone', status: ['Pending', 'Running'] }).page();
      return open.items.length === 0;
    });
    expect(overlaps(lines())).toEqual([]);
    const [started, ended] = [idsOf('started'), idsOf('end')];
    expect(started.size).toBeGreaterThan(KILLS);
    expect([...started].filter((id) => !ended.has(id))).toEqual([]);
  }, 300_000);
});

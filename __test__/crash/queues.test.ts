// Queues under workers that are killed at any moment: their limits are never exceeded, and no slot leaks.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { QueueLimits } from 'perdure';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { type Effect, effectsSoFar } from '../support/effects.ts';
import { expectInvariants } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { pause, seeded } from '../support/worker-parts.mjs';

const WORKERS = 4;
const KILLS = 30;
/** Instances that end between two kills. */
const BETWEEN_KILLS = 6;
const INSTANCES = 300;
const KEYS = 5;
/** The queue of the instances, and that of the activity that each of them calls. */
const QUEUES = {
  mails: { concurrency: 4, perKey: { concurrency: 2 }, fairness: 'key' },
  calls: { concurrency: 2, perKey: { concurrency: 1 } },
} satisfies Record<string, QueueLimits>;
const WITHIN_MS = 120_000;

const program = join(root, '__test__/crash/queues.mjs');

type Part = Process<{ type: 'ready' }, object>;

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

/** Returns the name of an instance's key, from its id. */
const keyOf = (id: string): string => id.split('/', 1)[0] as string;

/**
 * Returns the moments at which more instances, or more attempts, had a slot than the limits of a queue allow. Each has
 * its slot at least from its first line on until the first line of its end, also while no worker is there: it is
 * repeated only in the slot that it still has. The lines of the log are in the order in which they were written.
 */
function excesses(effects: readonly Effect[], queue: keyof typeof QUEUES): string[] {
  const [limits, [begin, end]] = [QUEUES[queue], EVENTS[queue]];
  const [atWork, over] = [new Set<string>(), new Set<string>()];
  const found: string[] = [];
  for (const { event, id } of effects) {
    if (event === begin && !over.has(id)) atWork.add(id);
    else if (event === end) {
      over.add(id);
      atWork.delete(id);
    }
    if (atWork.size > limits.concurrency) found.push(`${[...atWork].join(', ')} at once`);
    const ofKey = [...atWork].filter((other) => keyOf(other) === keyOf(id));
    if (ofKey.length > limits.perKey.concurrency) found.push(`${ofKey.join(', ')} at once of one key`);
  }
  return found;
}

/** The events of the log between which an instance, or an attempt, has a slot of the queue. */
const EVENTS = { mails: ['begin', 'end'], calls: ['call', 'called'] } as const;

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterEach(() => expectInvariants(store.address));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('exceeds no limit, and leaks no slot', async () => {
    const random = seeded(11);
    const { client } = store;
    const log = join(folder, 'effects');
    const effects = (): Effect[] => effectsSoFar(log);
    const start = (n: number): Part => {
      const options = { store: store.address, name: `worker ${n}`, log, queues: QUEUES };
      return new Process(`worker ${n}`, [process.execPath, program, JSON.stringify(options)]);
    };
    for (const [name, limits] of Object.entries(QUEUES)) await client.queues.set(name, limits);
    const starts = Array.from({ length: INSTANCES }, (_, n) => {
      const key = `key ${n % KEYS}`;
      return { name: 'held', version: '1.0.0', id: `${key}/${n}`, input: n % 7 === 0, queue: 'mails', key };
    });
    expect((await client.startMany(starts)).filter(({ error }) => error !== undefined)).toEqual([]);
    const workers = Array.from({ length: WORKERS }, (_, n) => start(n));
    const ended = (): number => new Set(effects().flatMap(({ event, id }) => (event === 'end' ? [id] : []))).size;
    let next = BETWEEN_KILLS;
    for (let kills = 0; kills < KILLS; await pause(10)) {
      if (ended() < next) continue;
      const at = Math.floor(random() * WORKERS);
      // Two die at once now and then, also while one of them starts.
      for (const n of kills % 5 === 4 ? [at, (at + 1) % WORKERS] : [at]) {
        await workers[n]?.kill();
        workers[n] = start(n);
        kills += 1;
      }
      next = ended() + BETWEEN_KILLS;
    }
    await eventually(WITHIN_MS, 'the queues are empty', async () =>
      (await client.queues.list()).every(({ waiting, delayed, running }) => waiting + delayed + running === 0),
    );
    expect(excesses(effects(), 'mails')).toEqual([]);
    expect(excesses(effects(), 'calls')).toEqual([]);
    for (const { id, input } of starts)
      expect((await client.getStatus(id))?.status, id).toBe(input ? 'Failed' : 'Completed');
    expect(new Set(effects().map(({ id }) => id)).size).toBe(INSTANCES);
    for (const name of Object.keys(QUEUES)) await client.queues.delete(name);
  }, 300_000);
});

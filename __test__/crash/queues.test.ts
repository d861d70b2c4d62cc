// A queue under workers that are killed at any moment: its limits are never exceeded, and no slot leaks.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { QueueInfo, QueueLimits } from 'perdure';
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
const LIMITS = { concurrency: 4, perKey: { concurrency: 2 }, fairness: 'key' } satisfies QueueLimits;
const WITHIN_MS = 120_000;

const program = join(root, '__test__/crash/queues.mjs');

type Part = Process<{ type: 'ready' }, object>;

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

/** Returns the name of an instance's key, from its id. */
const keyOf = (id: string): string => id.split('/', 1)[0] as string;

/**
 * Returns the moments at which more instances had a slot than the limits allow. An instance has its slot at least from
 * its first note on until the first note of its end: an attempt is repeated only by an instance that still has it. The
 * lines of the log are in the order in which they were written.
 */
function excesses(effects: readonly Effect[]): string[] {
  const [atWork, over] = [new Set<string>(), new Set<string>()];
  const found: string[] = [];
  for (const { event, id } of effects) {
    if (event === 'begin' && !over.has(id)) atWork.add(id);
    else if (event === 'end') {
      over.add(id);
      atWork.delete(id);
    }
    if (atWork.size > LIMITS.concurrency) found.push(`${[...atWork].join(', ')} at once`);
    const ofKey = [...atWork].filter((other) => keyOf(other) === keyOf(id));
    if (ofKey.length > LIMITS.perKey.concurrency) found.push(`${ofKey.join(', ')} at once of one key`);
  }
  return found;
}

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
      const options = { store: store.address, name: `worker ${n}`, log, limits: LIMITS };
      return new Process(`worker ${n}`, [process.execPath, program, JSON.stringify(options)]);
    };
    await client.queues.set('mails', LIMITS);
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
    const read = async (): Promise<QueueInfo> => (await client.queues.get('mails')) as QueueInfo;
    await eventually(WITHIN_MS, 'the queue is empty', async () => {
      const { waiting, running } = await read();
      return waiting === 0 && running === 0;
    });
    expect(excesses(effects())).toEqual([]);
    for (const { id, input } of starts)
      expect((await client.getStatus(id))?.status, id).toBe(input ? 'Failed' : 'Completed');
    expect(new Set(effects().map(({ id }) => id)).size).toBe(INSTANCES);
    await client.queues.delete('mails');
  }, 300_000);
});

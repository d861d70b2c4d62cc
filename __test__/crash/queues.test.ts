// Queues under workers that are killed at any moment: their limits are never exceeded, the order is kept, and no slot
// leaks. More kills than those of a test run: `PERDURE_TEST_KILLS=1000 npm run test:js -- crash/queues`.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Client, QueueLimits } from 'perdure';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { expectInvariants } from '../support/invariants.ts';
import { Process } from '../support/process.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { query } from '../support/rows.ts';
import { useStore } from '../support/store.ts';
import { seeded } from '../support/worker-parts.mjs';
import {
  begunAfterEnd,
  entriesOf,
  keyOf,
  ofEachKey,
  outOfOrder,
  overConcurrency,
  overPerWorker,
  overRate,
  type Start,
} from './queue-log.ts';
import { QueueWorkers } from './queue-workers.ts';

const KILLS = Number(process.env.PERDURE_TEST_KILLS ?? 30);
/** Instances that are in line before the first worker starts, and in all. Kills divide the rest. */
const [AT_FIRST, INSTANCES] = [100, 10 * KILLS];
const KEYS = 5;
/** The queue of the instances, whose limits change meanwhile, and that of the activity that each of them calls. */
const MAILS = {
  concurrency: 4,
  rate: { limit: 12, per: 250 },
  perKey: { concurrency: 2, rate: { limit: 4, per: 400 } },
  fairness: 'key',
} satisfies QueueLimits;
const CALLS = {
  concurrency: 3,
  perWorker: 1,
  rate: { limit: 12, per: 250 },
  perKey: { concurrency: 1, rate: { limit: 6, per: 400 } },
} satisfies QueueLimits;
/** The concurrency of the queue of instances, while it is lower. */
const LOWER = 2;
const WITHIN_MS = 120_000;

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

/** The starts of a run, in the order in which they are made. */
class Starts {
  readonly made: (Start & { readonly fails: boolean })[] = [];
  readonly #client: Client;
  #calls = 0;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Starts more instances, until there are `until`. */
  async make(until: number): Promise<void> {
    const call = this.#calls++;
    const more = Array.from({ length: until - this.made.length }, (_, i) => {
      const n = this.made.length + i;
      return { id: `key ${n % KEYS}/${n}`, priority: n % 3, fails: n % 7 === 0, call };
    });
    this.made.push(...more);
    const starts = more.map(({ id, priority, fails }) => {
      const input = { fails, failures: priority === 0 ? 1 : 0 };
      return { name: 'held', version: '1.0.0', id, input, queue: 'mails', key: keyOf(id), priority };
    });
    expect((await this.#client.startMany(starts)).filter(({ error }) => error !== undefined)).toEqual([]);
  }
}

/** Lowers and raises the limit of the instances, and pauses their queue, until it is over. */
async function changeLimits(client: Client, workers: QueueWorkers, isOver: () => boolean): Promise<void> {
  const { log } = workers;
  const running = async () => (await client.queues.get('mails'))?.running ?? 0;
  const progress = async () => {
    const wanted = log.ended + 10;
    await eventually(WITHIN_MS, 'instances end', () => log.ended >= wanted || isOver());
  };
  while (!isOver()) {
    await client.queues.set('mails', { ...MAILS, concurrency: LOWER });
    await eventually(WITHIN_MS, 'the lower limit holds', async () => (await running()) <= LOWER);
    workers.note({ event: 'limits', concurrency: LOWER });
    await progress();
    workers.note({ event: 'limits', concurrency: MAILS.concurrency });
    await client.queues.set('mails', MAILS);
    await progress();
    await client.queues.pause('mails');
    await eventually(WITHIN_MS, 'what had a slot has ended', async () => (await running()) === 0);
    workers.note({ event: 'limits', concurrency: 0 });
    await client.queues.set('mails', MAILS);
    workers.note({ event: 'limits', concurrency: MAILS.concurrency });
    await client.queues.resume('mails');
    await progress();
  }
}

/** Ends two instances from outside, wherever they are: one that was started long ago, and a new one. */
async function endSome(client: Client, workers: QueueWorkers, starts: Starts, random: () => number): Promise<void> {
  const { made } = starts;
  const [one, other] = [made[Math.floor(random() * made.length)], made.at(-1)] as [Start, Start];
  for (const { id } of [one, other]) workers.note({ event: 'gone', id });
  await client.terminateInstance(one.id);
  await client.cancelInstance(other.id).catch((error) => {
    if (error.code !== 'RUNTIME_STATE') throw error;
  });
}

/** Waits until the queues are empty. An instance whose turns many workers died in is taken for a poison pill. */
async function untilEmpty(client: Client): Promise<void> {
  await eventually(WITHIN_MS, 'the queues are empty', async () => {
    for await (const { id } of client.listInstances({ status: 'Suspended' })) await client.resume(id);
    return (await client.queues.list()).every(({ waiting, delayed, running }) => waiting + delayed + running === 0);
  });
}

function expectLimits({ log }: QueueWorkers, starts: readonly Start[]): void {
  log.read();
  const { lines } = log;
  const [instances, attempts] = [entriesOf(lines, 'instances'), entriesOf(lines, 'attempts')];
  const rateOf = ({ concurrency, rate }: { concurrency: number; rate: { limit: number; per: number } }) => ({
    limit: rate.limit,
    perMs: rate.per,
    concurrency,
  });
  expect(overConcurrency(instances, MAILS.concurrency, lines)).toEqual([]);
  expect(overConcurrency(attempts, CALLS.concurrency)).toEqual([]);
  for (const [entries, limits] of [
    [instances, MAILS],
    [attempts, CALLS],
  ] as const) {
    const { perKey } = limits;
    expect(ofEachKey(entries, (of) => overConcurrency(of, perKey.concurrency))).toEqual([]);
    expect(overRate(entries, rateOf(limits))).toEqual([]);
    expect(ofEachKey(entries, (of) => overRate(of, rateOf(perKey)))).toEqual([]);
  }
  expect(overPerWorker(lines, attempts, CALLS.perWorker)).toEqual([]);
  expect(ofEachKey(instances, (of) => outOfOrder(of, starts, MAILS.perKey.concurrency))).toEqual([]);
  expect(begunAfterEnd(lines, instances)).toEqual([]);
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterEach(() => expectInvariants(store.address));
  afterAll(() => rmSync(folder, { recursive: true }));

  it(`exceed no limit, and leak no slot, over ${KILLS} kills`, { timeout: 300_000 + 3_000 * KILLS }, async () => {
    const { client } = store;
    await client.queues.set('mails', MAILS);
    await client.queues.set('calls', CALLS);
    const starts = new Starts(client);
    await starts.make(AT_FIRST);
    const workers = new QueueWorkers(store.address, join(folder, 'effects'), { calls: CALLS });
    const random = seeded(12);
    let isOver = false;
    const changes = changeLimits(client, workers, () => isOver);
    const kills = workers.kill(KILLS, 11, async (count) => {
      await starts.make(AT_FIRST + Math.floor(((INSTANCES - AT_FIRST) * Math.min(count, KILLS)) / KILLS));
      await endSome(client, workers, starts, random);
    });
    await Promise.all([changes, kills.finally(() => (isOver = true))]);
    await untilEmpty(client);
    expectLimits(workers, starts.made);
    const gone = new Set(workers.log.lines.flatMap(({ event, id }) => (event === 'gone' ? [id] : [])));
    for (const { id, fails } of starts.made) {
      const status = (await client.getStatus(id))?.status;
      if (gone.has(id)) expect(['Completed', 'Failed', 'Cancelled', 'Terminated'], id).toContain(status);
      else expect(status, id).toBe(fails ? 'Failed' : 'Completed');
    }
    expect(starts.made.length).toBe(INSTANCES);
    expect((await client.checkStore()).findings).toEqual([]);
    for (const name of ['mails', 'calls']) await client.queues.delete(name);
    expect(query(store.address, 'SELECT count(*) AS places FROM queue_places')).toEqual([{ places: 0 }]);
  });
});

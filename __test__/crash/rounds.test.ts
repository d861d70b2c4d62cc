import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HistoryEvent } from 'perdure';
import { afterAll, describe, expect, it } from 'vitest';

import { expectAllOver, expectInvariants } from '../support/invariants.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { readEffects, Worker } from '../support/worker.ts';
import { seeded } from '../support/worker-parts.mjs';
import { Caller, Sender } from './callers.ts';
import { type Absence, concurrentViolations } from './checker.ts';
import { outputOf } from './outputs.ts';

/** Decides which worker is killed, and when. To try another seed: `PERDURE_TEST_SEED=7 npm run test:js -- rounds`. */
const SEED = Number(process.env.PERDURE_TEST_SEED ?? 20_261_122);

const ROUNDS = 20;
const STEPS = 8;

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it(`${ROUNDS} kills among three workers lose and repeat nothing while clients call (seed ${SEED})`, async () => {
    const { client, address } = store;
    const random = seeded(SEED);
    const log = join(folder, 'log');
    let count = 0;
    const next = () =>
      Worker.start({ store: address, log, stepMs: 2, name: `worker ${(count += 1)}`, runtime: { logLevel: 'error' } });
    const workers = await Promise.all([next(), next(), next()]);
    const caller = new Caller(client, 'caller', STEPS);
    const senders = Array.from({ length: 5 }, (_, i) => new Sender(client, `sender ${i}`));
    for (const sender of senders) await sender.start(STEPS);
    const asked: { id: string; input: { seed: number; steps: number } }[] = [];
    const absences: Absence[] = [];

    for (let round = 0; round < ROUNDS; round += 1) {
      const place = Math.floor(random() * workers.length);
      const victim = workers[place]!;
      // The worker may be killed before it has started all of them, or in the middle of a start.
      const own = Array.from({ length: 6 }, (_, i) => ({
        id: `round ${round}-${i}`,
        input: { seed: i, steps: STEPS },
      }));
      asked.push(...own);
      const begun = victim.all('step').length;
      victim.tell({ type: 'start', name: 'steps', instances: own });
      await Promise.all([
        caller.once(),
        ...senders.map((sender) => sender.send()),
        victim.said('step', Math.floor(begun + 1 + random() * 30)),
      ]);
      const from = Date.now();
      await victim.kill();
      absences.push({ worker: victim.name, from, by: Date.now() });
      expect(victim.stderr).toBe('');
      // The rows agree with each other after each kill.
      if (round % 5 === 0) expectInvariants(address);
      workers[place] = await next();
    }

    for (const { id, input } of asked) await client.startOrchestration(id, 'steps', input, { onConflict: 'return' });
    await Promise.all(senders.map((sender) => sender.end()));
    await caller.expectEnded();
    for (const sender of senders) await sender.expectEnded();
    for (const { id, input } of asked) {
      expect(await client.waitForOrchestration(id, SOON), id).toMatchObject({
        status: 'Completed',
        output: outputOf(input.seed, STEPS),
      });
    }
    for (const worker of workers) {
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      expect(worker.stderr).toBe('');
    }
    expectAllOver(address);

    const end = new Map<string, HistoryEvent[]>();
    const effects = readEffects(log);
    for (const id of new Set(effects.map((effect) => effect.id))) end.set(id, await client.getHistory(id));
    expect(concurrentViolations(effects, absences, end)).toEqual([]);
    // The faults did strike: some steps were begun in a worker that was killed, and in another after it.
    const begins = effects.filter(({ event }) => event === 'begin');
    expect(begins.length).toBeGreaterThan(new Set(begins.map(({ key }) => key)).size);
    expect(caller.failures).toBe(0);
  }, 90_000);
});

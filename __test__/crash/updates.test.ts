// Updates of instances whose workers are killed.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'perdure';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { deferred } from '../support/async.ts';
import { expectInvariants } from '../support/invariants.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { Worker } from '../support/worker.ts';

const CARTS = 10;
const ITEMS = 40;
/** Number of answers between two kills. */
const BETWEEN_KILLS = 60;
const LATE = '60s';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  afterEach(() => expectInvariants(store.address));
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it(`${CARTS * ITEMS} updates under kills are each carried out once, and all their callers agree`, async () => {
    const clients = [store.client, new Client(await store.open())];
    const options = { store: store.address, log: join(folder, 'updates.log'), stepMs: 1 };
    const ids = Array.from({ length: CARTS }, (_, n) => `cart-${n}`);
    for (const id of ids) await store.client.startOrchestration(id, 'cart', []);

    let answered = 0;
    let sinceKill = deferred<void>();
    /** Adds the items one after the other, each by two clients. Returns the answers. */
    async function fill(id: string): Promise<number[]> {
      const answers: number[] = [];
      for (let item = 1; item <= ITEMS; item += 1) {
        const calls = clients.map((client) =>
          client.update<unknown, number>(id, 'add', item, { updateId: `add ${item}`, timeout: LATE }),
        );
        const [answer, other] = await Promise.all(calls);
        expect(other).toBe(answer);
        answers.push(answer as number);
        answered += 1;
        if (answered % BETWEEN_KILLS === 0) sinceKill.resolve();
      }
      return answers;
    }
    const filled = Promise.all(ids.map(fill));

    const workers = [
      await Worker.start({ ...options, name: 'worker 1' }),
      await Worker.start({ ...options, name: 'worker 2' }),
    ];
    for (let kill = 1; kill <= 5; kill += 1) {
      await Promise.race([sinceKill.promise, filled]);
      sinceKill = deferred();
      await (workers.shift() as Worker).kill();
      workers.push(await Worker.start({ ...options, name: `worker ${kill + 2}` }));
    }
    const answers = await filled;

    for (const [n, id] of ids.entries()) {
      await store.client.raiseEvent(id, 'check out');
      const { output } = await store.client.waitForOrchestration<number[]>(id, LATE);
      // Each item is where its answer says, and no item is there twice.
      expect(output).toEqual(Array.from({ length: ITEMS }, (_, item) => item + 1));
      expect(answers[n]).toEqual(output);
      expect((await store.client.getStatus(id))?.executionId).toBeGreaterThan(1);
    }
    for (const worker of workers) expect(await worker.stop()).toEqual({ code: 0, signal: null });
  });
});

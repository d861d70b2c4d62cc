import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Client, type HistoryEvent, InstanceNotFoundError } from 'perdure';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { historyViolations } from '../support/history.ts';
import { expectInvariants } from '../support/invariants.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { query } from '../support/rows.ts';
import { SOON, useStore } from '../support/store.ts';
import { type Effect, readEffects, Worker } from '../support/worker.ts';
import { seeded } from '../support/worker-parts.mjs';
import { type Absence, concurrentViolations, type Kill, type Snapshot, unfinished, violations } from './checker.ts';
import { outputOf } from './outputs.ts';

/** Decides when the workers are killed. To try another seed: `PERDURE_TEST_SEED=7 npm run test:js -- kill`. */
const SEED = Number(process.env.PERDURE_TEST_SEED ?? 20_261_121);

const STEPS = 10;

/** Returns the histories of those instances that exist. */
async function snapshot(client: Client, instances: readonly { id: string }[]): Promise<Snapshot> {
  const found = new Map<string, HistoryEvent[]>();
  for (const { id } of instances) {
    try {
      found.set(id, await client.getHistory(id));
    } catch (error) {
      if (!(error instanceof InstanceNotFoundError)) throw error;
    }
  }
  return found;
}

/** Returns the effects of these instances only: the log also contains those of another test. */
function effectsOf(log: string, instances: readonly { id: string }[]): Effect[] {
  const ids = new Set(instances.map(({ id }) => id));
  return readEffects(log).filter(({ id }) => ids.has(id));
}

function workersOf(effects: readonly Effect[]): Set<string> {
  return new Set(effects.map(({ worker }) => worker));
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  afterEach(() => expectInvariants(store.address));
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));
  const logOf = (test: string) => join(folder, `${test}.log`);

  it(`five kills over 200 instances of ${STEPS} steps lose and repeat nothing (seed ${SEED})`, async () => {
    const { client, address } = store;
    const random = seeded(SEED);
    const log = logOf('five kills');
    const instances = Array.from({ length: 200 }, (_, i) => ({ id: `kill-${i}`, input: { seed: i, steps: STEPS } }));
    const acknowledged = new Set<string>();
    const kills: Kill[] = [];
    const options = { store: address, log, stepMs: 1, runtime: { activityConcurrency: 64 } };

    // Half of the instances are started before there is any worker. The workers that are to be killed start the other
    // half.
    for (const { id, input } of instances.slice(0, 100)) {
      await client.startOrchestration(id, 'steps', input);
      acknowledged.add(id);
    }
    for (let round = 0; round < 5; round += 1) {
      const name = `worker ${round + 1}`;
      const worker = await Worker.start({ ...options, name });
      // The instances are started one after the other, so that a kill may also come in the middle of starting.
      worker.tell({ type: 'start', name: 'steps', instances: instances.slice(100 + 20 * round, 120 + 20 * round) });
      if (round % 2 === 0) await worker.said('step', Math.floor(1 + random() * 149));
      else await worker.said('acknowledged', Math.floor(1 + random() * 19));
      await worker.kill();
      expect(await worker.exited()).toEqual({ code: null, signal: 'SIGKILL' });
      expect(worker.stderr).toBe('');
      for (const { id } of worker.all('acknowledged')) acknowledged.add(id);
      const found = await snapshot(client, instances);
      expect(
        [...acknowledged].filter((id) => !found.has(id)),
        'every acknowledged start is there',
      ).toEqual([]);
      kills.push({ worker: name, found });
    }

    const last = await Worker.start({ ...options, name: 'last' });
    for (const { id, input } of instances) {
      if (!acknowledged.has(id)) await client.startOrchestration(id, 'steps', input, { onConflict: 'return' });
    }
    for (const { id, input } of instances) {
      expect(await client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Completed',
        output: outputOf(input.seed, STEPS),
      });
    }
    expect(await last.stop()).toEqual({ code: 0, signal: null });
    expect(last.stderr).toBe('');

    const end = await snapshot(client, instances);
    const effects = effectsOf(log, instances);
    for (const [id, history] of end) {
      expect(historyViolations(history, 'Completed'), id).toEqual([]);
      // The first turn of an instance that a client without a runtime has started also records its version, as one more
      // event.
      expect(
        history.filter(({ kind }) => kind !== 'ExecutionBegan'),
        id,
      ).toHaveLength(2 + 2 * STEPS);
    }
    expect(violations(effects, kills, end)).toEqual([]);

    // The faults did strike: each kill left work to do. A worker may have been killed before it began a step.
    expect(workersOf(effects).size).toBeGreaterThanOrEqual(4);
    for (const { found } of kills) {
      expect([...found.values()].some((history) => history.length < 2 + 2 * STEPS)).toBe(true);
    }
    // A step begins once, and at most once more for each kill that came between its begin and its recorded completion.
    // A completion that was on its way to the server at the kill may be stored after the worker is gone.
    const repeated = kills.flatMap((kill) => unfinished(effects, kill));
    expect(repeated.length).toBeGreaterThan(0);
    expect(effects.filter(({ event }) => event === 'begin').length).toBeLessThanOrEqual(200 * STEPS + repeated.length);
  });

  it(`families that are killed again and again lose no result, message or execution (seed ${SEED})`, async () => {
    const { client, address } = store;
    const log = logOf('families');
    const random = seeded(SEED + 2);
    const steps = 3;
    const parents = Array.from({ length: 30 }, (_, i) => ({ id: `family-${i}`, input: { seed: i, steps } }));
    const options = { store: address, log, stepMs: 1, runtime: { activityConcurrency: 32 } };
    for (const { id, input } of parents) await client.startOrchestration(id, 'family', input);
    for (let round = 0; round < 6; round += 1) {
      const worker = await Worker.start({ ...options, name: `worker ${round + 1}` });
      await worker.said('step', Math.floor(1 + random() * 89));
      await worker.kill();
      expect(worker.stderr).toBe('');
    }
    const last = await Worker.start({ ...options, name: 'last' });
    const children = new Set<string>();
    for (const { id, input } of parents) {
      const sums: [number, number][] = [];
      for (const execution of [1, 2, 3]) {
        const [a, b] = [0, 1].map((n) => outputOf(input.seed + n + execution, steps)) as [number, number];
        sums.push([execution, (sums.at(-1)?.[1] ?? 0) + a + b]);
      }
      expect(await client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Completed',
        output: sums[2]?.[1],
        executionId: 3,
      });
      expect(await client.waitForOrchestration(`${id}-sink`, SOON)).toMatchObject({
        status: 'Completed',
        output: sums,
      });
      for (const execution of [1, 2, 3]) {
        const history = await client.getHistory(id, execution);
        expect(
          historyViolations(history, execution === 3 ? 'Completed' : 'ContinuedAsNew'),
          `${id} ${execution}`,
        ).toEqual([]);
        for (const { kind: what, meta } of history) if (what === 'ChildScheduled') children.add(meta.id);
      }
    }
    expect(children.size).toBe(parents.length * 6);
    for (const id of children) {
      const { status } = await client.waitForOrchestration(id, SOON);
      expect(historyViolations(await client.getHistory(id), status), id).toEqual([]);
    }
    await last.stop();
    // The faults did strike: no worker but the last came to the end.
    expect(workersOf(readEffects(log)).size).toBe(7);
  });

  it(`no task is lost when the workers that offer and run tasks are killed (seed ${SEED})`, async () => {
    const { client, address } = store;
    const log = logOf('tasks');
    const random = seeded(SEED + 3);
    const steps = 60;
    const instances = Array.from({ length: 30 }, (_, i) => ({ id: `queued-${i}` }));
    const options = { store: address, log, stepMs: 10 };
    const owner = (name: string) => Worker.start({ ...options, name, runtime: { queues: [] } });
    const runner = (name: string) =>
      Worker.start({ ...options, name, runtime: { queues: ['far'], activityConcurrency: 8 } });
    const absences: Absence[] = [];
    for (const { id } of instances) await client.startOrchestration(id, 'queued', { steps });
    let [one, two] = [await owner('owner 0'), await runner('runner 0')];
    for (let round = 1; round <= 6; round += 1) {
      // The worker that runs tasks owns instances too, and continues those of a killed owner.
      await two.said('step', Math.floor(1 + random() * 20));
      const [killed, from] = [round % 2 === 0 ? two : one, Date.now()];
      await killed.kill();
      absences.push({ worker: killed.name, from, by: Date.now() });
      if (killed === two) two = await runner(`runner ${round}`);
      else one = await owner(`owner ${round}`);
    }
    const end = new Map<string, HistoryEvent[]>();
    for (const { id } of instances) {
      expect(await client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Completed',
        output: (steps * (steps + 1)) / 2,
      });
      const history = await client.getHistory(id);
      expect(historyViolations(history, 'Completed'), id).toEqual([]);
      end.set(id, history);
    }
    await one.stop();
    await two.stop();
    // A step begins again only if a runner was killed in it, or with its end on the way to the store.
    const effects = readEffects(log);
    expect(concurrentViolations(effects, absences, end)).toEqual([]);
    const begins = effects.filter(({ event }) => event === 'begin');
    expect(new Set(begins.map(({ key }) => key)).size).toBe(30 * steps);
    expect([...workersOf(begins)].every((name) => name.startsWith('runner'))).toBe(true);
  });

  it('instances of a killed worker continue at once on a live worker', async () => {
    const { client, address } = store;
    const log = logOf('takeover');
    const instances = Array.from({ length: 20 }, (_, i) => ({ id: `takeover-${i}`, input: null }));
    // The lease is far longer than the test, so the takeover does not come from its end.
    const options = { store: address, log, runtime: { lease: '1h' } };
    const first = await Worker.start({ ...options, name: 'first', holds: true });
    first.tell({ type: 'start', name: 'holds', instances });
    await first.said('step', 20);
    const second = await Worker.start({ ...options, name: 'second' });
    second.tell({ type: 'start', name: 'steps', instances: [{ id: 'takeover-own', input: { seed: 1, steps: 3 } }] });
    await second.said('acknowledged');
    second.tell({ type: 'wait', ids: ['takeover-own'] });
    await second.said('ended');
    expect(workersOf(effectsOf(log, instances)), 'while it lives, all is its').toEqual(new Set(['first']));

    const before = performance.now();
    await first.kill();
    for (const { id } of instances) {
      expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output: 'second' });
    }
    // Workers look for dead processes every second.
    expect(performance.now() - before).toBeLessThan(3_000);
    expect(await second.stop()).toEqual({ code: 0, signal: null });
    for (const { id } of instances) expect(historyViolations(await client.getHistory(id), 'Completed')).toEqual([]);
  });

  it('a kill in the middle of a shutdown loses nothing', async () => {
    const { client, address } = store;
    const log = logOf('shutdown');
    const random = seeded(SEED + 1);
    const instances = Array.from({ length: 30 }, (_, i) => ({ id: `shutdown-${i}`, input: { seed: i, steps: 4 } }));
    const options = { store: address, log, stepMs: 20, runtime: { activityConcurrency: 10 } };
    const kills: Kill[] = [];
    for (const { id, input } of instances) await client.startOrchestration(id, 'steps', input);
    for (const name of ['worker 1', 'worker 2', 'worker 3']) {
      const worker = await Worker.start({ ...options, name });
      await worker.said('step', Math.floor(5 + random() * 20));
      worker.tell({ type: 'shutdown', timeout: '1h' });
      await worker.said('stopping');
      await worker.kill();
      expect((await worker.exited()).signal).toBe('SIGKILL');
      kills.push({ worker: name, found: await snapshot(client, instances) });
    }
    const last = await Worker.start({ ...options, name: 'last' });
    for (const { id, input } of instances) {
      expect(await client.waitForOrchestration(id, SOON)).toMatchObject({
        status: 'Completed',
        output: outputOf(input.seed, 4),
      });
    }
    await last.stop();
    const end = await snapshot(client, instances);
    expect(violations(effectsOf(log, instances), kills, end)).toEqual([]);
    for (const history of end.values()) expect(historyViolations(history, 'Completed')).toEqual([]);
  });

  it('a wait for the next attempt survives a kill', async () => {
    const { client, address } = store;
    const log = logOf('retry');
    const first = await Worker.start({ store: address, log, name: 'first' });
    first.tell({ type: 'start', name: 'flaky', instances: [{ id: 'flaky', input: null }] });
    await first.said('acknowledged');
    // Events are recorded in the order in which they came, so the failure is stored by now.
    await client.waitForStatusChange('flaky', 0, undefined, SOON);
    await first.kill();
    const failed = (await client.getHistory('flaky')).find(({ kind: event }) => event === 'ActivityAttemptFailed');
    expect(failed).toBeDefined();
    const second = await Worker.start({ store: address, log, name: 'second' });
    expect((await client.waitForOrchestration('flaky', SOON)).output).toEqual({ attempt: 2, worker: 'second' });
    await second.stop();
    const begins = effectsOf(log, [{ id: 'flaky' }]);
    expect(begins.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(begins[1]?.at).toBeGreaterThanOrEqual(Number(failed?.time) + 1_000);
    expect(new Set(begins.map(({ key }) => key)).size).toBe(1);
  });

  it('heartbeat details of an activity survive a kill', async () => {
    const { client, address } = store;
    const log = logOf('beats');
    const first = await Worker.start({ store: address, log, name: 'first' });
    first.tell({ type: 'start', name: 'beats', instances: [{ id: 'beats', input: null }] });
    await first.said('step');
    await first.kill();
    const second = await Worker.start({ store: address, log, name: 'second' });
    const output = { from: new Map([['row', 7n]]), attempt: 1, worker: 'second' };
    expect((await client.waitForOrchestration('beats', SOON)).output).toEqual(output);
    await second.stop();
    expect(query(address, 'SELECT * FROM heartbeats')).toEqual([]);
  });

  it('an inline activity runs again in the process that continues its orchestration', async () => {
    const { client, address } = store;
    const log = logOf('inline');
    const first = await Worker.start({ store: address, log, name: 'first', holds: true });
    first.tell({ type: 'start', name: 'inline', instances: [{ id: 'inline', input: null }] });
    await first.said('step');
    await first.kill();
    const second = await Worker.start({ store: address, log, name: 'second' });
    expect((await client.waitForOrchestration('inline', SOON)).output).toEqual({ begun: 'first', worker: 'second' });
    await second.stop();
    const begins = effectsOf(log, [{ id: 'inline' }]);
    expect(begins.map(({ worker, attempt }) => [worker, attempt])).toEqual([
      ['first', 1],
      ['second', 1],
    ]);
    expect(new Set(begins.map(({ key }) => key)).size).toBe(1);
  });

  it('two processes on one store share it, both as workers and as clients', async () => {
    const { client, address } = store;
    const log = logOf('two');
    const options = { store: address, log, stepMs: 1 };
    const workers = await Promise.all(['one', 'two'].map((name) => Worker.start({ ...options, name })));
    const instances = Array.from({ length: 120 }, (_, i) => ({ id: `two-${i}`, input: { seed: i, steps: STEPS } }));
    for (const [i, worker] of workers.entries()) {
      worker.tell({ type: 'start', name: 'steps', instances: instances.filter((_, n) => n % 2 === i) });
    }
    await Promise.all(workers.map((worker) => worker.said('acknowledged', instances.length / 2)));
    // Each worker waits for all instances, including those of the other.
    for (const worker of workers) worker.tell({ type: 'wait', ids: instances.map(({ id }) => id) });
    await Promise.all(workers.map((worker) => worker.said('ended', instances.length)));
    for (const worker of workers) {
      expect(worker.all('ended').filter(({ status }) => status !== 'Completed')).toEqual([]);
      for (const { id, output } of worker.all('ended')) expect(output).toBe(outputOf(Number(id.slice(4)), STEPS));
      expect(await worker.stop()).toEqual({ code: 0, signal: null });
      // There is nothing to warn of: no "database is locked", no fenced turn, no lost lease. Another test has left an
      // instance that no worker can run.
      const lines = worker.stderr.split('\n').filter((line) => !line.includes("orchestration 'nobody registers this'"));
      expect(lines).toEqual(['']);
    }
    const effects = effectsOf(log, instances);
    expect(workersOf(effects)).toEqual(new Set(['one', 'two']));
    expect(effects.filter(({ event }) => event === 'begin')).toHaveLength(instances.length * STEPS);
    const end = await snapshot(client, instances);
    expect(violations(effects, [], end)).toEqual([]);
    for (const history of end.values()) expect(historyViolations(history, 'Completed')).toEqual([]);
  });
});

describe('a worker whose store cannot be opened says why and ends', () => {
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));

  it('because there is no such directory', async () => {
    const path = join(folder, 'not', 'there', 'store.db');
    const worker = Worker.spawn({ store: { kind: 'sqlite', path }, log: join(folder, 'log'), name: 'early' });
    expect((await worker.exited()).code).toBe(1);
    expect(worker.stderr).toContain('ProviderError');
    expect(worker.stderr).toContain(`the directory '${join(folder, 'not', 'there')}' does not exist; create it first`);
    expect(existsSync(join(folder, 'not'))).toBe(false);
  });

  it('because no server answers', async () => {
    const url = 'postgres://ada:s3cret@127.0.0.1:1/shop';
    const worker = Worker.spawn({
      store: { kind: 'postgres', url, schema: 'perdure' },
      log: join(folder, 'log'),
      name: 'early',
    });
    expect((await worker.exited()).code).toBe(1);
    expect(worker.stderr).toContain('ProviderError');
    expect(worker.stderr).toContain("The Postgres store 'postgres://ada@127.0.0.1:1/shop' cannot be reached");
    expect(worker.stderr).not.toContain('s3cret');
  });
});

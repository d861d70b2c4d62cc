import { fileURLToPath } from 'node:url';
import { threadId } from 'node:worker_threads';
import { type Codec, Runtime, type RuntimeOptions, RuntimeStateError } from 'perdure';
import { afterEach, describe, expect, it } from 'vitest';

import { runtimeSizes } from '../../../dist/runtime/internal.js';
import { Counter, rejection } from '../../support/async.ts';
import { collectGarbage } from '../../support/garbage.ts';
import { historyViolations } from '../../support/history.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WORK = new URL('../../support/thread-work.mjs', import.meta.url);
const codecOf = (name: string) => new URL(`../../support/${name}.mjs`, import.meta.url);

/** The number of the thread that tests run on. Runtimes start other threads. */
const MAIN = threadId;

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  // In any state in which a thread ends, the rows agree with each other.
  if (kind.isShared) afterEach(() => expectInvariants(store.address));

  function threaded(threads: number, options: RuntimeOptions = {}) {
    return store.start(() => {}, { threads, modules: [WORK], ...options });
  }

  async function run(orchestration: string, input?: unknown) {
    const id = store.id(orchestration);
    await store.client.startOrchestration(id, orchestration, input);
    return store.client.waitForOrchestration(id, SOON);
  }

  describe('worker threads', () => {
    it('share activities and orchestrations with the thread that made the runtime', async () => {
      await threaded(2);
      const { output } = await run('digs', { holes: 100, rounds: 2_000_000 });
      const threads = new Set((output as { thread: number }[]).map(({ thread }) => thread));
      expect(threads.size).toBe(3);
      expect(threads).toContain(MAIN);
      expect(new Set((output as { sum: number }[]).map(({ sum }) => sum)).size).toBe(1);
      const ids = Array.from({ length: 50 }, () => store.id('steps'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'steps', 10)));
      for (const id of ids) {
        expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed', output: 10 });
        expect(historyViolations(await store.client.getHistory(id), 'Completed'), id).toEqual([]);
      }
    });

    it('do all that an orchestration and an activity can do', async () => {
      const lines: { message: string; fields: Record<string, unknown> }[] = [];
      let traced = new Counter();
      const take = (fields: Record<string, unknown>, message: string) => {
        lines.push({ message, fields });
        traced.add();
      };
      await threaded(2, { logger: { debug: take, info: take, warn: take, error: take }, logLevel: 'info' });
      // The first free thread runs an instance: sooner or later that is a second thread.
      for (const threads = new Set<number>(); threads.size < 2; ) {
        traced = new Counter();
        const ids = Array.from({ length: 10 }, () => store.id('everything'));
        await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'everything', { n: 1 })));
        await Promise.all(ids.map((id) => store.client.raiseEvent(id, 'go', 20)));
        const ended = await Promise.all(ids.map((id) => store.client.waitForOrchestration(id, SOON)));
        await traced.reaches(2 * ids.length);
        for (const { id, output, customStatus } of ended) {
          const { thread, first } = output as { thread: number; first: { thread: number } };
          threads.add(thread);
          // An instance that has slept may go on in another thread than the one it has begun in.
          expect(output).toEqual({
            first: { instanceId: id, attempt: 1, own: id, thread: expect.any(Number) },
            inline: expect.any(Number),
            isTime: true,
            error: { name: 'ActivityError', message: expect.stringMatching(/on purpose, thread \d/) },
            child: 41,
            thread,
          });
          expect(await store.client.getStatus(`${id} detached`)).toMatchObject({ status: 'Pending' });
          const of = (message: string) =>
            lines.filter((line) => line.message === message && line.fields.instanceId === id);
          expect(of('begun').map(({ fields }) => fields)).toEqual([
            expect.objectContaining({ executionId: 1, ...(customStatus as object), input: { n: 1 } }),
          ]);
          expect(of('below').map(({ fields }) => fields)).toEqual([
            expect.objectContaining({ attempt: 1, thread: first.thread }),
          ]);
        }
      }
    });

    it('tell activities to stop', async () => {
      await threaded(2);
      const ids = Array.from({ length: 10 }, () => store.id('stops'));
      const said = async (id: string, what: string) => {
        while ((await store.client.listInstances({ idPrefix: `${id} ${what}` }).page()).items.length === 0)
          await store.settled();
      };
      for (const id of ids) await store.client.startOrchestration(id, 'stops');
      for (const id of ids) await said(id, 'waits');
      for (const id of ids) await store.client.cancelInstance(id);
      for (const id of ids) {
        expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Cancelled' });
        await said(id, 'stopped');
      }
    });

    it('leave work that is registered with the runtime to the main thread', async () => {
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('only here', () => threadId)
            .registerOrchestration('only here', function* (ctx) {
              const here = yield ctx.scheduleActivity('only here');
              const digs = yield ctx.all(Array.from({ length: 20 }, () => ctx.scheduleActivity('dig', 2_000_000)));
              return { here, self: threadId, others: digs.some(({ thread }: { thread: number }) => thread !== MAIN) };
            }),
        { threads: 2, modules: [WORK] },
      );
      for (let n = 0; n < 5; n += 1)
        expect((await run('only here')).output).toEqual({ here: MAIN, self: MAIN, others: true });
    });

    it('have metrics of each thread', async () => {
      const runtime = await threaded(2);
      await run('digs', { holes: 100, rounds: 1_000_000 });
      const { lanes } = runtime.metrics();
      expect(lanes).toHaveLength(3);
      for (const lane of lanes) {
        expect(Object.keys(lane).sort()).toEqual(['busyShare', 'parks', 'pinnedJobs', 'steals', 'takenJobs']);
        expect(lane.busyShare).toBeGreaterThan(0);
        expect(lane.busyShare).toBeLessThanOrEqual(1);
        expect(lane.parks).toBeGreaterThan(0);
      }
      await runtime.shutdown();
      await runtime.start();
      expect((await run('steps', 3)).output).toBe(3);
    });
  });

  describe('a worker thread that ends', () => {
    it.each(['exit', 'throw'])('is replaced, and its turn runs again (%s)', async (how) => {
      await threaded(1);
      const others = Array.from({ length: 20 }, () => store.id('mails'));
      for (const id of others) await store.client.startOrchestration(id, 'mails', 2);
      for (const id of others) await store.client.enqueueEvent(id, 'mail', 1);
      expect((await run('harmed', how)).output).toBe('again');
      for (const id of others) await store.client.enqueueEvent(id, 'mail', 2);
      for (const id of others) expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([1, 2]);
      const [error, ...more] = store.errors.splice(0);
      expect(error).toBeInstanceOf(RuntimeStateError);
      expect(error?.message).toContain(how === 'exit' ? 'exit code 3' : 'nobody catches this');
      expect(more).toEqual([]);
    });

    it('again and again because of one instance has that suspended, and no other', async () => {
      await threaded(3);
      const other = store.id('mails');
      await store.client.startOrchestration(other, 'mails', 1);
      const id = store.id('exits');
      const suspended = store.suspended(id);
      await store.client.startOrchestration(id, 'exits');
      await suspended;
      expect(await store.client.getStatus(id)).toMatchObject({
        status: 'Suspended',
        error: { message: expect.stringContaining('a thread of the last worker ended during its turn') },
      });
      await store.client.enqueueEvent(other, 'mail', 1);
      expect((await store.client.waitForOrchestration(other, SOON)).output).toEqual([1]);
      const told = store.errors.splice(0).map(({ message }) => message);
      // Each time that the instance reached the main thread it made progress, so the other threads start their count
      // anew.
      expect(told.filter((message) => message.includes('exit code 4')).length).toBeGreaterThanOrEqual(3);
    });
  });
});

describe('threads', () => {
  const store = useStore(STORES[1]!);

  it('may start and end 240 times without leaving anything behind', async () => {
    const runtime = store.runtime({ threads: 20, modules: [WORK] });
    const used: { heapUsed: number; rss: number }[] = [];
    for (let round = 0; round < 12; round += 1) {
      await runtime.start();
      const id = store.id('steps');
      await store.client.startOrchestration(id, 'steps', 2);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(2);
      await runtime.shutdown();
      collectGarbage();
      used.push(process.memoryUsage());
    }
    // Memory that the first rounds need is kept for the next ones.
    const [early, late] = [used[5]!, used[11]!];
    const grown = (of: 'heapUsed' | 'rss') => (late[of] - early[of]) / 120;
    expect(grown('heapUsed'), 'bytes in the heap that a thread leaves behind').toBeLessThan(2_000);
    // A thread takes 2.5 MB of the process. The allocator keeps some of that for the next threads: a bare `Worker`
    // leaves 15 kB behind, and a thread of a runtime 30 kB, or 130 kB after other tests in the process.
    expect(grown('rss'), 'bytes that a thread leaves behind').toBeLessThan(500_000);
    expect(runtimeSizes(runtime)).toMatchObject({ instances: 0, activities: 0 });
  }, 300_000);

  it('need modules, and modules have to define something', async () => {
    expect(() => new Runtime(store.provider, { threads: 1 })).toThrow(TypeError);
    expect(() => new Runtime(store.provider, { threads: -1 })).toThrow(/threads/);
    expect(() => new Runtime(store.provider, { modules: ['./work.js'] })).toThrow(
      /absolute path: use new URL\('.\/work.js', import.meta.url\)/,
    );
    expect(() => new Runtime(store.provider, { modules: ['work'] })).toThrow(/use import.meta.resolve\('work'\)/);
    expect(() => new Runtime(store.provider, { modules: [7 as never] })).toThrow(/modules\[0\]/);
    const absent = await rejection(store.runtime({ modules: ['/nowhere/work.mjs'] }).start());
    expect(absent).toBeInstanceOf(RuntimeStateError);
    expect(absent.message).toContain("'file:///nowhere/work.mjs' cannot be loaded");
    const empty = await rejection(store.runtime({ modules: [codecOf('locked-out')] }).start());
    expect(empty.message).toContain('cannot be loaded');
    const nothing = await rejection(store.runtime({ modules: ['node:path'] }).start());
    expect(nothing.message).toContain("the module 'node:path' exports no definitions");
    // The module is named by its path. Without threads, the same code runs on one thread.
    const runtime = store.runtime({ modules: [fileURLToPath(WORK)] });
    await runtime.start();
    const id = store.id('steps');
    await store.client.startOrchestration(id, 'steps', 2);
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(2);
  });

  it('have the codec from a module, where the provider has one', async () => {
    const codec: Codec = {
      encode: (text) => Buffer.from(text).toString('base64'),
      decode: (text) => Buffer.from(text, 'base64').toString(),
    };
    const provider = await store.open({ codec });
    const without = store.runtime({ threads: 1, modules: [WORK] }, provider);
    const error = await rejection(without.start());
    expect(error).toBeInstanceOf(RuntimeStateError);
    expect(error.message).toContain("one of the modules must export it as 'codec'");
    await store.start(() => {}, { threads: 1, modules: [WORK, codecOf('thread-codec')] }, provider);
    const client = new (await import('perdure')).Client(provider);
    const id = store.id('steps');
    await client.startOrchestration(id, 'steps', 3);
    expect((await client.waitForOrchestration(id, SOON)).output).toBe(3);
  });
});

import { Client, type InstanceEvent, InstanceExistsError, type Runtime, RuntimeStateError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred, nextTick, rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('start and shutdown', () => {
    it('follow each other as often as wanted, each time as another worker', async () => {
      const workers: string[] = [];
      const runtime = store.runtime();
      runtime
        .registerActivity('who', (ctx) => workers.push(ctx.workerId))
        .registerOrchestration('who', function* (ctx) {
          yield ctx.scheduleActivity('who');
        });
      for (let i = 0; i < 4; i += 1) {
        await runtime.start();
        const id = store.id();
        await store.client.startOrchestration(id, 'who');
        await store.client.waitForOrchestration(id, SOON);
        await runtime.shutdown();
      }
      expect(new Set(workers).size).toBe(4);
    });

    it('throw an error that names the state when they do not fit it', async () => {
      const runtime = store.runtime();
      await runtime.shutdown();
      const starting = runtime.start();
      expect(await rejection(runtime.start())).toBeInstanceOf(RuntimeStateError);
      await starting;
      expect(await rejection(runtime.start())).toMatchObject({ name: 'RuntimeStateError', code: 'RUNTIME_STATE' });
      expect(await rejection(runtime.shutdown('soon' as '1s'))).toBeInstanceOf(TypeError);
      await Promise.all([runtime.shutdown(), runtime.shutdown(), runtime[Symbol.asyncDispose]()]);
      await runtime.shutdown();
    });

    it('keep the provider open between them, and let it close afterwards', async () => {
      const provider = await store.open();
      const runtime = await store.start(() => {}, {}, provider);
      expect(await rejection(provider.close())).toBeInstanceOf(RuntimeStateError);
      await new Client(provider).startOrchestration(store.id(), 'nobody registers this');
      await runtime.shutdown();
      await provider.close();
      expect(await rejection(runtime.start())).toBeInstanceOf(RuntimeStateError);
    });

    it('may overlap: a shutdown while it starts ends it', async () => {
      const runtime = store.runtime();
      const starting = runtime.start();
      await runtime.shutdown();
      await starting;
      await runtime.start();
      await runtime.shutdown();
    });

    it('takes 50 ms at most when it is idle, with instances that sleep in it', async () => {
      const runtime = store.runtime();
      runtime.registerOrchestration('idle', function* (ctx) {
        ctx.setCustomStatus('waits');
        yield ctx.race(ctx.waitForEvent('never'), ctx.scheduleTimer('1h'));
      });
      const took: number[] = [];
      for (let i = 0; i < 9; i += 1) {
        await runtime.start();
        const ids = Array.from({ length: 5 }, () => store.id('idle'));
        await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'idle')));
        await Promise.all(ids.map((id) => store.client.waitForStatusChange(id, 0, undefined, SOON)));
        const before = performance.now();
        await runtime.shutdown('30s');
        took.push(performance.now() - before);
      }
      expect(median(took)).toBeLessThanOrEqual(50);
      // The other times are also near it: no call waits for a poll.
      expect(Math.max(...took)).toBeLessThan(500);
    });
  });

  describe('registrations', () => {
    it('may come after the start, and find waiting instances at once', async () => {
      const took: number[] = [];
      for (let i = 0; i < 3; i += 1) {
        const id = store.id();
        await store.client.startOrchestration(id, `late ${i}`);
        const runtime = await store.start(() => {});
        await store.settled();
        expect(await store.client.getStatus(id)).toMatchObject({ status: 'Pending' });
        const before = performance.now();
        runtime.registerActivity('also late', () => 'ran');
        runtime.registerOrchestration(`late ${i}`, function* (ctx) {
          return yield ctx.scheduleActivity('also late');
        });
        expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('ran');
        took.push(performance.now() - before);
        await runtime.shutdown();
      }
      // Sooner than a poll, which comes every second.
      expect(Math.min(...took)).toBeLessThan(500);
    });

    it('are refused when name and version are taken', () => {
      const runtime = store.runtime();
      runtime.registerActivity('a', () => 1);
      runtime.registerOrchestration('o', function* () {});
      runtime.registerOrchestration('o', function* () {}, { version: '2.0.0' });
      for (const twice of [
        () => runtime.registerActivity('a', () => 2),
        () => runtime.registerOrchestration('o', function* () {}),
        () => runtime.registerOrchestration('o', function* () {}, { version: '2.0.0' }),
      ]) {
        expect(twice).toThrow(RuntimeStateError);
        expect(twice).toThrow(/already registered/);
      }
      expect(() => runtime.register({} as any)).toThrow(TypeError);
      expect(() => runtime.registerOrchestration('async', (async () => {}) as any)).toThrow(/function\*/);
      expect(() => runtime.registerActivity('none', undefined as any)).toThrow(TypeError);
    });

    it('belong to one runtime: several in a process share nothing', async () => {
      const runtimes = await Promise.all(
        ['a', 'b', 'c'].map((name) =>
          store.start((runtime) =>
            runtime
              // Both runtimes use the same name, with different code.
              .registerActivity('who', () => name)
              .registerOrchestration(`only ${name}`, function* (ctx) {
                ctx.setCustomStatus(`${name} was here`);
                return [name, yield ctx.scheduleActivity('who')];
              }),
          ),
        ),
      );
      const ids = await Promise.all(
        Array.from({ length: 30 }, async (_, i) => {
          const name = 'abc'[i % 3] as string;
          const id = store.id(name);
          await store.client.startOrchestration(id, `only ${name}`);
          return id;
        }),
      );
      for (const id of ids) {
        const name = id[0];
        const { output, customStatus } = await store.client.waitForOrchestration(id, SOON);
        expect([output, customStatus]).toEqual([[name, name], `${name} was here`]);
      }
      for (const runtime of runtimes) expect(runtime.metrics()).toMatchObject({ ended: 10, attempts: 10 });
      await runtimes[0]?.shutdown();
      const orphan = store.id();
      await store.client.startOrchestration(orphan, 'only a');
      await store.settled();
      expect(await store.client.getStatus(orphan)).toMatchObject({ status: 'Pending' });
    });
  });

  it('tells of instances that ended, and of a listener that throws', async () => {
    const events: InstanceEvent[] = [];
    const errors: string[] = [];
    const logger = {
      debug: () => {},
      info: () => {},
      warn: () => {},
      error: (_: object, message: string) => void errors.push(message),
    };
    const runtime = await store.start(
      (r) => {
        r.registerOrchestration('ends', function* (ctx, how) {
          if (how === 'Failed') throw new Error('no');
          if (how === 'Cancelled') yield ctx.waitForEvent('never');
        });
      },
      { logLevel: 'error', logger },
    );
    runtime.on('instance', () => {
      throw new Error('a bad listener');
    });
    const told = deferred<void>();
    const off = runtime.on('instance', (event) => {
      if (events.push(event) === 3) told.resolve();
    });
    const ids = ['Completed', 'Failed', 'Cancelled'].map((how) => ({ how, id: store.id() }));
    for (const { how, id } of ids) {
      await store.client.startOrchestration(id, 'ends', how);
      if (how === 'Cancelled') await store.client.cancelInstance(id);
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: how });
    }
    await told.promise;
    expect(events).toEqual(
      ids.map(({ how, id }) => ({ instanceId: id, executionId: 1, name: 'ends', version: '1.0.0', status: how })),
    );
    expect(errors.filter((line) => line.includes('listener'))).toEqual(
      Array.from({ length: 3 }, () => "a listener of 'instance' threw"),
    );
    // A refused start has run its first turn in vain, and no listener is called for it.
    await expect(store.client.startOrchestration(ids[0]!.id, 'ends')).rejects.toThrow(InstanceExistsError);
    off();
    const last = store.id();
    await store.client.startOrchestration(last, 'ends');
    await store.client.waitForOrchestration(last, SOON);
    expect(events).toHaveLength(3);
    expect(() => runtime.on('instances' as any, () => {})).toThrow(/'instance'/);
  });
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('several runtimes share the work, on one provider and on several', async () => {
    const starts = new Map<string, number>();
    const register = (runtime: Runtime): Runtime =>
      runtime
        .registerActivity('count', async (ctx, n: number) => {
          starts.set(ctx.idempotencyKey, (starts.get(ctx.idempotencyKey) ?? 0) + 1);
          await nextTick();
          return n + 1;
        })
        .registerOrchestration('shared', function* (ctx) {
          let n = 0;
          while (n < 5) n = yield ctx.scheduleActivity('count', n);
          return [n, yield ctx.waitForEvent('end')];
        });
    const ids = Array.from({ length: 300 }, () => store.id('shared'));
    await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'shared')));
    const other = await store.open();
    await Promise.all([store.start(register), store.start(register), store.start(register, {}, other)]);
    const otherClient = new Client(other);
    await Promise.all(
      ids.map(async (id, i) => {
        // This works with any owner: an event through any provider reaches the instance, and any provider sees its end.
        await (i % 2 === 0 ? store.client : otherClient).raiseEvent(id, 'end', i);
        const { output } = await (i % 3 === 0 ? store.client : otherClient).waitForOrchestration(id, SOON);
        expect(output).toEqual([5, i]);
      }),
    );
    expect(starts.size).toBe(1_500);
    expect(
      [...starts.values()].filter((n) => n !== 1),
      'no step ran twice',
    ).toEqual([]);
  });
});

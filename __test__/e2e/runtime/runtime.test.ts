import { Client, type Future, type InstanceEvent, InstanceExistsError, type Runtime, RuntimeStateError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { keyedMapSizes, runtimeSizes } from '../../../dist/runtime/internal.js';
import { aborted, Counter, deferred, nextTick, rejection } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const NOTHING_IN_MEMORY = { native: { instances: 0, turns: 0, activities: 0 }, instances: 0, activities: 0 };

/**
 * Resolves when the lane has no job left. Some work, such as dropping generators, is done by jobs, which run with the
 * event loop.
 */
async function drained(runtime: Runtime): Promise<void> {
  do await nextTick();
  while (runtime.metrics().queuedJobs > 0);
}

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

    it('say what is wrong when they do not fit the state', async () => {
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

    it('takes 50 ms at most when it is idle, whatever sleeps in it', async () => {
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

  describe('shutdown under load', () => {
    it('lets what runs finish, takes nothing new, and returns as soon as it is drained', async () => {
      const gate = deferred();
      const begun = new Counter();
      const ran = { first: 0, second: 0 };
      const runtime = store.runtime();
      runtime
        .registerActivity('first', async () => {
          ran.first += 1;
          begun.add();
          await gate.promise;
        })
        .registerActivity('second', () => void (ran.second += 1))
        .registerOrchestration('loaded', function* (ctx) {
          yield ctx.scheduleActivity('first');
          yield ctx.scheduleActivity('second');
          return 'done';
        });
      await runtime.start();
      const ids = Array.from({ length: 20 }, () => store.id('loaded'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'loaded')));
      await begun.reaches(20);

      // The timeout is an hour: if the shutdown waited for anything but the activities, the test would not end.
      const stopping = runtime.shutdown('1h');
      // An instance that is not taken shows that the runtime takes no more work. The instances before it came in time
      // and are like the others.
      const intime: string[] = [];
      let late: string;
      for (;;) {
        late = store.id('loaded');
        const { ownedInstances } = runtime.metrics();
        await store.client.startOrchestration(late, 'loaded');
        if (runtime.metrics().ownedInstances === ownedInstances) break;
        intime.push(late);
      }
      expect(await Promise.race([stopping.then(() => 'stopped'), nextTick().then(() => 'waiting')])).toBe('waiting');
      gate.resolve();
      await stopping;
      expect(ran.first).toBeLessThanOrEqual(20 + intime.length);
      expect(ran.second).toBe(0);
      for (const id of ids) {
        expect(kinds(await store.client.getHistory(id)), 'what finished is stored').toContain('ActivityCompleted');
      }
      expect(await store.client.getStatus(late)).toMatchObject({ status: 'Pending' });

      await runtime.start();
      const all = [...ids, ...intime, late];
      for (const id of all) expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('done');
      expect(ran, 'nothing that had finished ran again').toEqual({ first: all.length, second: all.length });
    });

    it('aborts at the deadline what still runs, which goes on in the next runtime', async () => {
      const reasons: unknown[] = [];
      const [begun, stopped] = [new Counter(), new Counter()];
      const late = deferred();
      let round = 1;
      const starts: string[] = [];
      const runtime = store.runtime();
      runtime
        .registerActivity('stubborn', async (ctx) => {
          starts.push(`${round} ${ctx.idempotencyKey} ${ctx.attempt}`);
          begun.add();
          if (round === 2) return 'second';
          reasons.push(await aborted(ctx.signal));
          stopped.add();
          await late.promise;
          return 'first';
        })
        .registerOrchestration('aborted', function* (ctx) {
          return yield ctx.scheduleActivity('stubborn');
        });
      await runtime.start();
      const ids = Array.from({ length: 10 }, () => store.id('aborted'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'aborted')));
      await begun.reaches(10);
      const before = performance.now();
      await runtime.shutdown('80ms');
      const took = performance.now() - before;
      expect(took).toBeGreaterThanOrEqual(79);
      expect(took, 'the deadline is kept').toBeLessThan(1_000);
      await stopped.reaches(10);
      for (const reason of reasons) expect(reason).toBeInstanceOf(RuntimeStateError);

      round = 2;
      await runtime.start();
      late.resolve();
      for (const id of ids) {
        expect((await store.client.waitForOrchestration(id, SOON)).output, 'the late result was dropped').toBe(
          'second',
        );
        expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
      }
      expect(starts).toHaveLength(20);
      expect(new Set(starts.map((line) => line.slice(2))).size, 'an abort is no failed attempt').toBe(10);
    });

    it('tells every activity that it leaves running, every time', async () => {
      const runtime = store.runtime();
      let [begun, told] = [new Counter(), new Counter()];
      const never = deferred();
      runtime
        .registerActivity('deaf', async (ctx) => {
          begun.add();
          void aborted(ctx.signal).then(() => told.add());
          await never.promise;
        })
        .registerOrchestration('left running', function* (ctx) {
          yield ctx.scheduleActivity('deaf');
        });
      const ids = Array.from({ length: 10 }, () => store.id('left'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'left running')));
      // Repeated many times: the message and the closing of the lane race between threads.
      for (let round = 0; round < 20; round += 1) {
        [begun, told] = [new Counter(), new Counter()];
        await runtime.start();
        await begun.reaches(10);
        await runtime.shutdown(1);
        await told.reaches(10);
      }
      for (const id of ids) await store.client.terminateInstance(id);
      never.resolve();
    }, 10_000);

    it('in the middle of many turns loses and repeats nothing that was recorded', async () => {
      const starts = new Map<string, number>();
      const runtime = store.runtime({ activityConcurrency: 8 });
      runtime
        .registerActivity('count', async (ctx, n: number) => {
          starts.set(ctx.idempotencyKey, (starts.get(ctx.idempotencyKey) ?? 0) + 1);
          await nextTick();
          return n + 1;
        })
        .registerOrchestration('chain', function* (ctx) {
          let n = 0;
          while (n < 20) n = yield ctx.scheduleActivity('count', n);
          return n;
        });
      await runtime.start();
      const ids = Array.from({ length: 40 }, () => store.id('chain'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'chain')));
      for (const id of ids.slice(0, 5)) {
        const waiting = store.client.waitForOrchestration(id, SOON);
        await runtime.shutdown('10s');
        await runtime.start();
        await waiting;
      }
      for (const id of ids) expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(20);
      expect(starts.size).toBe(800);
      // Each shutdown waited for the running activities, so each of them ran exactly once.
      expect([...starts.values()].filter((n) => n !== 1)).toEqual([]);
    });
  });

  describe('registrations', () => {
    it('may come after the start, and find at once what waits for them', async () => {
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
        expect(twice).toThrow(/registered already/);
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
    expect(errors).toEqual(Array.from({ length: 3 }, () => "a listener of 'instance' threw"));
    // A refused start has run its first turn in vain, and no listener is called for it.
    await expect(store.client.startOrchestration(ids[0]!.id, 'ends')).rejects.toThrow(InstanceExistsError);
    off();
    const last = store.id();
    await store.client.startOrchestration(last, 'ends');
    await store.client.waitForOrchestration(last, SOON);
    expect(events).toHaveLength(3);
    expect(() => runtime.on('instances' as any, () => {})).toThrow(/'instance'/);
  });

  describe('memory', () => {
    it('holds no more generators than cachedInstancesMax, and replays the others', async () => {
      let passes = 0;
      const runtime = await store.start(
        (r) =>
          r
            .registerActivity('add', (_, [a, b]: [number, number]) => a + b)
            .registerOrchestration('cached', function* (ctx, n: number) {
              passes += 1;
              let sum = n;
              for (let i = 1; i <= 3; i += 1) {
                ctx.setCustomStatus(i);
                sum += yield ctx.waitForEvent('add');
                sum = yield ctx.scheduleActivity('add', [sum, 100]);
              }
              return sum;
            }),
        { cachedInstancesMax: 2 },
      );
      const ids = Array.from({ length: 50 }, (_, i) => ({ id: store.id('cached'), i }));
      await Promise.all(ids.map(({ id, i }) => store.client.startOrchestration(id, 'cached', i)));
      for (let round = 1; round <= 3; round += 1) {
        await Promise.all(ids.map(({ id }) => store.client.waitForStatusChange(id, round - 1, undefined, SOON)));
        await store.settled();
        expect(runtime.metrics().cachedInstances).toBeLessThanOrEqual(2);
        await drained(runtime);
        const { native, instances } = runtimeSizes(runtime);
        expect(native.instances, 'all wait for events: nothing but the cache is loaded').toBeLessThanOrEqual(2);
        expect(instances).toBeLessThanOrEqual(2);
        await Promise.all(ids.map(({ id }) => store.client.raiseEvent(id, 'add', round)));
      }
      for (const { id, i } of ids) {
        expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(i + 306);
        expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
      }
      // At most 2 of 50 instances could be kept from round to round.
      expect(passes).toBeGreaterThanOrEqual(50 + 3 * 48);
    });

    it('holds the generators that the cache has room for, and does not replay them', async () => {
      let passes = 0;
      const runtime = await store.start((r) =>
        r.registerOrchestration('kept', function* (ctx) {
          passes += 1;
          for (let i = 1; i <= 5; i += 1) {
            ctx.setCustomStatus(i);
            yield ctx.waitForEvent('next');
          }
        }),
      );
      const ids = Array.from({ length: 20 }, () => store.id('kept'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'kept')));
      for (let round = 0; round < 5; round += 1) {
        await Promise.all(ids.map((id) => store.client.waitForStatusChange(id, round, undefined, SOON)));
        await Promise.all(ids.map((id) => store.client.raiseEvent(id, 'next')));
      }
      await Promise.all(ids.map((id) => store.client.waitForOrchestration(id, SOON)));
      expect(passes).toBe(20);
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
    });

    it('holds none of 1 000 instances that sleep on a timer', async () => {
      const runtime = await store.start((r) =>
        r
          .registerActivity('before', () => 1)
          .registerOrchestration('sleeps', function* (ctx) {
            yield ctx.scheduleActivity('before');
            ctx.traceDebug('going to sleep');
            ctx.setCustomStatus('asleep');
            yield ctx.scheduleTimer('1h');
          }),
      );
      const ids = Array.from({ length: 1_000 }, () => store.id('sleeps'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'sleeps')));
      await Promise.all(ids.map((id) => store.client.waitForStatusChange(id, 0, undefined, SOON)));
      await store.settled();
      expect(runtime.metrics()).toMatchObject({
        ownedInstances: 0,
        cachedInstances: 0,
        openActivities: 0,
        turnsInProgress: 0,
      });
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
      expect(keyedMapSizes()).toEqual({ customStatus: 0, trace: 0 });

      // Each instance can be woken.
      await Promise.all(ids.map((id) => store.client.cancelInstance(id)));
      for (const id of ids) expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
    });

    it('lets go of those that sleep for more than a second, and wakes them in time', async () => {
      const runtime = await store.start((r) =>
        r.registerOrchestration('naps', function* (ctx) {
          const before = ctx.now();
          ctx.setCustomStatus('asleep');
          yield ctx.scheduleTimer('1500ms');
          return ctx.now() - before;
        }),
      );
      const ids = Array.from({ length: 50 }, () => store.id('naps'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'naps')));
      await Promise.all(ids.map((id) => store.client.waitForStatusChange(id, 0, undefined, SOON)));
      await store.settled();
      expect(runtime.metrics()).toMatchObject({ ownedInstances: 0 });
      for (const id of ids) {
        const { output } = await store.client.waitForOrchestration(id, SOON);
        expect(output).toBeGreaterThanOrEqual(1_500);
        expect(output).toBeLessThan(4_000);
      }
    });

    it('holds nothing of instances that are done, however they ended', async () => {
      const runtime = await store.start((r) =>
        r
          .registerActivity('echo', (_, value) => value)
          .registerActivity(
            'fails',
            () => {
              throw new Error('no');
            },
            { retry: { maxAttempts: 2, initialInterval: 1 } },
          )
          .registerActivity('holds', (ctx) => aborted(ctx.signal))
          .registerOrchestration('ends', function* (ctx, how) {
            ctx.traceInfo('begins');
            ctx.setCustomStatus({ how });
            ctx.scheduleActivity('holds');
            yield ctx.scheduleActivity('echo', how);
            if (how === 'Failed') yield ctx.scheduleActivity('fails');
            if (how === 'Cancelled') yield ctx.scheduleTimer(300);
            if (how === 'Terminated') yield ctx.waitForEvent('never');
          }),
      );
      const ids = Array.from({ length: 200 }, (_, i) => {
        const how = ['Completed', 'Failed', 'Cancelled', 'Terminated'][i % 4] as string;
        return { how, id: store.id(how) };
      });
      await Promise.all(ids.map(({ id, how }) => store.client.startOrchestration(id, 'ends', how)));
      await Promise.all(
        ids.map(async ({ id, how }) => {
          if (how === 'Cancelled') await store.client.cancelInstance(id);
          if (how === 'Terminated') await store.client.terminateInstance(id);
          expect((await store.client.waitForOrchestration(id, SOON)).status).toBe(how);
        }),
      );
      await store.settled();
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
      expect(keyedMapSizes()).toEqual({ customStatus: 0, trace: 0 });
      expect(runtime.metrics()).toMatchObject({
        ownedInstances: 0,
        cachedInstances: 0,
        runningActivities: 0,
        openActivities: 0,
        queuedJobs: 0,
        turnsInProgress: 0,
      });
    });

    it('counts what is there while it is there', async () => {
      const gate = deferred();
      const begun = new Counter();
      const runtime = await store.start((r) =>
        r
          .registerActivity('gated', async () => {
            begun.add();
            await gate.promise;
          })
          .registerOrchestration('counted', function* (ctx) {
            ctx.traceInfo('x');
            ctx.setCustomStatus('x');
            yield ctx.scheduleActivity('gated');
          }),
      );
      const ids = Array.from({ length: 7 }, () => store.id());
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'counted')));
      await begun.reaches(7);
      expect(runtimeSizes(runtime)).toEqual({
        native: { instances: 7, turns: 0, activities: 7 },
        instances: 7,
        activities: 7,
      });
      expect(keyedMapSizes()).toEqual({ customStatus: 7, trace: 7 });
      expect(runtime.metrics()).toMatchObject({
        ownedInstances: 7,
        cachedInstances: 7,
        runningActivities: 7,
        openActivities: 7,
      });
      gate.resolve();
      await Promise.all(ids.map((id) => store.client.waitForOrchestration(id, SOON)));
      await drained(runtime);
      expect(runtimeSizes(runtime)).toEqual(NOTHING_IN_MEMORY);
    });
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

  describe('code that no longer fits its history', () => {
    type Code = (ctx: any) => Generator<any, unknown, any>;

    const right: Code = function* (ctx) {
      const a = yield ctx.scheduleActivity('a', { n: 1 });
      const b = yield ctx.scheduleActivity('b', a);
      yield ctx.race(ctx.waitForEvent('ready'), ctx.scheduleTimer('1h'));
      ctx.setCustomStatus('waiting');
      return [a, b, yield ctx.waitForEvent('go')];
    };

    /** The code is the same until both activities are done. */
    const untilReady = (wait: (ctx: any) => Future<unknown>): Code =>
      function* (ctx) {
        const a = yield ctx.scheduleActivity('a', { n: 1 });
        yield ctx.scheduleActivity('b', a);
        yield wait(ctx);
      };

    /**
     * Code that does not fit the history, and the report about it. If nothing was asked for, the report has no line.
     */
    const wrong: Record<string, { code: Code; report: object; source?: unknown }> = {
      'another activity': {
        code: function* (ctx) {
          yield ctx.scheduleActivity('b', { n: 1 });
        },
        report: { eventId: 2, recorded: expect.stringContaining("'a'"), attempted: expect.stringContaining("'b'") },
      },
      'another input': {
        code: function* (ctx) {
          yield ctx.scheduleActivity('a', { n: 2 });
        },
        report: { eventId: 2, field: { name: 'input', recorded: '{"n":1}', attempted: '{"n":2}' } },
      },
      'another order': {
        code: function* (ctx) {
          ctx.scheduleActivity('a', { n: 1 });
          yield ctx.scheduleActivity('b', 'a');
        },
        report: {
          eventId: 3,
          recorded: expect.stringContaining('completes'),
          attempted: expect.stringContaining("'b'"),
        },
      },
      'one more': {
        code: function* (ctx) {
          const a = yield ctx.scheduleActivity('a', { n: 1 });
          yield ctx.scheduleActivity('b', a);
          yield ctx.race(ctx.waitForEvent('ready'), ctx.scheduleTimer('1h'));
          yield ctx.scheduleActivity('a', 'more');
          return yield ctx.waitForEvent('go');
        },
        report: { eventId: 8, attempted: expect.stringContaining("'a'") },
      },
      'one fewer': {
        code: function* (ctx) {
          yield ctx.scheduleActivity('a', { n: 1 });
          return yield ctx.waitForEvent('go');
        },
        report: { eventId: 4, recorded: expect.stringContaining("'b'"), attempted: expect.stringContaining('wait') },
        source: undefined,
      },
      'an end too early': {
        code: function* (ctx) {
          yield ctx.scheduleActivity('a', { n: 1 });
          return 'done';
        },
        report: { eventId: 4, recorded: expect.stringContaining("'b'"), attempted: expect.stringContaining('returns') },
        source: undefined,
      },
      'a timer in place of an activity': {
        code: function* (ctx) {
          yield ctx.scheduleTimer('1h');
        },
        report: { eventId: 2, recorded: expect.stringContaining("'a'"), attempted: expect.stringContaining('timer') },
      },
      'another time of a timer': {
        code: untilReady((ctx) => ctx.race(ctx.waitForEvent('ready'), ctx.scheduleTimer('2h'))),
        report: {
          eventId: 6,
          field: { name: 'fireAtMs', recorded: expect.any(String), attempted: expect.any(String) },
        },
      },
      'another event': {
        code: untilReady((ctx) => ctx.race(ctx.waitForEvent('steady'), ctx.scheduleTimer('1h'))),
        report: {
          eventId: 7,
          recorded: expect.stringContaining("'ready'"),
          attempted: expect.stringContaining("'steady'"),
        },
        source: undefined,
      },
      'code that swallows every error': {
        code: function* (ctx) {
          for (;;) {
            try {
              yield ctx.scheduleActivity('b');
            } catch {
              return 'swallowed';
            }
          }
        },
        report: { eventId: 2, attempted: expect.stringContaining("'b'") },
      },
    };

    it.each(Object.entries(wrong))(
      'suspends the instance and changes nothing: %s',
      async (_, { code, report, ...rest }) => {
        const source = 'source' in rest ? {} : { source: expect.stringContaining('runtime.test.ts') };
        const ran: string[] = [];
        const id = store.id();
        const name = `changing ${id}`;
        const deploy = (version: Code) =>
          store.start((runtime) => {
            for (const activity of ['a', 'b']) {
              runtime.registerActivity(activity, (ctx) => {
                ran.push(ctx.idempotencyKey);
                return activity;
              });
            }
            runtime.registerOrchestration(name, version);
          });

        const first = await deploy(right);
        await store.client.startOrchestration(id, name);
        await store.client.raiseEvent(id, 'ready');
        await store.client.waitForStatusChange(id, 0, undefined, SOON);
        await first.shutdown();
        const history = await store.client.getHistory(id);
        expect(kinds(history)).toEqual([
          'ExecutionStarted',
          'ActivityScheduled',
          'ActivityCompleted',
          'ActivityScheduled',
          'ActivityCompleted',
          'TimerCreated',
          'EventReceived',
        ]);

        const second = await deploy(code);
        const suspended = deferred<InstanceEvent>();
        second.on('instance', (event) => suspended.resolve(event));
        await store.client.raiseEvent(id, 'go', 'event');
        expect(await suspended.promise).toMatchObject({ instanceId: id, status: 'Suspended' });
        await store.settled();
        const status = await store.client.getStatus(id);
        expect(status).toMatchObject({ status: 'Suspended', customStatus: 'waiting', customStatusVersion: 1 });
        expect(status?.error).toMatchObject({
          name: 'NondeterminismError',
          code: 'NONDETERMINISM',
          report: { ...report, ...source },
        });
        expect(await store.client.getHistory(id)).toEqual(history);
        expect(store.errors.splice(0).map(({ message }) => message)).toEqual([
          expect.stringContaining(`'${id}' is suspended`),
        ]);
        await second.shutdown();

        await deploy(right);
        expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['a', 'b', 'event']);
        expect(ran).toHaveLength(2);
        expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
      },
    );

    it('is suspended again when it is resumed with the wrong code, and ends at once when it is cancelled', async () => {
      const id = store.id();
      const first = await store.start((runtime) =>
        runtime.registerOrchestration('stays wrong', function* (ctx) {
          ctx.setCustomStatus('waiting');
          yield ctx.scheduleTimer('1h');
        }),
      );
      await store.client.startOrchestration(id, 'stays wrong');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await first.shutdown();
      const suspensions = new Counter();
      const second = await store.start((runtime) =>
        runtime.registerOrchestration('stays wrong', function* (ctx) {
          yield ctx.scheduleTimer('2h');
        }),
      );
      second.on('instance', () => suspensions.add());
      await store.client.raiseEvent(id, 'wake');
      await suspensions.reaches(1);
      await store.settled();
      await store.client.resume(id);
      await suspensions.reaches(2);
      await store.settled();
      expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
      expect(store.errors.splice(0)).toHaveLength(2);
      await store.client.cancelInstance(id, 'given up');
      const { status, error } = (await store.client.getStatus(id)) ?? {};
      expect([status, error?.message]).toEqual([
        'Cancelled',
        `cancelled: instance '${id}' was suspended, and none of its code ran`,
      ]);
      const history = await store.client.getHistory(id);
      expect(historyViolations(history, 'Cancelled')).toEqual([]);
      expect(history.slice(-2)).toMatchObject([
        { kind: 'CancelRequested', payload: 'given up' },
        { kind: 'ExecutionCancelled' },
      ]);
      await store.client.cancelInstance(id);
      expect(await rejection(store.client.resume(id))).toMatchObject({ code: 'RUNTIME_STATE' });
    });
  });
});

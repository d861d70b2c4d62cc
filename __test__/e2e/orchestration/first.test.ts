import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client, defineActivity, defineOrchestration, Runtime, SqliteProvider } from 'perdure';
import { describe, expect, it } from 'vitest';

import { Counter, deferred } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES, temporaryFolder } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

it('runs the first program of the documentation as it stands', async () => {
  const folder = temporaryFolder();
  const pay = async (order: { total: number }, { signal }: { signal: AbortSignal }) => {
    expect(signal.aborted).toBe(false);
    return { receipt: 17, paid: order.total };
  };

  const provider = await SqliteProvider.open(join(folder, 'orders.db'));
  const runtime = new Runtime(provider);
  runtime.registerActivity('charge', async (ctx, order) => pay(order, { signal: ctx.signal }));
  runtime.registerOrchestration('order', function* (ctx, order) {
    const receipt = yield ctx.scheduleActivity('charge', order);
    ctx.setCustomStatus('charged');
    const answer = yield ctx.race(ctx.waitForEvent('approve'), ctx.scheduleTimer('24h'));
    return answer.index === 0 ? receipt : 'expired';
  });
  await runtime.start();

  const client = new Client(provider);
  await client.startOrchestration('order-1', 'order', { total: 12 });
  await client.raiseEvent('order-1', 'approve', { by: 'ada' });
  const result = await client.waitForOrchestration('order-1', '30s');
  await runtime.shutdown('5s');

  expect(result).toEqual({
    id: 'order-1',
    name: 'order',
    version: '1.0.0',
    status: 'Completed',
    executionId: 1,
    output: { receipt: 17, paid: 12 },
    customStatus: 'charged',
    customStatusVersion: 1,
    createdAt: expect.any(Date),
    updatedAt: expect.any(Date),
    completedAt: expect.any(Date),
    tags: {},
  });
  expect(await client.getStatus('order-1')).toEqual(result);
  const history = await client.getHistory('order-1');
  expect(kinds(history)).toEqual([
    'ExecutionStarted',
    'ActivityScheduled',
    'ActivityCompleted',
    'TimerCreated',
    'EventReceived',
    'ExecutionCompleted',
  ]);
  expect(historyViolations(history, 'Completed')).toEqual([]);
  await provider.close();
  expect(readdirSync(folder)).toEqual(['orders.db']);
  rmSync(folder, { recursive: true });
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('an orchestration', () => {
    it('waits with yield and with yield* for the same thing', async () => {
      const double = defineActivity('double', (_, n: number) => n * 2);
      await store.start((runtime) =>
        runtime.register(double).registerOrchestration('both', function* (ctx) {
          const future = ctx.call(double, 4);
          const typed = yield* future;
          const again: number = yield future;
          return [
            typed,
            again,
            yield ctx.scheduleActivity('double', typed),
            yield* ctx.scheduleActivity<number>('double', 1),
          ];
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'both');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([8, 8, 16, 2]);
      expect(kinds(await store.client.getHistory(id)).filter((name) => name === 'ActivityScheduled')).toHaveLength(3);
    });

    it('gives its facts, and those of the activity', async () => {
      const seen: unknown[] = [];
      const runtime = await store.start((r) =>
        r
          .registerActivity('facts', (ctx) => {
            const { instanceId, executionId, orchestrationName, activityName, attempt, workerId, idempotencyKey } = ctx;
            seen.push({ instanceId, executionId, orchestrationName, activityName, attempt });
            expect(workerId).toMatch(/./);
            return idempotencyKey;
          })
          .registerOrchestration(
            'facts',
            function* (ctx, input) {
              const { instanceId, executionId, name, version, parentId, isReplaying } = ctx;
              const keys = yield ctx.all([ctx.scheduleActivity('facts'), ctx.scheduleActivity('facts')]);
              return { input, instanceId, executionId, name, version, parentId, isReplaying, keys };
            },
            { version: '2.1.0' },
          ),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'facts', undefined, { tags: { team: 'x', größe: '😀' } });
      const { output, version, tags } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual({
        input: undefined,
        instanceId: id,
        executionId: 1,
        name: 'facts',
        version: '2.1.0',
        parentId: undefined,
        isReplaying: false,
        keys: [expect.any(String), expect.any(String)],
      });
      expect(new Set(output.keys).size).toBe(2);
      expect([version, tags]).toEqual(['2.1.0', { team: 'x', größe: '😀' }]);
      const activity = {
        instanceId: id,
        executionId: 1,
        orchestrationName: 'facts',
        activityName: 'facts',
        attempt: 1,
      };
      expect(seen).toEqual([activity, activity]);
      expect(runtime.metrics()).toMatchObject({ ended: 1, attempts: 2 });
    });

    it('runs the version it was started with, by default the highest that is registered', async () => {
      await store.start((runtime) => {
        for (const version of ['1.9.0', '1.10.0', '1.2.0']) {
          runtime.registerOrchestration(
            'versions',
            function* () {
              return version;
            },
            { version },
          );
        }
      });
      const [highest, named] = [store.id(), store.id()];
      await store.client.startOrchestration(highest, 'versions');
      await store.client.startOrchestration(named, 'versions', null, { version: '1.2.0' });
      expect(await store.client.waitForOrchestration(highest, SOON)).toMatchObject({
        output: '1.10.0',
        version: '1.10.0',
      });
      expect(await store.client.waitForOrchestration(named, SOON)).toMatchObject({ output: '1.2.0', version: '1.2.0' });
    });

    it('gives typed handles, with an id made for it', async () => {
      const shout = defineActivity('shout', async (_, text: string) => text.toUpperCase());
      const greet = defineOrchestration('greet', function* (ctx, name: string) {
        const greeting = yield* ctx.call(shout, `hello ${name}`);
        const { mark } = yield* ctx.waitForEvent<{ mark: string }>('mark');
        return greeting + mark + (yield* ctx.dequeueEvent<string>('more'));
      });
      await store.start((runtime) => runtime.register(shout, greet));
      const before = Date.now();
      const handle = await store.client.start(greet, 'ada');
      expect(handle.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(Number.parseInt(handle.id.replace('-', '').slice(0, 12), 16)).toBeGreaterThanOrEqual(before);
      await handle.raiseEvent('mark', { mark: '!' });
      await handle.enqueueEvent('more', '?');
      expect(await handle.result({ timeout: SOON })).toBe('HELLO ada!?'.toUpperCase());
      expect(await handle.status()).toMatchObject({ status: 'Completed' });
      expect(await store.client.handle(handle.id).result()).toBe('HELLO ADA!?');
    });

    it('is told what it must not yield', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('wrong', function* () {
          const told: string[] = [];
          for (const wrong of [Promise.resolve(1), 5, [], undefined, async () => {}]) {
            try {
              yield wrong;
            } catch (error) {
              const { name, code, instead } = error as { name: string; code: string; instead: string };
              told.push(`${name} ${code} ${instead.length > 0}`);
            }
          }
          return told;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'wrong');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(
        Array.from({ length: 5 }, () => 'DeterminismError DETERMINISM true'),
      );
    });
  });

  describe('parallel work', () => {
    it('begins when it is scheduled, before the first yield', async () => {
      const gates = { a: deferred(), b: deferred() };
      await store.start((runtime) =>
        runtime
          // Each ends only when the other has begun.
          .registerActivity('meet', async (_, [mine, other]: ['a' | 'b', 'a' | 'b']) => {
            gates[mine].resolve();
            await gates[other].promise;
            return mine;
          })
          .registerOrchestration('meeting', function* (ctx) {
            const a = ctx.scheduleActivity('meet', ['a', 'b']);
            const b = ctx.scheduleActivity('meet', ['b', 'a']);
            return [yield a, yield b];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'meeting');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['a', 'b']);
      expect(kinds(await store.client.getHistory(id)).slice(0, 3)).toEqual([
        'ExecutionStarted',
        'ActivityScheduled',
        'ActivityScheduled',
      ]);
    });

    it('is awaited by all over many branches, in their order', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('square', async (_, n: number) => n * n)
          .registerOrchestration('squares', function* (ctx, n: number) {
            return yield ctx.all(Array.from({ length: n }, (_, i) => ctx.scheduleActivity('square', i)));
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'squares', 300);
      const { output } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual(Array.from({ length: 300 }, (_, i) => i * i));
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('is not limited by activityConcurrency, which limits only what runs at once', async () => {
      let running = 0;
      let most = 0;
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('slow', async () => {
              running += 1;
              most = Math.max(most, running);
              await new Promise((resolve) => setImmediate(resolve));
              running -= 1;
            })
            .registerOrchestration('wide', function* (ctx) {
              yield ctx.all(Array.from({ length: 40 }, () => ctx.scheduleActivity('slow')));
            }),
        { activityConcurrency: 3 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'wide');
      expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
      expect(most).toBe(3);
    });

    it('ends all with the first failure, and the others go on', async () => {
      const [failed, late] = [deferred(), deferred()];
      await store.start((runtime) =>
        runtime
          .registerActivity(
            'fails',
            () => {
              throw new Error('no');
            },
            { retry: { maxAttempts: 1 } },
          )
          .registerActivity('late', async (ctx) => {
            await failed.promise;
            late.resolve();
            return ctx.signal.aborted;
          })
          .registerOrchestration('all fails', function* (ctx) {
            const branches = [ctx.scheduleActivity('late'), ctx.scheduleActivity('fails')];
            let message = 'nothing';
            try {
              yield ctx.all(branches);
            } catch (error) {
              message = (error as Error).message;
            }
            ctx.setCustomStatus(message);
            return [message, yield branches[0]];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'all fails');
      const change = await store.client.waitForStatusChange(id, 0, undefined, SOON);
      expect(change?.customStatus).toBe("activity 'fails' failed at its first attempt: no");
      failed.resolve();
      await late.promise;
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([change?.customStatus, false]);
    });

    it('is won in race by whoever settles first, of many', async () => {
      const gate = deferred<number>();
      const begun = new Counter();
      await store.start((runtime) =>
        runtime
          .registerActivity('contender', async (ctx, n: number) => {
            begun.add();
            if ((await gate.promise) !== n)
              await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
            return `value ${n}`;
          })
          .registerOrchestration('race of 60', function* (ctx) {
            const branches = Array.from({ length: 60 }, (_, i) => ctx.scheduleActivity('contender', i));
            return yield ctx.race(branches);
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'race of 60');
      await begun.reaches(60);
      gate.resolve(41);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({ index: 41, value: 'value 41' });
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('throws from race when the first to settle failed, and any takes the next', async () => {
      const gate = deferred();
      await store.start((runtime) =>
        runtime
          .registerActivity(
            'fails',
            () => {
              throw new TypeError('first');
            },
            { retry: { maxAttempts: 1 } },
          )
          .registerActivity('gated', async () => {
            await gate.promise;
            return 'second';
          })
          .registerOrchestration('race fails', function* (ctx) {
            const branches = [ctx.scheduleActivity('gated'), ctx.scheduleActivity('fails')];
            let message = '';
            try {
              yield ctx.race(branches);
            } catch (error) {
              message = (error as Error).message;
            }
            ctx.setCustomStatus('failed');
            return [message, yield ctx.any(branches), yield ctx.allSettled(branches)];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'race fails');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      gate.resolve();
      const [message, value, settled] = (await store.client.waitForOrchestration(id, SOON)).output;
      expect(message).toBe("activity 'fails' failed at its first attempt: first");
      expect(value).toBe('second');
      expect(settled).toEqual([
        { status: 'fulfilled', value: 'second' },
        { status: 'rejected', reason: expect.objectContaining({ name: 'ActivityError' }) },
      ]);
    });

    it('is cancelled where a race says so, and told by its signal', async () => {
      const [begun, told] = [deferred(), deferred<unknown>()];
      await store.start((runtime) =>
        runtime
          .registerActivity('loser', async (ctx) => {
            begun.resolve();
            ctx.signal.addEventListener('abort', () => told.resolve(ctx.signal.reason));
            await told.promise;
          })
          .registerOrchestration('cancel losers', function* (ctx) {
            const loser = ctx.scheduleActivity('loser');
            const first = yield ctx.race(loser, ctx.waitForEvent('go'), { cancelLosers: true });
            let error: unknown;
            try {
              yield loser;
            } catch (caught) {
              error = caught;
            }
            return [first, error];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'cancel losers');
      await begun.promise;
      await store.client.raiseEvent(id, 'go', 1);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        { index: 1, value: 1 },
        expect.objectContaining({ name: 'CancelledError' }),
      ]);
      expect(await told.promise).toMatchObject({ name: 'CancelledError', code: 'CANCELLED' });
      expect(kinds(await store.client.getHistory(id))).toContain('OperationCancelled');
    });

    it('nests: combinators in combinators, and blocks of several steps as branches', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('add', (_, [a, b]: [number, number]) => a + b)
          .registerOrchestration('nested', function* (ctx) {
            const block = function* (n: number) {
              let sum = n;
              for (let i = 0; i < 5; i += 1) sum = yield* ctx.scheduleActivity<number>('add', [sum, i]);
              return sum;
            };
            const never = ctx.waitForEvent('never');
            return yield ctx.all([
              block(100),
              ctx.race(never, ctx.all([block(200), ctx.scheduleActivity('add', [1, 1])])),
              ctx.spawn(() => block(300)),
              ctx.select({ never, block: block(400) }),
            ]);
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'nested');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        110,
        { index: 1, value: [210, 2] },
        310,
        { tag: 'block', value: 410 },
      ]);
    });
  });

  describe('a timer', () => {
    it('wins a race when nothing else comes, and never early', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('expires', function* (ctx) {
          const before = ctx.now();
          const answer = yield ctx.race(ctx.waitForEvent('approve'), ctx.scheduleTimer('80ms'));
          return { answer, waited: ctx.now() - before };
        }),
      );
      const id = store.id();
      const before = Date.now();
      await store.client.startOrchestration(id, 'expires');
      const { output } = await store.client.waitForOrchestration(id, SOON);
      expect(Date.now() - before).toBeGreaterThanOrEqual(80);
      expect(output.answer).toEqual({ index: 1, value: undefined });
      expect(output.waited).toBeGreaterThanOrEqual(80);
      const history = await store.client.getHistory(id);
      expect(kinds(history)).toEqual(['ExecutionStarted', 'TimerCreated', 'TimerFired', 'ExecutionCompleted']);
      const [, created, fired] = history;
      expect(Number(fired?.time)).toBeGreaterThanOrEqual(Number(created?.time) + 80);
    });

    it('takes a Date, ISO text, a past time and zero', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('times', function* (ctx) {
          const start = ctx.now();
          const times: number[] = [];
          for (const due of [new Date(start + 40), new Date(start + 60).toISOString(), new Date(0), 0, '0ms']) {
            yield ctx.sleep(due);
            times.push(ctx.now() - start);
          }
          return times;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'times');
      const [date, iso] = (await store.client.waitForOrchestration(id, SOON)).output;
      expect(date).toBeGreaterThanOrEqual(40);
      expect(iso).toBeGreaterThanOrEqual(60);
    });

    it('fires in the order of the times, whatever the order of the calls', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('order of timers', function* (ctx) {
          const order: number[] = [];
          const sleeper = function* (ms: number) {
            yield ctx.scheduleTimer(ms);
            order.push(ms);
          };
          yield ctx.all([90, 30, 60, 1].map(sleeper));
          return order;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'order of timers');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([1, 30, 60, 90]);
    });

    it('fires for nobody when nobody waits for it, and is there when somebody does', async () => {
      await store.start((runtime) =>
        runtime
          .registerOrchestration('unawaited', function* (ctx) {
            const timer = ctx.scheduleTimer(5);
            yield ctx.waitForEvent('go');
            ctx.setCustomStatus('the timer is long due');
            yield ctx.waitForEvent('go');
            yield timer;
            return 'both';
          })
          .registerOrchestration('clock', function* (ctx) {
            yield ctx.scheduleTimer(60);
          }),
      );
      const [id, clock] = [store.id(), store.id()];
      await store.client.startOrchestration(id, 'unawaited');
      await store.client.startOrchestration(clock, 'clock');
      await store.client.waitForOrchestration(clock, SOON);
      await store.client.raiseEvent(id, 'go');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      expect(kinds(await store.client.getHistory(id))).not.toContain('TimerFired');
      await store.client.raiseEvent(id, 'go');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('both');
      expect(kinds(await store.client.getHistory(id)).slice(-3)).toEqual([
        'EventReceived',
        'TimerFired',
        'ExecutionCompleted',
      ]);
    });
  });

  describe('now, random and randomUUID', () => {
    it('are the same in every replay', async () => {
      const passes: unknown[][] = [];
      const rounds = 6;
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('tick', () => {})
            .registerOrchestration('deterministic', function* (ctx) {
              const pass: unknown[] = [];
              passes.push(pass);
              for (let i = 1; i <= rounds; i += 1) {
                pass.push(ctx.now(), ctx.random(), ctx.randomUUID());
                ctx.setCustomStatus(i);
                yield ctx.waitForEvent('next');
                yield ctx.scheduleActivity('tick');
              }
              return pass;
            }),
        { cachedInstancesMax: 0 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'deterministic');
      for (let i = 1; i <= rounds; i += 1) {
        await store.client.waitForStatusChange(id, i - 1, undefined, SOON);
        await store.client.raiseEvent(id, 'next');
      }
      const { output, createdAt } = await store.client.waitForOrchestration(id, SOON);
      expect(passes.length, 'it was replayed').toBeGreaterThan(rounds);
      for (const pass of passes) expect(pass).toEqual(output.slice(0, pass.length));
      const at = (place: number): any[] => output.filter((_: unknown, i: number) => i % 3 === place);
      expect(new Set(at(1)).size).toBe(rounds);
      for (const random of at(1)) expect(random >= 0 && random < 1).toBe(true);
      expect(new Set(at(2)).size).toBe(rounds);
      for (const uuid of at(2))
        expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      const times = at(0);
      expect(times[0]).toBe(Number(createdAt));
      expect(times).toEqual([...times].sort((a, b) => a - b));
      const recorded = (await store.client.getHistory(id)).map((event) => Number(event.time));
      for (const time of times) expect(recorded).toContain(time);
    });

    it('differ from instance to instance', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('dice', function* (ctx) {
          return [ctx.random(), ctx.randomUUID()];
        }),
      );
      const ids = Array.from({ length: 20 }, () => store.id());
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'dice')));
      const outputs = await Promise.all(
        ids.map(async (id) => (await store.client.waitForOrchestration(id, SOON)).output),
      );
      expect(new Set(outputs.flat()).size).toBe(40);
    });
  });

  describe('tracing', () => {
    it('is silent while replaying', async () => {
      const lines: { level: string; message: string; fields: Readonly<Record<string, unknown>> }[] = [];
      const write = (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) =>
        void lines.push({ level, message, fields });
      const replaying: boolean[][] = [];
      const runtime = await store.start(
        (r) =>
          r
            .registerActivity('traced', (ctx) => ctx.traceWarn('in the activity', { n: 1 }))
            .registerOrchestration('traces', function* (ctx) {
              const states: boolean[] = [];
              replaying.push(states);
              for (let i = 0; i < 4; i += 1) {
                states.push(ctx.isReplaying);
                ctx.traceInfo(`step ${i}`, { i, at: new Date(0) });
                ctx.setCustomStatus(i + 1);
                yield ctx.waitForEvent('next');
              }
              ctx.traceDebug('debug');
              ctx.traceError('error');
              yield ctx.scheduleActivity('traced');
            }),
        {
          cachedInstancesMax: 0,
          logLevel: 'debug',
          logger: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
        },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'traces');
      for (let i = 1; i <= 4; i += 1) {
        await store.client.waitForStatusChange(id, i - 1, undefined, SOON);
        await store.client.raiseEvent(id, 'next');
      }
      await store.client.waitForOrchestration(id, SOON);
      await runtime.shutdown();
      expect(replaying.length, 'it was replayed').toBeGreaterThan(4);
      // The flag is exact in the middle of a turn: code that was passed before is a replay, and the rest of the same
      // turn is not.
      for (const [pass, states] of replaying.entries()) {
        expect(states).toEqual(states.map((_, i) => i < Math.min(pass, 4)));
      }
      const own = { instanceId: id, executionId: 1, orchestrationName: 'traces' };
      expect(lines.filter(({ fields }) => fields.instanceId === id)).toEqual([
        ...[0, 1, 2, 3].map((i) => ({
          level: 'info',
          message: `step ${i}`,
          fields: { ...own, i, at: '1970-01-01T00:00:00.000Z' },
        })),
        { level: 'debug', message: 'debug', fields: own },
        { level: 'error', message: 'error', fields: own },
        { level: 'warn', message: 'in the activity', fields: { ...own, activityName: 'traced', attempt: 1, n: 1 } },
      ]);
    });
  });

  describe('the custom status', () => {
    it('goes up by one version with each stored change, and wakes those who wait', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('status', function* (ctx) {
          ctx.setCustomStatus('never stored: another follows in this turn');
          ctx.setCustomStatus({ step: 'two', done: 0.5 });
          const seen = [ctx.getCustomStatus()];
          yield ctx.waitForEvent('next');
          ctx.setCustomStatus({ step: 'two', done: 0.5 });
          yield ctx.waitForEvent('next');
          ctx.resetCustomStatus();
          seen.push(ctx.getCustomStatus());
          yield ctx.waitForEvent('next');
          ctx.setCustomStatus(new Map([['rich', new Date(0)]]));
          seen.push(ctx.getCustomStatus());
          return seen;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'status');
      // The poll interval is an hour, so only a wake can be in time.
      const change = (version: number) => store.client.waitForStatusChange(id, version, '1h', SOON);
      expect(await change(0)).toEqual({ customStatus: { step: 'two', done: 0.5 }, customStatusVersion: 1 });
      const second = change(1);
      await store.client.raiseEvent(id, 'next');
      await store.client.raiseEvent(id, 'next');
      expect(await second).toEqual({ customStatus: undefined, customStatusVersion: 2 });
      expect(await store.client.getStatus(id)).toMatchObject({ status: 'Running', customStatusVersion: 2 });
      await store.client.raiseEvent(id, 'next');
      const rich = new Map([['rich', new Date(0)]]);
      expect(await change(2)).toEqual({ customStatus: rich, customStatusVersion: 3 });
      const { output, customStatus, customStatusVersion } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual([{ step: 'two', done: 0.5 }, undefined, rich]);
      expect([customStatus, customStatusVersion]).toEqual([rich, 3]);
      // The instance has ended, so no later change can come.
      expect(await change(3)).toBeNull();
    });

    it('is waited for no longer than asked', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('silent', function* (ctx) {
          yield ctx.waitForEvent('go');
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'silent');
      const before = performance.now();
      expect(await store.client.waitForStatusChange(id, 0, undefined, 50)).toBeNull();
      expect(performance.now() - before).toBeGreaterThanOrEqual(49);
      const waiting = store.client.waitForStatusChange(id, 0, undefined, SOON);
      await store.client.raiseEvent(id, 'go');
      expect(await waiting, 'it ended without one').toBeNull();
    });

    it('is what the code has set, in a replay too', async () => {
      const seen: unknown[][] = [];
      await store.start(
        (runtime) =>
          runtime.registerOrchestration('counts', function* (ctx) {
            const own: unknown[] = [];
            seen.push(own);
            for (let i = 0; i < 3; i += 1) {
              own.push(ctx.getCustomStatus());
              ctx.setCustomStatus((ctx.getCustomStatus<number>() ?? 0) + 1);
              yield ctx.waitForEvent('next');
            }
          }),
        { cachedInstancesMax: 0 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'counts');
      for (let i = 0; i < 3; i += 1) {
        expect(await store.client.waitForStatusChange(id, i, undefined, SOON)).toMatchObject({ customStatus: i + 1 });
        await store.client.raiseEvent(id, 'next');
      }
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
        customStatus: 3,
        customStatusVersion: 3,
      });
      expect(seen).toEqual([[undefined], [undefined, 1], [undefined, 1, 2], [undefined, 1, 2]]);
    });
  });
});

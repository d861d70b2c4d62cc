// The first program of the documentation, and what every orchestration can do.

import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client, defineActivity, defineOrchestration, Runtime, SqliteProvider } from 'perdure';
import { describe, expect, it } from 'vitest';

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
      const { output, version, tags } = await store.client.waitForOrchestration<any>(id, SOON);
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

    it('gets a DeterminismError for a wrong yield', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('wrong', function* () {
          const told: string[] = [];
          for (const wrong of [Promise.resolve(1), 5, [], undefined, async () => {}]) {
            try {
              yield wrong as never;
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
});

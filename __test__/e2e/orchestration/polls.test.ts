import { Client, defineOrchestration } from 'perdure';
import { crashEverywhere } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

// Polls: what is there now, without a timer, and the same in every replay.

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('gives an event that is there, and undefined for one that is not', async () => {
    const early = store.id();
    await store.client.startOrchestration(early, 'early');
    await store.client.raiseEvent(early, 'a', 1);
    await store.start((runtime) =>
      runtime.registerOrchestration('early', function* (ctx) {
        return [yield ctx.pollEvent('a'), yield ctx.pollEvent('a'), yield ctx.pollEvent('b')];
      }),
    );
    expect((await store.client.waitForOrchestration(early, SOON)).output).toEqual([1, undefined, undefined]);
    const history = await store.client.getHistory(early);
    expect(kinds(history).filter((name) => name !== 'ExecutionBegan')).toEqual([
      'ExecutionStarted',
      'EventReceived',
      'EventAbsent',
      'EventAbsent',
      'ExecutionCompleted',
    ]);
    expect(historyViolations(history, 'Completed')).toEqual([]);
  });

  it('finds every message that was acknowledged before', async () => {
    await store.start((runtime) =>
      runtime
        .registerActivity('send', async (_ctx, [id, n]: [string, number]) => {
          await store.client.raiseEvent(id, 'stop', n);
          await store.client.enqueueEvent(id, 'jobs', n);
        })
        .registerOrchestration('steps', function* (ctx) {
          const seen: unknown[] = [];
          for (let n = 0; n < 20; n += 1) {
            yield ctx.scheduleActivity('send', [ctx.instanceId, n]);
            seen.push(yield ctx.pollEvent('stop'), yield ctx.tryDequeue('jobs'));
          }
          return seen;
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'steps');
    const expected = Array.from({ length: 20 }, (_, n) => [n, n]).flat();
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(expected);
  });

  it.skipIf(!kind.isShared)('finds a message that another provider has sent', async () => {
    const other = await store.open();
    const elsewhere = new Client(other);
    await store.start((runtime) =>
      runtime
        .registerActivity('send elsewhere', (_ctx, id: string) => elsewhere.enqueueEvent(id, 'jobs', 'x'))
        .registerOrchestration('asks', function* (ctx) {
          yield ctx.scheduleActivity('send elsewhere', ctx.instanceId);
          return yield ctx.drainQueue('jobs');
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'asks');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['x']);
  });

  it('replays as empty, although the message has come since', async () => {
    const asks = defineOrchestration('asks twice', function* (ctx) {
      const first = yield* ctx.tryDequeue('jobs');
      ctx.setCustomStatus('polled');
      yield* ctx.waitForEvent('go');
      return [first, yield* ctx.tryDequeue('jobs')];
    });
    const first = await store.start((runtime) => runtime.register(asks));
    const id = store.id();
    await store.client.startOrchestration(id, asks.name);
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    await store.client.enqueueEvent(id, 'jobs', 'late');
    await first.shutdown();
    await store.client.raiseEvent(id, 'go');
    await store.start((runtime) => runtime.register(asks));
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([undefined, 'late']);
    const history = await store.client.getHistory(id);
    expect(kinds(history)).toEqual([
      'ExecutionStarted',
      'QueueEmpty',
      'EventReceived',
      'QueueReceived',
      'ExecutionCompleted',
    ]);
  });

  it('drains a queue up to a number, in order, and leaves the rest', async () => {
    const id = store.id();
    await store.client.startOrchestration(id, 'drains');
    for (let n = 0; n < 7; n += 1) await store.client.enqueueEvent(id, 'jobs', n);
    await store.start((runtime) =>
      runtime.registerOrchestration('drains', function* (ctx) {
        return [
          yield ctx.drainQueue('none'),
          yield ctx.drainQueue('jobs', 2),
          yield ctx.drainQueue('jobs', 3),
          yield ctx.drainQueue('jobs'),
          yield ctx.drainQueue('jobs'),
        ];
      }),
    );
    const { output } = await store.client.waitForOrchestration(id, SOON);
    expect(output).toEqual([[], [0, 1], [2, 3, 4], [5, 6], []]);
  });

  it('drains more messages than an instance holds in memory', async () => {
    const id = store.id();
    const count = 1_500;
    await store.client.startOrchestration(id, 'drains all');
    const sends = Array.from({ length: count }, (_, n) => store.client.enqueueEvent(id, 'jobs', n));
    await Promise.all(sends);
    await store.start((runtime) =>
      runtime.registerOrchestration('drains all', function* (ctx) {
        const all: number[] = yield ctx.drainQueue('jobs', 10_000);
        return { count: all.length, isSorted: new Set(all).size === all.length };
      }),
    );
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({ count, isSorted: true });
  });

  it('polls beside a fiber that waits, which goes first', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('beside', function* (ctx) {
        const waiter = ctx.spawn(function* () {
          return yield* ctx.dequeueEvent('jobs');
        });
        const empty = yield* ctx.tryDequeue('jobs');
        ctx.setCustomStatus('polled');
        return [empty, yield* waiter, yield* ctx.tryDequeue('jobs')];
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'beside');
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    await store.client.enqueueEvent(id, 'jobs', 'x');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([undefined, 'x', undefined]);
  });

  it('gives a batch when it is full or its time is up', async () => {
    const id = store.id();
    await store.client.startOrchestration(id, 'batches');
    for (let n = 0; n < 5; n += 1) await store.client.enqueueEvent(id, 'jobs', n);
    await store.start((runtime) =>
      runtime.registerOrchestration('batches', function* (ctx) {
        return [
          yield ctx.dequeueBatch('jobs', 3, '1h'),
          yield ctx.dequeueBatch('jobs', 3, '30ms'),
          yield ctx.dequeueBatch('jobs', 3, '1ms'),
        ];
      }),
    );
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([[0, 1, 2], [3, 4], []]);
  });

  it('checks a polled event with a schema, and finds none without it', async () => {
    const isNumber = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value: unknown) =>
          typeof value === 'number' ? { value: value * 2 } : { issues: [{ message: 'it is no number' }] },
      },
    } as const;
    await store.start((runtime) =>
      runtime
        .registerActivity('raise', (_ctx, [id, data]: [string, unknown]) => store.client.raiseEvent(id, 'n', data))
        .registerOrchestration('checks', function* (ctx) {
          const none = yield* ctx.pollEvent('n', isNumber);
          yield ctx.scheduleActivity('raise', [ctx.instanceId, 21]);
          const some = yield* ctx.pollEvent('n', isNumber);
          yield ctx.scheduleActivity('raise', [ctx.instanceId, 'x']);
          try {
            yield* ctx.pollEvent('n', isNumber);
          } catch (error) {
            return [none, some, (error as Error).name];
          }
          return 'no error';
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'checks');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([undefined, 42, 'PayloadError']);
  });
});

it('is answered under the clock of the test runtime, which crashes at each place', async () => {
  const watches = defineOrchestration('watches', function* (ctx) {
    for (let round = 0; ; round += 1) {
      if ((yield* ctx.pollEvent('stop')) !== undefined) return round;
      yield* ctx.sleep('1h');
    }
  });
  const { result } = await crashEverywhere(async (test) => {
    test.register(watches);
    const handle = await test.start(watches);
    await test.advance('90m');
    await handle.raiseEvent('stop', true);
    return handle.result();
  });
  expect(result).toBe(2);
});

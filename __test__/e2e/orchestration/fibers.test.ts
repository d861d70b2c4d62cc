import { CLOSED, defineActivity, defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { historyViolations } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const echo = defineActivity('echo', async (_, value: string) => value);

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Generators are kept between turns, or every turn begins with a replay. */
  describe.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('instances that are %s', (_, options) => {
    it('run written with the free functions alone', async () => {
      const helper = function* (word: string): Generator<any, string, any> {
        return `${yield* free.call(echo, word)} in ${free.currentContext().instanceId}`;
      };
      const order = defineOrchestration('free', function* () {
        free.setCustomStatus('asked');
        const answer = yield* free.race(free.waitForEvent<string>('answer'), free.sleep('1h'), { cancelLosers: true });
        const words = yield* free.all([helper('a'), free.spawn(() => helper('b'))]);
        const { tag } = yield* free.select({ one: free.dequeueEvent('q'), two: free.call(echo, 'x') });
        return [answer.value, ...words, tag, typeof free.random(), free.randomUUID().length, free.getCustomStatus()];
      });
      await store.start((runtime) => runtime.register(echo, order), options);
      const handle = await store.client.start(order, undefined, { id: store.id() });
      await store.client.waitForStatusChange(handle.id, 0, undefined, SOON);
      await store.client.raiseEvent(handle.id, 'answer', 'yes');
      expect(await handle.result({ timeout: SOON })).toEqual([
        'yes',
        `a in ${handle.id}`,
        `b in ${handle.id}`,
        'two',
        'number',
        36,
        'asked',
      ]);
    });

    it('hand values through channels, in any order of the work', async () => {
      const squares = defineActivity('square', async (_, n: number) => {
        // Later activities are quicker.
        for (let i = n; i < 12; i += 1) await new Promise((resolve) => setImmediate(resolve));
        return n * n;
      });
      const pipeline = defineOrchestration('pipeline', function* (ctx) {
        const jobs = ctx.channel<number>(2);
        const results = ctx.channel<number>(0);
        const workers = [1, 2, 3].map(() =>
          ctx.spawn(
            jobs.forEach(function* (n) {
              yield* results.send(yield* ctx.call(squares, n));
            }),
          ),
        );
        ctx.spawn(function* () {
          for (let n = 0; n < 12; n += 1) yield* jobs.send(n);
          jobs.close();
          yield* ctx.all(workers);
          results.close();
        });
        const got: number[] = [];
        let result: number | typeof CLOSED;
        while ((result = yield* results.receive()) !== CLOSED) got.push(result);
        return got.sort((a, b) => a - b);
      });
      await store.start((runtime) => runtime.register(squares, pipeline), options);
      const handle = await store.client.start(pipeline, undefined, { id: store.id() });
      expect(await handle.result({ timeout: SOON })).toEqual(Array.from({ length: 12 }, (_, n) => n * n));
      expect(historyViolations(await store.client.getHistory(handle.id), 'Completed')).toEqual([]);
    });

    it('record the fiber of each command and message', async () => {
      const order = defineOrchestration('told', function* (ctx) {
        const one = function* (): Generator<any, string, any> {
          const word = yield* ctx.call(echo, 'one');
          yield* ctx.sleep(1);
          return word + (yield* ctx.waitForEvent<string>('go'));
        };
        const two = function* (): Generator<any, string, any> {
          return yield* ctx.dequeueEvent<string>('jobs');
        };
        const both = yield* ctx.all([one(), two(), ctx.call(echo, 'main')]);
        return [...both, yield* ctx.waitForEvent<string>('go')];
      });
      await store.start((runtime) => runtime.register(echo, order), options);
      const handle = await store.client.start(order, undefined, { id: store.id() });
      for (const word of ['a', 'b']) await store.client.raiseEvent(handle.id, 'go', word);
      await store.client.enqueueEvent(handle.id, 'jobs', 'job');
      expect(await handle.result({ timeout: SOON })).toEqual(['onea', 'job', 'main', 'b']);
      const history = await store.client.getHistory(handle.id);
      const told = history.map(({ kind, name, meta }) => `${kind} ${name ?? ''} ${meta?.fiber ?? 0}`);
      expect(told.filter((line) => /Scheduled|Created|Received/.test(line)).toSorted()).toEqual([
        'ActivityScheduled echo 0',
        'ActivityScheduled echo 1',
        'EventReceived go 0',
        'EventReceived go 1',
        'QueueReceived jobs 2',
        'TimerCreated  1',
      ]);
      expect(historyViolations(history, 'Completed')).toEqual([]);
    });

    it('fail after their cleanup in a deadlock', async () => {
      const cleaned: string[] = [];
      await store.start(
        (runtime) =>
          runtime
            .registerActivity('clean', (ctx) => void cleaned.push(ctx.instanceId))
            .registerOrchestration('stuck', function* (ctx) {
              const [a, b] = [ctx.channel(), ctx.channel()];
              ctx.spawn(function* philosopher() {
                yield a.receive();
                b.send(1);
              });
              try {
                yield ctx.scheduleTimer(1);
                yield b.receive();
              } finally {
                yield ctx.scheduleActivity('clean');
              }
            }),
        options,
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'stuck');
      const { status, error } = await store.client.waitForOrchestration(id, SOON);
      expect(status).toBe('Failed');
      expect(error).toMatchObject({ name: 'PerdureError', code: 'DEADLOCK' });
      expect((error as Error).message).toMatch(
        /the main fiber waits for a value from channel 2 \(made at .*fibers\.test\.ts:\d+:\d+\)?\)\n {2}fiber 1 /,
      );
      expect((error as Error).message).toContain('\n  fiber 1 (philosopher) waits for a value from channel 1');
      expect(cleaned).toEqual([id]);
      expect(historyViolations(await store.client.getHistory(id), 'Failed')).toEqual([]);
    });
  });

  it('a free function in an activity throws an error that names its place', async () => {
    const wrong = defineActivity('wrong', async () => free.now(), { retry: { maxAttempts: 1 } });
    const asks = defineOrchestration('asks', function* (ctx) {
      return yield* ctx.call(wrong);
    });
    await store.start((runtime) => runtime.register(wrong, asks));
    const handle = await store.client.start(asks, undefined, { id: store.id() });
    const error = await rejection(handle.result({ timeout: SOON }));
    expect(error.cause).toMatchObject({ name: 'DeterminismError', called: 'now' });
    expect(error.cause.message).toMatch(/now\(\) was called while no orchestration was running/);
  });
});

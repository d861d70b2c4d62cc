// Streams: written by orchestrations and activities, read by clients.

import {
  type ActivityContext,
  Client,
  defineActivity,
  defineOrchestration,
  eventStream,
  InstanceNotFoundError,
  LimitError,
  NonRetryableError,
  type OrchestrationContext,
  PayloadError,
  type Runtime,
  StreamClosedError,
  type StreamEntry,
  type StreamReset,
} from 'perdure';
import { stream } from 'perdure/orchestration';
import { crashEverywhere, TestRuntime } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { Counter, deferred, rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';
import { all, type Item, told } from '../../support/stream-items.ts';

const retry = { initialInterval: 1, jitter: 0, maxAttempts: 3 };

/** Returns the values that a reader is left with who drops what a reset says. */
function kept(items: readonly Item[]): unknown[] {
  let left: StreamEntry<any>[] = [];
  for (const item of items) {
    if (item.reset) left = left.filter(({ index, activity }) => index < item.from || activity !== item.activity);
    else left.push(item);
  }
  return left.map(({ value }) => value);
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function run(register: (runtime: Runtime) => void, name: string, input?: unknown) {
    await store.start(register);
    const id = store.id();
    await store.client.startOrchestration(id, name, input);
    return { id, end: await store.client.waitForOrchestration(id, SOON) };
  }

  const read = (id: string, name = 's', from = 0) => all(store.client.readStream(id, name, { from }));

  describe('the stream of an orchestration', () => {
    it('has each entry once and in order, over replays and executions', async () => {
      const runs = new Counter();
      await store.start(
        (runtime) =>
          runtime.registerOrchestration('writes', function* (ctx, round: number) {
            runs.add();
            for (let n = 0; n < 3; n += 1) {
              ctx.stream('s').write([round, n]);
              yield* ctx.waitForEvent('next');
              ctx.stream('s').write([round, n, 'after']);
            }
            if (round < 3) return yield* ctx.continueAsNew(round + 1);
            stream('s').close();
            stream('s').close();
            return 'done';
          }),
        { cachedInstancesMax: 0 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'writes', 1);
      const items: Item[] = [];
      for await (const item of store.client.handle(id).readStream<unknown[]>('s')) {
        items.push(item);
        // The instance sleeps in the store, with no generator in memory.
        if (item.value?.length === 2) await store.client.raiseEvent(id, 'next');
      }
      const rounds = [1, 2, 3].flatMap((round) =>
        [0, 1, 2].flatMap((n) => [
          [round, n],
          [round, n, 'after'],
        ]),
      );
      expect(items.map(({ value }) => value)).toEqual(rounds);
      expect(items.map(({ index }) => index)).toEqual(rounds.map((_, index) => index));
      expect(items[0]).toEqual({ index: 0, value: [1, 0], time: expect.any(Date) });
      expect(await store.client.listStreams(id)).toEqual([{ name: 's', first: 0, next: 18, isClosed: true }]);
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('done');
      expect(runs.count).toBeGreaterThan(3);
    });

    it('holds values of all kinds, and refuses those that cannot be stored', async () => {
      const rich = { at: new Date(5), seen: new Set([1n]), text: 'line\nfeed', odd: '\u2028"' };
      const errors: unknown[] = [];
      const { id } = await run(
        (runtime) =>
          runtime.registerOrchestration('rich', function* (ctx) {
            ctx.stream('s').write(rich);
            ctx.stream('s').write(undefined);
            ctx.stream('s').write('');
            try {
              ctx.stream('s').write({ fn: () => 1 });
            } catch (error) {
              errors.push(error);
            }
            ctx.stream('s').write(null);
            ctx.stream('other').write(undefined);
          }),
        'rich',
      );
      expect((await read(id)).map(({ value }) => value)).toEqual([rich, undefined, '', null]);
      expect((await read(id, 'other')).map(({ value }) => value)).toEqual([undefined]);
      expect(errors).toEqual([expect.any(PayloadError)]);
      expect((errors[0] as PayloadError).message).toContain("entry of stream 's'");
    });

    it('takes no entry once it is closed, in a later execution neither', async () => {
      const errors: unknown[] = [];
      const { id } = await run(
        (runtime) =>
          runtime.registerOrchestration('closes', function* (ctx, round = 1) {
            if (round === 1) {
              ctx.stream('s').write('only');
              ctx.stream('s').close();
            }
            yield* ctx.sleep(1);
            try {
              ctx.stream('s').write('late');
            } catch (error) {
              errors.push(error);
            }
            if (round === 1) yield* ctx.continueAsNew(2);
          }),
        'closes',
      );
      expect(told(await read(id))).toEqual(['0 "only"']);
      expect(errors.length).toBeGreaterThanOrEqual(2);
      for (const error of errors) {
        expect(error).toBeInstanceOf(StreamClosedError);
        expect(error).toMatchObject({ code: 'STREAM_CLOSED', stream: 's', message: "stream 's' is closed" });
      }
    });

    it('refuses more than 16 MiB between two waits, and keeps what there was', async () => {
      const MIB = 'x'.repeat(1024 * 1024 - 100);
      const { id, end } = await run(
        (runtime) =>
          runtime.registerOrchestration('fills', function* (ctx) {
            let error: any;
            for (let n = 0; error === undefined; n += 1) {
              try {
                ctx.stream('s').write(MIB);
              } catch (caught) {
                error = [n, caught];
              }
            }
            yield* ctx.sleep(1);
            ctx.stream('s').write('again');
            return [error[0], error[1] instanceof LimitError, error[1].limit];
          }),
        'fills',
      );
      expect(end.output).toEqual([16, true, 'streamBytes']);
      const items = await read(id);
      expect([items.length, items.at(-1)?.value]).toEqual([17, 'again']);
    });

    it('keeps its last entries, or those of a time', async () => {
      const { id } = await run(
        (runtime) =>
          runtime.registerOrchestration('forgets', function* (ctx) {
            for (let n = 0; n < 30; n += 1) {
              ctx.stream('last', { maxEntries: 10 }).write(n);
              ctx.stream('soon', { retain: '1h' }).write(n);
              yield* ctx.sleep(1);
            }
          }),
        'forgets',
      );
      const last = await read(id, 'last');
      // Whole chunks go, and a turn may have written two entries.
      expect(last.length).toBeGreaterThanOrEqual(10);
      expect(last.length).toBeLessThan(15);
      expect(last.map(({ value }) => value)).toEqual(last.map((_, n) => n + 30 - last.length));
      expect((await read(id, 'soon')).length).toBe(30);
      expect(await store.client.listStreams(id)).toMatchObject([
        { name: 'last', first: 30 - last.length, next: 30 },
        { name: 'soon', first: 0, next: 30 },
      ]);
    });
  });

  describe('the stream of an activity', () => {
    it('is stored before the end of its attempt, in order', async () => {
      const tokens = defineActivity('tokens', async (ctx, count: number) => {
        const { stream } = ctx;
        for (let n = 0; n < count; n += 1) stream('s').write({ n });
        await ctx.stream('flushed').flush();
        ctx.stream('flushed').write(1);
        await ctx.stream('flushed').flush();
        const { done, value } = await ctx.client.readStream(ctx.instanceId, 'flushed').next();
        return done ? [done] : [done, value.value, value.activity, value.attempt];
      });
      const answers = defineOrchestration('answers', function* (ctx, count: number) {
        const seen = yield* ctx.call(tokens, count);
        ctx.stream('s').write('end');
        return seen;
      });
      const { id, end } = await run((runtime) => runtime.register(tokens, answers), 'answers', 12_345);
      expect(end.output).toEqual([false, 1, '1/2', 1]);
      const items = await read(id);
      expect(items.map(({ index }) => index)).toEqual(items.map((_, n) => n));
      expect(items.slice(0, -1).map(({ value }) => value.n)).toEqual(Array.from({ length: 12_345 }, (_, n) => n));
      expect(items.at(-1)).toMatchObject({ index: 12_345, value: 'end' });
      expect(items[5]).toMatchObject({ activity: '1/2', attempt: 1 });
    });

    it('is begun anew by each attempt, and readers are told what to drop', async () => {
      const flaky = defineActivity(
        'flaky',
        async (ctx, who: string) => {
          for (let n = 0; n < 3; n += 1) ctx.stream('s').write(`${who} ${ctx.attempt}.${n}`);
          await ctx.stream('s').flush();
          if (ctx.attempt < 3) throw new Error('again');
        },
        { retry },
      );
      const both = defineOrchestration('both', function* (ctx) {
        ctx.stream('s').write('begins');
        yield* ctx.all([ctx.call(flaky, 'a'), ctx.call(flaky, 'b')]);
        ctx.stream('s').write('ends');
      });
      const { id } = await run((runtime) => runtime.register(flaky, both), 'both');
      const items = await read(id);
      const resets = items.filter(({ reset }) => reset) as StreamReset[];
      expect(resets.map(({ attempt }) => attempt).toSorted()).toEqual([2, 2, 3, 3]);
      const left = kept(items) as string[];
      expect(left[0]).toBe('begins');
      expect(left.at(-1)).toBe('ends');
      for (const who of ['a', 'b'])
        expect(left.filter((value) => value.startsWith(`${who} `))).toEqual([0, 1, 2].map((n) => `${who} 3.${n}`));
      // A reader that comes back between the entries of an attempt needs no marker, and gets none.
      const [reset] = resets;
      const from = (reset as StreamReset).index;
      expect(told(await read(id, 's', from))[0]).toContain('reset');
      expect(told(await read(id, 's', from + 1))[0]).not.toContain('reset');
    });

    it('tells the attempt that it is closed, or fails the attempt that does not look', async () => {
      const gate = deferred<void>();
      const looks = defineActivity('looks', async (ctx) => {
        await gate.promise;
        ctx.stream('s').write(1);
        const error = await rejection(ctx.stream('s').flush());
        expect(() => ctx.stream('s').write(2)).toThrow(StreamClosedError);
        return error.message;
      });
      const ignores = defineActivity('ignores', async (ctx) => {
        await gate.promise;
        ctx.stream('s').write(1);
        return 'never seen';
      });
      const closes = defineOrchestration('closes early', function* (ctx) {
        const open = [ctx.call(looks), ctx.call(ignores, undefined, { retry })];
        ctx.stream('s').close();
        yield* ctx.sleep(1);
        yield* ctx.run('open the gate', () => gate.resolve());
        return (yield* ctx.allSettled(open)).map(
          (end: any) => end.value ?? [end.reason.attempt, end.reason.cause.code],
        );
      });
      const { id, end } = await run((runtime) => runtime.register(looks, ignores, closes), 'closes early');
      expect(end.output).toEqual(["stream 's' is closed", [1, 'STREAM_CLOSED']]);
      expect(await read(id)).toEqual([]);
    });

    it('refuses entries that the store has no time for', async () => {
      const floods = defineActivity('floods', async (ctx) => {
        const text = 'x'.repeat(1024 * 1024 - 100);
        for (let n = 0; ; n += 1) {
          try {
            ctx.stream('s').write(text);
          } catch (error) {
            await ctx.stream('s').flush();
            ctx.stream('s').write('again');
            throw new NonRetryableError(`${n > 15} ${(error as LimitError).limit}`);
          }
        }
      });
      const { id, end } = await run((runtime) => {
        runtime.register(floods);
        runtime.registerOrchestration('flooded', function* (ctx) {
          yield* ctx.call(floods);
        });
      }, 'flooded');
      expect((end.error as any).cause.message).toBe('true streamBytes');
      expect((await read(id)).at(-1)?.value).toBe('again');
    });

    it('writes nothing after its timeout', async () => {
      const gate = deferred<void>();
      const done = deferred<void>();
      const slow = defineActivity(
        'slow',
        async (ctx) => {
          if (ctx.attempt === 2) return ctx.stream('s').write('second');
          ctx.stream('s').write('first');
          await gate.promise;
          ctx.stream('s').write('late');
          expect((await rejection(ctx.stream('s').flush())).message).toContain('which is over');
          done.resolve();
        },
        { timeout: '50ms', retry },
      );
      const { id, end } = await run((runtime) => {
        runtime.register(slow);
        runtime.registerOrchestration('slowly', function* (ctx) {
          yield* ctx.call(slow);
          yield* ctx.run('go', () => gate.resolve());
        });
      }, 'slowly');
      await done.promise;
      expect(end.status).toBe('Completed');
      expect(told(await read(id))).toEqual(['0 "first"', '1 reset 0', '1 "second"']);
    });
  });

  describe('a reader', () => {
    it('gets what is there, and then each entry live, from any index on', async () => {
      const steps = function* (ctx: OrchestrationContext): Generator<any, void, any> {
        for (let n = 0; n < 5; n += 1) {
          ctx.stream('s').write(n);
          yield* ctx.waitForEvent('next');
        }
      };
      await store.start((runtime) => runtime.registerOrchestration('steps', steps));
      const id = store.id();
      await store.client.startOrchestration(id, 'steps');
      const other = kind.isShared ? new Client(await store.open()) : store.client;
      const readers = [0, 0, 2].map((from) => other.readStream<number>(id, 's', { from }));
      const unstarted = other.readStream(id, 'another', { live: false });
      expect(await all(unstarted)).toEqual([]);
      for (let n = 0; n < 5; n += 1) {
        for (const reader of n < 2 ? readers.slice(0, 2) : readers)
          expect((await reader.next()).value).toMatchObject({ index: n, value: n });
        expect((await all(other.readStream(id, 's', { live: false }))).length).toBe(n + 1);
        await store.client.raiseEvent(id, 'next');
      }
      for (const reader of readers) expect(await reader.next()).toEqual({ done: true, value: undefined });
      expect(told(await read(id, 's', 3))).toEqual(['3 3', '4 4']);
      expect(await read(id, 's', 99)).toEqual([]);
    });

    it('ends with its signal, with return(), and when the instance is gone', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('quiet', function* (ctx) {
          ctx.stream('s').write(1);
          yield* ctx.waitForEvent('never');
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'quiet');
      const stop = new AbortController();
      const aborted = store.client.readStream(id, 's', { signal: stop.signal });
      const returned = store.client.readStream(id, 's');
      const deleted = store.client.readStream(id, 's', { from: 1 });
      await Promise.all([aborted.next(), returned.next()]);
      const waits = [rejection(aborted.next()), returned.next(), deleted.next()] as const;
      stop.abort(new Error('enough'));
      await returned.return();
      expect(await waits[0]).toMatchObject({ message: 'enough' });
      expect(await waits[1]).toEqual({ done: true, value: undefined });
      const late = store.client.readStream(id, 's');
      await late.next();
      await store.client.terminateInstance(id);
      expect(await waits[2]).toEqual({ done: true, value: undefined });
      await store.client.deleteInstance(id);
      expect(await rejection(late.next())).toBeInstanceOf(InstanceNotFoundError);
      expect(await rejection(store.client.readStream(id, 's').next())).toBeInstanceOf(InstanceNotFoundError);
      expect(await store.client.listStreams(id)).toBeNull();
    });

    it('of an instance that was started anew finds another stream', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('anew', function* (ctx, value) {
          ctx.stream('s').write(value);
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'anew', 'old');
      await store.client.waitForOrchestration(id, SOON);
      const old = store.client.readStream(id, 's');
      expect((await old.next()).value).toMatchObject({ value: 'old' });
      await store.client.startOrchestration(id, 'anew', 'new', { onConflict: 'restartIfTerminal' });
      await store.client.waitForOrchestration(id, SOON);
      expect(await rejection(old.next())).toBeInstanceOf(InstanceNotFoundError);
      expect(told(await read(id))).toEqual(['0 "new"']);
    });

    it('of 100 000 entries holds a page, and a slow one misses nothing', async () => {
      const many = defineActivity('many', async (ctx, count: number) => {
        for (let n = 0; n < count; n += 1) {
          ctx.stream('s').write(n);
          if (n % 5_000 === 0) await ctx.stream('s').flush();
        }
      });
      const { id } = await run((runtime) => {
        runtime.register(many);
        runtime.registerOrchestration('of many', function* (ctx) {
          yield* ctx.call(many, 100_000);
        });
      }, 'of many');
      let next = 0;
      for await (const { index, value } of store.client.readStream(id, 's')) {
        if (index !== next || value !== next) throw new Error(`entry ${index} is ${value}, and ${next} was next`);
        next += 1;
        if (next % 20_000 === 0) await new Promise(setImmediate);
      }
      expect(next).toBe(100_000);
      // Deleted in steps, chunk by chunk.
      await store.client.deleteInstance(id);
      expect((await store.client.checkStore()).findings).toEqual([]);
    });

    it('sends its entries to browsers, from the last one on that they have', async () => {
      const flaky = defineActivity(
        'flaky page',
        async (ctx: ActivityContext) => {
          for (const part of ['a', 'b\n']) ctx.stream('s').write(`${ctx.attempt}${part}`);
          if (ctx.attempt === 1) throw new Error('again');
          ctx.stream('s').write(undefined);
        },
        { retry },
      );
      const { id } = await run((runtime) => {
        runtime.register(flaky);
        runtime.registerOrchestration('page', function* (ctx) {
          yield* ctx.call(flaky);
        });
      }, 'page');
      const body = (headers = {}) =>
        eventStream(store.client.readStream(id, 's'), new Request('http://localhost/', { headers })).text();
      const [old, next] = [
        'id: 0\ndata: "1a"\n\nid: 1\ndata: "1b\\n"\n\n',
        'event: reset\ndata: {"from":0,"activity":"1/2","attempt":2}\n\n' +
          'id: 2\ndata: "2a"\n\nid: 3\ndata: "2b\\n"\n\nid: 4\ndata: null\n\nevent: end\ndata: {}\n\n',
      ];
      expect(await body()).toBe(old + next);
      expect(await body({ 'last-event-id': '1' })).toBe(next);
      expect(await body({ 'last-event-id': '4' })).toBe('event: end\ndata: {}\n\n');
      expect(await body({ 'last-event-id': 'nonsense' })).toBe(old + next);
      const response = eventStream(store.client.readStream('none', 's'), new Headers(), { headers: { 'x-a': '1' } });
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      expect(response.headers.get('x-a')).toBe('1');
      expect(await response.text()).toContain(
        'event: failure\ndata: {"name":"InstanceNotFoundError","code":"INSTANCE_NOT_FOUND"',
      );
    });

    it('refuses wrong arguments', async () => {
      const { client } = store;
      expect(() => client.readStream('', 's')).toThrow('the instance id must not be empty');
      expect(() => client.readStream('i', 5 as any)).toThrow('the name of the stream must be a string');
      expect(() => client.readStream('i', 's', { from: -1 })).toThrow('from must be a whole number >= 0');
      expect(() => client.readStream('i', 's', { form: 1 } as any)).toThrow('did you mean `from`?');
      expect(() => eventStream([] as any)).toThrow('the reader must be a result of client.readStream');
      expect(() => eventStream(client.readStream('i', 's'), undefined, { keepAliveMs: -1 })).toThrow('keepAliveMs');
    });
  });
});

describe.each(SHARED_STORES)('in threads on $name', (kind) => {
  const store = useStore(kind);

  it('activities of all threads write to the streams of their instances', async () => {
    const WORK = new URL('../../support/thread-work.mjs', import.meta.url);
    await store.start(() => undefined, { threads: 2, modules: [WORK] });
    const ids = Array.from({ length: 6 }, () => store.id());
    for (const id of ids) await store.client.startOrchestration(id, 'streams', 50);
    for (const id of ids) {
      const items = await all(store.client.readStream(id, 's'));
      expect(items.map(({ value }) => value)).toEqual(Array.from({ length: 50 }, (_, n) => n));
    }
  });
});

describe('in a test runtime', () => {
  it('a reader is left with the same entries, wherever the worker crashes', async () => {
    const tokens = defineActivity('tokens', async (ctx, of: string) => {
      for (const n of [1, 2]) ctx.stream('s').write(`${of}${n}`);
    });
    const agent = defineOrchestration('agent', function* (ctx, round: number) {
      ctx.stream('s').write(`round ${round}`);
      yield* ctx.call(tokens, 'a');
      yield* ctx.sleep('1h');
      ctx.stream('s').write('between');
      yield* ctx.call(tokens, 'b');
      if (round === 1) return yield* ctx.continueAsNew(2);
      ctx.stream('s').close();
    });
    const { result, crashes } = await crashEverywhere(async (test) => {
      test.register(tokens, agent);
      const { id } = await test.start(agent, 1);
      return kept(await all(test.client.readStream(id, 's')));
    });
    const round = ['a1', 'a2', 'between', 'b1', 'b2'];
    expect(result).toEqual(['round 1', ...round, 'round 2', ...round]);
    expect(crashes).toBeGreaterThan(15);
  });

  it('entries are deleted when their time is over, and a reader waits for the next one', async () => {
    const keeps = defineOrchestration('keeps', function* (ctx) {
      for (let n = 0; n < 5; n += 1) ctx.stream('s', { retain: '1h' }).write(n);
      yield* ctx.waitForEvent('go');
      ctx.stream('s', { retain: '1h' }).write('late');
    });
    await using test = await TestRuntime.create();
    test.register(keeps);
    const { id } = await test.start(keeps);
    const first = test.client.readStream(id, 's');
    expect((await first.next()).value).toMatchObject({ index: 0 });
    await test.advance('2h');
    expect(await test.client.listStreams(id)).toEqual([{ name: 's', first: 5, next: 5, isClosed: false }]);
    const reader = test.client.readStream(id, 's');
    const next = reader.next();
    await test.client.raiseEvent(id, 'go');
    expect((await next).value).toMatchObject({ index: 5, value: 'late' });
    expect((await reader.next()).done).toBe(true);
  });

  it('streams are read while the clock leaps', async () => {
    const ticks = defineActivity('ticks', async (ctx, n: number) => ctx.stream('s').write(`tick ${n}`));
    const daily = defineOrchestration('daily', function* (ctx) {
      for (let n = 0; n < 3; n += 1) {
        ctx.stream('s').write(`day ${n}`);
        yield* ctx.call(ticks, n);
        yield* ctx.sleep('1d');
      }
    });
    await using test = await TestRuntime.create();
    test.register(ticks, daily);
    const { id } = await test.start(daily);
    const items = await all(test.client.readStream(id, 's'));
    expect(items.map(({ value }) => value)).toEqual([0, 1, 2].flatMap((n) => [`day ${n}`, `tick ${n}`]));
  });
});

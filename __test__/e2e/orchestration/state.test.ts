// The values that instances publish: `ctx.state`, `client.getState` and `client.watchState`.

import { threadId } from 'node:worker_threads';
import {
  Client,
  defineOrchestration,
  InstanceNotFoundError,
  LimitError,
  type OrchestrationContext,
  PayloadError,
  ProviderError,
  type Runtime,
} from 'perdure';
import { readState, state } from 'perdure/orchestration';
import { replay, TestRuntime } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WORK = new URL('../../support/thread-work.mjs', import.meta.url);

/** Changes its values as the events `next` say. */
function* follows(ctx: OrchestrationContext): Generator<any, any, any> {
  for (let turn = 1; ; turn += 1) {
    const changes = yield* ctx.waitForEvent<Record<string, any> | null>('next');
    if (changes === null) return ctx.state.keys();
    for (const [name, value] of Object.entries(changes)) {
      if (value === 'gone') ctx.state.delete(name);
      else ctx.state.set(name, value);
    }
    ctx.setCustomStatus(turn);
  }
}

async function names(client: Client, id: string): Promise<Record<string, [unknown, number]>> {
  const all = (await client.getState(id)) ?? new Map();
  return Object.fromEntries(Array.from(all, ([name, { value, version }]) => [name, [value, version]]));
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function started(options = {}): Promise<{ id: string; next: (changes: object | null) => Promise<void> }> {
    await store.start((runtime) => runtime.registerOrchestration('follows', follows), options);
    const id = store.id();
    await store.client.startOrchestration(id, 'follows');
    let version = 0;
    return {
      id,
      async next(changes) {
        await store.client.raiseEvent(id, 'next', changes);
        if (changes === null) return;
        const status = await store.client.waitForStatusChange(id, version, { timeout: SOON });
        version = status?.customStatusVersion ?? version;
      },
    };
  }

  describe('the state of an instance', () => {
    it('has values of all kinds by their names, with the versions of their turns', async () => {
      const rich = new Map([['date', new Date(0)]]);
      await store.start((runtime) =>
        runtime.registerOrchestration('publishes', function* (ctx) {
          ctx.state.set('never stored', 1);
          ctx.state.set('rich', rich);
          ctx.state.set('nothing', undefined);
          ctx.state.set('a\n"b"/~', 1);
          expect(ctx.state.delete('never stored')).toBe(true);
          expect(ctx.state.delete('never stored')).toBe(false);
          const own = ctx.state.get<Map<string, Date>>('rich');
          own?.clear();
          const seen = [ctx.state.get('rich'), ctx.state.get('none'), ctx.state.keys()];
          yield* ctx.waitForEvent('go');
          ctx.state.set('rich', rich);
          ctx.state.set('nothing', 2);
          yield* ctx.sleep(1);
          return seen;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'publishes');
      const first = store.client.watchState(id, 'nothing');
      expect((await first.next()).value).toEqual({ value: undefined, version: 1, isDeleted: false });
      expect(await names(store.client, id)).toEqual({ 'a\n"b"/~': [1, 1], nothing: [undefined, 1], rich: [rich, 1] });
      await store.client.raiseEvent(id, 'go');
      expect((await first.next()).value).toEqual({ value: 2, version: 2, isDeleted: false });
      const { output } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual([rich, undefined, ['a\n"b"/~', 'nothing', 'rich']]);
      // What was set to the same value has not changed.
      expect(await store.client.getState(id, 'rich')).toEqual({ value: rich, version: 1 });
      expect(await store.client.getState(id, 'none')).toBeNull();
      expect((await first.next()).done).toBe(true);
    });

    it('is that of the code in each replay, and goes over to the next execution', async () => {
      const seen: unknown[] = [];
      await store.start(
        (runtime) =>
          runtime.registerOrchestration('counts', function* (ctx, round: number) {
            seen.push([round, ctx.state.get('count')]);
            for (let i = 0; i < 2; i += 1) {
              ctx.state.set('count', (ctx.state.get<number>('count') ?? 0) + 1);
              yield ctx.waitForEvent('next');
            }
            ctx.state.set(`of ${round}`, true);
            return round === 2 ? ctx.state.keys() : yield* ctx.continueAsNew(round + 1);
          }),
        { cachedInstancesMax: 0 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'counts', 1);
      const changes = store.client.watchState<number>(id, 'count');
      for (let n = 1; n <= 4; n += 1) {
        expect((await changes.next()).value).toMatchObject({ value: n });
        await store.client.raiseEvent(id, 'next');
      }
      const { output } = await store.client.waitForOrchestration(id, SOON);
      expect(output).toEqual(['count', 'of 1', 'of 2']);
      expect(new Set(seen.map(String))).toEqual(new Set(['1,', '2,2']));
      expect(await names(store.client, id)).toEqual({ count: [4, 5], 'of 1': [true, 3], 'of 2': [true, 6] });
      const history = await store.client.getHistory(id, 2);
      expect(history[0]?.meta.state).toEqual({ count: '2', 'of 1': 'true' });
    });

    it('is cleared, and refuses what is too much', async () => {
      const errors: any[] = [];
      await store.start((runtime) =>
        runtime.registerOrchestration('fills', function* () {
          for (let n = 0; n < 1_000; n += 1) state.set(`name ${n}`, n);
          const refused = (change: () => void): void => {
            try {
              change();
            } catch (error) {
              errors.push(error);
            }
          };
          refused(() => state.set('one more', 1));
          state.set('name 0', 'the same name again');
          refused(() => state.set('name 0', Symbol('no value')));
          state.clear();
          const large = 'x'.repeat(1024 * 1024);
          for (let n = 0; n < 15; n += 1) state.set(`${n}`, large);
          refused(() => state.set('15', large));
          state.clear();
          state.set('left', state.keys());
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'fills');
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed' });
      expect(errors).toEqual([expect.any(LimitError), expect.any(PayloadError), expect.any(LimitError)]);
      expect(errors.map(({ limit, max }) => [limit, max])).toEqual([
        ['stateNames', 1_000],
        [undefined, undefined],
        ['stateBytes', 16 * 1024 * 1024],
      ]);
      expect(await names(store.client, id)).toEqual({ left: [[], 1] });
    });

    it('is that of the last stored turn after a termination, and goes with the instance', async () => {
      const { id, next } = await started();
      await next({ a: 1 });
      await store.client.terminateInstance(id);
      expect(await names(store.client, id)).toEqual({ a: [1, 1] });
      await store.client.deleteInstance(id);
      expect(await store.client.getState(id)).toBeNull();
      expect(await store.client.getState(id, 'a')).toBeNull();
    });
  });

  describe('a read by another instance', () => {
    it('is recorded: a replay finds the value of then', async () => {
      const read = (runtime: Runtime): unknown =>
        runtime.registerOrchestration('reads', function* (ctx, other: string) {
          const found = [yield* ctx.readState(other, 'a'), yield* readState(other, 'none'), yield* readState(other)];
          ctx.setCustomStatus(found);
          yield* ctx.waitForEvent('go');
          return [found, yield* ctx.readState<number>(other, 'a')];
        });
      const { id: other, next } = await started();
      await next({ a: [new Date(0)], b: undefined });
      const id = store.id();
      const first = await store.start(read);
      await store.client.startOrchestration(id, 'reads', other);
      const found = [
        [new Date(0)],
        undefined,
        new Map<string, unknown>([
          ['a', [new Date(0)]],
          ['b', undefined],
        ]),
      ];
      expect(await store.client.waitForStatusChange(id, 0, { timeout: SOON })).toMatchObject({ customStatus: found });
      await next({ a: 2, b: 'gone' });
      await first.shutdown();
      await store.start(read);
      await store.client.raiseEvent(id, 'go');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([found, 2]);
      const scheduled = (await store.client.getHistory(id)).filter(({ kind }) => kind === 'ActivityScheduled');
      expect(scheduled.map(({ name, payload }) => [name, payload])).toEqual([
        ['perdure.readState', { id: other, name: 'a' }],
        ['perdure.readState', { id: other, name: 'none' }],
        ['perdure.readState', { id: other }],
        ['perdure.readState', { id: other, name: 'a' }],
      ]);
    });

    it('fails with the class of its error, at once unless the error may pass', async () => {
      const errors: any[] = [];
      await store.start(
        (runtime) =>
          runtime.registerOrchestration('reads', function* (ctx) {
            for (const args of [['nobody', 'a'], ['nobody']] as [string, string][]) {
              try {
                yield* ctx.readState(...args);
              } catch (error) {
                errors.push(error);
              }
            }
            yield* ctx.waitForEvent('go');
            return errors.length;
          }),
        { cachedInstancesMax: 0 },
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'reads');
      await store.client.raiseEvent(id, 'go');
      await store.client.waitForOrchestration(id, SOON);
      expect(errors.length).toBeGreaterThanOrEqual(2);
      for (const error of errors) {
        expect(error).toBeInstanceOf(InstanceNotFoundError);
        expect(error).toMatchObject({ message: "there is no instance 'nobody'", instanceId: 'nobody' });
        expect(error.stack).toContain('state.test.ts');
      }
      const kinds = (await store.client.getHistory(id)).map(({ kind }) => kind);
      expect(kinds.filter((kind) => kind.startsWith('Activity'))).toEqual([
        'ActivityScheduled',
        'ActivityFailed',
        'ActivityScheduled',
        'ActivityFailed',
      ]);
    });

    it('works on each thread', async () => {
      await store.start(() => {}, { threads: 2, modules: [WORK] });
      const other = store.id();
      await store.client.startOrchestration(other, 'reads');
      const { output: read } = await store.client.waitForOrchestration(other, SOON);
      // The first free thread runs an instance: sooner or later that is another thread than this one.
      for (let thread = threadId; thread === threadId; ) {
        const id = store.id();
        await store.client.startOrchestration(id, 'reads', other);
        const { output } = await store.client.waitForOrchestration<any>(id, SOON);
        expect(output).toEqual({ read, thread: expect.any(Number) });
        thread = output.thread;
      }
    });
  });

  describe('a watch', () => {
    it('gives the latest value, deletions too, until the instance ends', async () => {
      const { id, next } = await started();
      const changes = store.client.watchState(id, 'a');
      const one = changes.next();
      await next({ b: 1 });
      await next({ a: 1 });
      expect(await one).toEqual({ done: false, value: { value: 1, version: 2, isDeleted: false } });
      await next({ a: 2 });
      await next({ a: 3 });
      expect((await changes.next()).value).toEqual({ value: 3, version: 4, isDeleted: false });
      const gone = changes.next();
      await next({ a: 'gone' });
      expect((await gone).value).toEqual({ value: undefined, version: 5, isDeleted: true });
      const again = changes.next();
      await next({ b: 2 });
      await next({ a: 4 });
      expect((await again).value).toEqual({ value: 4, version: 7, isDeleted: false });
      const end = changes.next();
      await next(null);
      expect(await end).toEqual({ done: true, value: undefined });
      const late = store.client.watchState(id, 'a');
      expect((await late.next()).value).toMatchObject({ value: 4 });
      expect((await late.next()).done).toBe(true);
      expect((await store.client.watchState(id, 'a', { lastVersion: 7 }).next()).done).toBe(true);
    });

    it.runIf(SHARED_STORES.includes(kind))('sees the changes of another process', async () => {
      const other = await store.open();
      const { id, next } = await started();
      const changes = new Client(other).watchState(id, 'a');
      const one = changes.next();
      await next({ a: 1 });
      expect((await one).value).toEqual({ value: 1, version: 1, isDeleted: false });
    });

    it('ends when it is left or aborted, and rejects an unknown instance', async () => {
      const { id, next } = await started();
      await next({ a: 1 });
      for await (const { value } of store.client.watchState(id, 'a')) {
        expect(value).toBe(1);
        break;
      }
      const left = store.client.watchState(id, 'b');
      const waiting = left.next();
      await left.return?.();
      expect(await waiting).toEqual({ done: true, value: undefined });
      const abort = new AbortController();
      const aborted = store.client.watchState(id, 'b', { signal: abort.signal }).next();
      abort.abort(new Error('enough'));
      await expect(aborted).rejects.toThrow('enough');
      await expect(store.client.watchState('nobody', 'a').next()).rejects.toBeInstanceOf(InstanceNotFoundError);
      await store.client.terminateInstance(id);
    });
  });
});

describe('a read in a test runtime', () => {
  const published = defineOrchestration('published', function* (ctx) {
    ctx.state.set('a', 1);
  });
  const reads = defineOrchestration('reads', function* (ctx, other: string) {
    return yield* ctx.readState<number>(other, 'a');
  });

  it('is retried while the store may serve again, ten times at most, and is replayed without a store', async () => {
    await using test = (await TestRuntime.create({ logLevel: 'silent' })).register(published, reads);
    const other = await test.start(published);
    await other.result();
    const fail = (times: number) =>
      test.failNext('perdure.readState', new ProviderError('not now', { retryable: true }), { times });
    fail(9);
    const handle = await test.start(reads, other.id);
    expect(await handle.result()).toBe(1);
    expect(replay(await test.client.exportHistory(handle.id), reads).executions).toMatchObject([
      { outcome: 'completed' },
    ]);
    expect(test.calls('perdure.readState').at(-1)).toMatchObject({
      attempt: 10,
      input: { id: other.id, name: 'a' },
      output: 1,
    });
    fail(10);
    const error = await rejection((await test.start(reads, other.id)).result());
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ message: 'not now', retryable: true });
  });
});

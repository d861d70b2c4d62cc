import {
  Client,
  InstanceExistsError,
  InstanceNotFoundError,
  PerdureError,
  Runtime,
  RuntimeStateError,
  TimeoutError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred, rejection } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('the input of an instance', () => {
    it('is in its status and in lists that ask for it', async () => {
      const { client } = store;
      const name = store.id('inputs');
      const input = { order: new Date(0), items: new Map([['a', 1n]]) };
      const [given, none] = [store.id(), store.id()];
      await client.startOrchestration(given, name, input);
      await client.startOrchestration(none, name);
      expect(await client.getStatus(given, { input: true })).toMatchObject({ id: given, status: 'Pending', input });
      expect(await client.handle(given).status({ input: true })).toMatchObject({ input });
      expect(await client.getStatus(none, { input: true })).not.toHaveProperty('input');
      expect(await client.getStatus(given)).not.toHaveProperty('input');
      expect(await client.getStatus('absent', { input: true })).toBeNull();
      const { items } = await client.listInstances({ name, input: true }).page();
      expect(items.map((item) => [item.id, item.input])).toEqual([
        [none, undefined],
        [given, input],
      ]);
      expect((await client.listInstances({ name }).page()).items[1]).not.toHaveProperty('input');
    });

    it('is that of the last execution, and that of its own instance in a long list', async () => {
      const name = store.id('continues');
      await store.start((runtime) =>
        runtime.registerOrchestration(name, function* (ctx, n: number) {
          if (n < 2) return yield* ctx.continueAsNew(n + 1);
          return n;
        }),
      );
      const ids = Array.from({ length: 40 }, () => store.id());
      await Promise.all(ids.map((id, n) => store.client.startOrchestration(id, name, n)));
      for (const id of ids) await store.client.waitForOrchestration(id, SOON);
      const inputs = new Map<string, number>();
      for await (const { id, input, output } of store.client.listInstances({ name, input: true })) {
        expect(input).toBe(output);
        inputs.set(id, input as number);
      }
      expect(ids.map((id) => inputs.get(id))).toEqual(ids.map((_, n) => Math.max(n, 2)));
      expect(await store.client.getStatus(ids[0] as string, { input: true })).toMatchObject({ input: 2, output: 2 });
    });

    it('is decoded by the codec of the provider', async () => {
      const codec = { encode: (text: string) => btoa(text), decode: (text: string) => atob(text) };
      const name = store.id('encoded');
      if (kind.isShared) {
        const client = new Client(await store.open({ codec }));
        const id = store.id();
        await client.startOrchestration(id, name, { secret: 1 });
        expect(await client.getStatus(id, { input: true })).toMatchObject({ input: { secret: 1 } });
        expect(await rejection(store.client.getStatus(id, { input: true }))).toMatchObject({ code: 'PAYLOAD' });
      }
    });
  });

  describe('an id that is in use', () => {
    it('is refused, whether the instance runs or has ended', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'quick');
      const error = await rejection(store.client.startOrchestration(id, 'quick'));
      expect(error).toBeInstanceOf(InstanceExistsError);
      expect(error).toBeInstanceOf(PerdureError);
      expect(error).toMatchObject({ name: 'InstanceExistsError', code: 'INSTANCE_EXISTS', instanceId: id });
      await store.start((runtime) => runtime.registerOrchestration('quick', function* () {}));
      await store.client.waitForOrchestration(id, SOON);
      expect(await rejection(store.client.startOrchestration(id, 'quick'))).toBeInstanceOf(InstanceExistsError);
    });

    it("keeps its instance with onConflict: 'return'", async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'nobody registers this', 1);
      await store.client.startOrchestration(id, 'other', 2, { onConflict: 'return' });
      expect(await store.client.getStatus(id)).toMatchObject({ name: 'nobody registers this', status: 'Pending' });
    });

    it("is started anew with onConflict: 'restartIfTerminal', once it has ended", async () => {
      const gate = deferred();
      await store.start((runtime) =>
        runtime
          .registerActivity('gated', async (_, n) => {
            if (n === 1) await gate.promise;
            return n;
          })
          .registerOrchestration('restarts', function* (ctx, n) {
            ctx.setCustomStatus(`set by ${n}`);
            yield ctx.waitForEvent('go');
            return yield ctx.scheduleActivity('gated', n);
          }),
      );
      const id = store.id();
      const restart = (input: number) =>
        store.client.startOrchestration(id, 'restarts', input, { onConflict: 'restartIfTerminal' });
      await restart(1);
      await store.client.raiseEvent(id, 'go');
      expect(await rejection(restart(2))).toBeInstanceOf(InstanceExistsError);
      gate.resolve();
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(1);
      await restart(3);
      // Nothing of the former instance is left: no event, no status, no history.
      expect(await store.client.waitForStatusChange(id, 0, undefined, SOON)).toMatchObject({
        customStatus: 'set by 3',
      });
      await store.client.raiseEvent(id, 'go');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(3);
      expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
    });

    it('is given to one of many starts at the same time', async () => {
      const runs: string[] = [];
      await store.start((runtime) =>
        runtime
          .registerActivity('count', (ctx) => void runs.push(ctx.instanceId))
          .registerOrchestration('once', function* (ctx) {
            yield ctx.scheduleActivity('count');
          }),
      );
      const id = store.id();
      const starts = await Promise.allSettled(
        Array.from({ length: 8 }, () => store.client.startOrchestration(id, 'once')),
      );
      expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      await Promise.all(
        Array.from({ length: 8 }, () => store.client.startOrchestration(id, 'once', null, { onConflict: 'return' })),
      );
      await store.client.waitForOrchestration(id, SOON);
      expect(runs).toEqual([id]);
    });
  });

  describe('an id or name', () => {
    const wrong: [string, any][] = [
      ['empty', ''],
      ['too long', 'x'.repeat(257)],
      ['with a NUL', 'a\0b'],
      ['with a lone surrogate', 'a\ud800'],
      ['a number', 5],
      ['missing', undefined],
    ];

    it.each(wrong)('is refused when it is %s', async (_, bad) => {
      const { client } = store;
      for (const error of await Promise.all(
        [
          client.startOrchestration(bad, 'name'),
          client.startOrchestration(store.id(), bad),
          client.getStatus(bad),
          client.waitForOrchestration(bad),
          client.waitForStatusChange(bad, 0),
          client.raiseEvent(bad, 'name'),
          client.raiseEvent('id', bad),
          client.enqueueEvent(bad, 'queue'),
          client.enqueueEvent('id', bad),
          client.cancelInstance(bad),
          client.terminateInstance(bad),
          client.getHistory(bad),
          client.exportHistory(bad),
          client.suspend(bad),
          client.resume(bad),
          client.deleteInstance(bad),
        ].map(rejection),
      )) {
        expect(error).toBeInstanceOf(TypeError);
      }
      expect(() => client.historyEvents(bad)).toThrow(TypeError);
      expect(() => client.statusChanges(bad)).toThrow(TypeError);
      const runtime = store.runtime();
      expect(() => runtime.registerActivity(bad, () => {})).toThrow(TypeError);
      expect(() => runtime.registerOrchestration(bad, function* () {})).toThrow(TypeError);
    });

    it.each([
      ['of 256 characters', 'x'.repeat(256)],
      ['of any language', 'größe/日本 😀'],
      ['that looks like SQL', "'; DROP TABLE instances; --"],
      ['that is a name of Object.prototype', '__proto__'],
    ])('may be one %s', async (_, name) => {
      await store.start((runtime) =>
        runtime
          .registerActivity(name, (_ctx, n) => n)
          .registerOrchestration(name, function* (ctx) {
            const first = yield ctx.scheduleActivity(name, ctx.instanceId);
            return [first, yield ctx.waitForEvent(name), yield ctx.dequeueEvent(name)];
          }),
      );
      await store.client.startOrchestration(name, name);
      await store.client.raiseEvent(name, name, 1);
      await store.client.enqueueEvent(name, name, 2);
      expect(await store.client.waitForOrchestration(name, SOON)).toMatchObject({
        id: name,
        name,
        output: [name, 1, 2],
      });
    });
  });

  describe('an instance that is not there', () => {
    it('is told with InstanceNotFoundError, and null for its status', async () => {
      const { client } = store;
      expect(await client.getStatus('nobody')).toBeNull();
      const attempts = [
        client.raiseEvent('nobody', 'e'),
        client.enqueueEvent('nobody', 'q'),
        client.cancelInstance('nobody'),
        client.terminateInstance('nobody'),
        client.waitForOrchestration('nobody', SOON),
        client.waitForStatusChange('nobody', 0, undefined, SOON),
        client.getHistory('nobody'),
        client.exportHistory('nobody'),
        client.suspend('nobody'),
        client.resume('nobody'),
        client.deleteInstance('nobody'),
        client.handle('nobody').result({ timeout: SOON }),
      ];
      // All are awaited at once: a promise that rejects while another is awaited would count as unhandled.
      for (const error of await Promise.all(attempts.map(rejection))) {
        expect(error).toBeInstanceOf(InstanceNotFoundError);
        expect(error).toMatchObject({
          name: 'InstanceNotFoundError',
          code: 'INSTANCE_NOT_FOUND',
          instanceId: 'nobody',
        });
      }
    });

    it('is an error whose stack shows the caller', async () => {
      async function asker() {
        await store.client.raiseEvent('nobody', 'e');
      }
      expect((await rejection(asker())).stack).toContain('asker');
    });
  });

  it('an instance that has ended takes no more events', async () => {
    await store.start((runtime) => runtime.registerOrchestration('quick', function* () {}));
    const id = store.id();
    await store.client.startOrchestration(id, 'quick');
    await store.client.waitForOrchestration(id, SOON);
    const attempts = [store.client.raiseEvent(id, 'e'), store.client.enqueueEvent(id, 'q'), store.client.resume(id)];
    for (const error of await Promise.all(attempts.map(rejection))) {
      expect(error).toBeInstanceOf(RuntimeStateError);
      expect(error.message).toContain(id);
    }
  });

  describe('waiting', () => {
    it('ends with TimeoutError, and can be asked for again', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'later');
      const before = performance.now();
      const error = await rejection(store.client.waitForOrchestration(id, '40ms'));
      expect(performance.now() - before).toBeGreaterThanOrEqual(39);
      expect(error).toBeInstanceOf(TimeoutError);
      expect(error).toMatchObject({ code: 'TIMEOUT', timeoutMs: 40, message: expect.stringContaining(id) });
      expect(await rejection(store.client.handle(id).result({ timeout: 0 }))).toBeInstanceOf(TimeoutError);
      await store.start((runtime) =>
        runtime.registerOrchestration('later', function* () {
          return 'now';
        }),
      );
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('now');
    });

    it('is done by many at once, all woken', async () => {
      const ids = Array.from({ length: 50 }, () => store.id('watched'));
      await Promise.all(ids.map((id) => store.client.startOrchestration(id, 'watched', id)));
      const waits = ids.flatMap((id) => [1, 2, 3].map(() => store.client.waitForOrchestration(id, SOON)));
      await store.start((runtime) =>
        runtime.registerOrchestration('watched', function* (_, input) {
          return input;
        }),
      );
      const outputs = (await Promise.all(waits)).map(({ output }) => output);
      expect(outputs).toEqual(ids.flatMap((id) => [id, id, id]));
    });

    it('on a provider that is closed is told so', async () => {
      if (!kind.isShared) return;
      const provider = await store.open();
      const client = new Client(provider);
      const id = store.id();
      await client.startOrchestration(id, 'nobody registers this');
      const waiting = rejection(client.waitForOrchestration(id));
      await provider.close();
      expect(await waiting).toBeInstanceOf(RuntimeStateError);
      for (const error of await Promise.all(
        [client.getStatus(id), client.raiseEvent(id, 'e'), client.startOrchestration(store.id(), 'x')].map(rejection),
      )) {
        expect(error).toBeInstanceOf(RuntimeStateError);
      }
      await provider.close();
      expect(await rejection(store.runtime({}, provider).start())).toBeInstanceOf(RuntimeStateError);
    });
  });

  describe('options', () => {
    it('are refused when they are wrong, with the one that was probably meant', async () => {
      const { client } = store;
      const start = (options: any) => rejection(client.startOrchestration(store.id(), 'x', null, options));
      expect(await start({ onConflit: 'return' })).toMatchObject({
        name: 'TypeError',
        message: expect.stringContaining('`onConflict`'),
      });
      expect(await start({ onConflict: 'retrun' })).toMatchObject({ message: expect.stringContaining("'return'") });
      expect(await start({ priority: 1.5 })).toMatchObject({ message: expect.stringContaining('priority') });
      expect(await start({ tags: { a: 1 } })).toMatchObject({ message: expect.stringContaining('tags') });
      expect(await start(null)).toBeInstanceOf(TypeError);
      expect(await rejection(client.waitForOrchestration('id', '1 hour' as never))).toMatchObject({
        message: expect.stringContaining('timeout'),
      });
      expect(() => new Client({} as any)).toThrow(TypeError);
      expect(() => new Runtime({} as any)).toThrow(TypeError);
      expect(() => new Runtime(store.provider, { activityConcurency: 1 } as any)).toThrow(/`activityConcurrency`/);
      expect(() => new Runtime(store.provider, { lease: '5 s' })).toThrow(/lease/);
    });

    it('order waiting instances by priority, highest first', async () => {
      const order: string[] = [];
      const ids = [0, -5, 10, 0].map((priority) => ({ id: store.id('priority'), priority }));
      for (const { id, priority } of ids) await store.client.startOrchestration(id, 'ordered', null, { priority });
      await store.start((runtime) =>
        runtime.registerOrchestration('ordered', function* (ctx) {
          order.push(ctx.instanceId);
        }),
      );
      const ended = await Promise.all(ids.map(({ id }) => store.client.waitForOrchestration(id, SOON)));
      expect(ended.map(({ priority }) => priority)).toEqual([undefined, -5, 10, undefined]);
      const [first, low, high, second] = ids.map(({ id }) => id);
      expect(order).toEqual([high, first, second, low]);
    });
  });

  it('gives the history as it is recorded', async () => {
    await store.start((runtime) =>
      runtime
        .registerActivity('echo', (_, value) => value)
        .registerOrchestration(
          'recorded',
          function* (ctx, input) {
            yield ctx.scheduleActivity('echo', { rich: new Date(0) });
            yield ctx.waitForEvent('go');
            return input;
          },
          { version: '3.0.0' },
        ),
    );
    const id = store.id();
    const before = Date.now();
    await store.client.startOrchestration(id, 'recorded', 'in');
    await store.client.raiseEvent(id, 'go', [1]);
    await store.client.waitForOrchestration(id, SOON);
    const history = await store.client.getHistory(id);
    expect(kinds(history)).toEqual([
      'ExecutionStarted',
      'ActivityScheduled',
      'ActivityCompleted',
      'EventReceived',
      'ExecutionCompleted',
    ]);
    const [started, scheduled, completed, received, ended] = history;
    expect(started).toMatchObject({ eventId: 1, name: 'recorded', payload: 'in', meta: { version: '3.0.0' } });
    expect(scheduled).toMatchObject({ eventId: 2, name: 'echo', payload: { rich: new Date(0) } });
    expect(completed).toMatchObject({ eventId: 3, refId: 2, payload: { rich: new Date(0) } });
    expect(received).toMatchObject({ eventId: 4, name: 'go', payload: [1] });
    expect(ended).toMatchObject({ eventId: 5, payload: 'in' });
    for (const { time } of history) {
      expect(Number(time)).toBeGreaterThanOrEqual(before);
      expect(Number(time)).toBeLessThanOrEqual(Date.now());
    }
  });
});

describe.each(SHARED_STORES)('on $name, from eight providers', (kind) => {
  const store = useStore(kind);

  it('an id that all start at the same time is given to one of them', async () => {
    const clients = await Promise.all(Array.from({ length: 8 }, async () => new Client(await store.open())));
    const id = store.id();
    const starts = await Promise.allSettled(
      clients.map((client, n) => client.startOrchestration(id, 'nobody registers this', n)),
    );
    const winner = starts.findIndex(({ status }) => status === 'fulfilled');
    expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const start of starts)
      if (start.status === 'rejected') expect(start.reason).toBeInstanceOf(InstanceExistsError);
    expect((await store.client.listInstances().page()).items.map((found) => found.id)).toEqual([id]);
    expect((await store.client.getHistory(id)).map(({ payload }) => payload)).toEqual([winner]);
  });
});

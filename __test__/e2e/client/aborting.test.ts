// Waits and long readings of a client that end by an abort signal of their caller. Each rejects at once with the reason
// of the signal, and leaves nothing behind: no listener, no wait of the store, no timer.

import { execFile } from 'node:child_process';
import { getEventListeners } from 'node:events';
import { promisify } from 'node:util';
import { Client, TimeoutError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { nextTick, rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, type TestStore, useStore } from '../../support/store.ts';

/** Starts an instance that waits for the event 'go' and then sets its custom status. */
async function waiting(store: TestStore): Promise<string> {
  const [id, name] = [store.id(), store.id('waits')];
  await store.start((runtime) =>
    runtime.registerOrchestration(name, function* (ctx) {
      yield ctx.waitForEvent('go');
      ctx.setCustomStatus('gone');
      return 'done';
    }),
  );
  await store.client.startOrchestration(id, name);
  return id;
}

/** The waits for an instance, each by the name of its method. */
const WAITS: Record<string, (client: Client, id: string, signal: AbortSignal) => Promise<unknown>> = {
  'client.waitForOrchestration': (client, id, signal) => client.waitForOrchestration(id, { signal }),
  'client.waitForOrchestration with a timeout': (client, id, signal) =>
    client.waitForOrchestration(id, { signal, timeout: SOON }),
  'client.waitForStatusChange': (client, id, signal) => client.waitForStatusChange(id, 0, { signal }),
  'client.waitForStatusChange with a timeout': (client, id, signal) =>
    client.waitForStatusChange(id, 0, { signal, timeout: SOON, pollInterval: 10 }),
  'client.statusChanges': (client, id, signal) => client.statusChanges(id, { signal }).next(),
  'handle.result': (client, id, signal) => client.handle(id).result({ signal }),
  'handle.result with a timeout': (client, id, signal) => client.handle(id).result({ signal, timeout: SOON }),
  'handle.waitForStatusChange': (client, id, signal) => client.handle(id).waitForStatusChange(0, { signal }),
  'handle.statusChanges': (client, id, signal) => client.handle(id).statusChanges({ signal }).next(),
};

async function listed<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** Readings and deletions that take as many requests as the store holds rows, each by the name of its method. */
const READINGS: Record<string, (client: Client, id: string, signal: AbortSignal) => Promise<unknown>> = {
  'client.listInstances': (client, _, signal) => listed(client.listInstances({ signal })),
  'client.listInstances with inputs': (client, _, signal) => client.listInstances({ signal, input: true }).page(),
  'client.executions': (client, id, signal) => listed(client.executions(id, { signal })),
  'client.getHistory': (client, id, signal) => client.getHistory(id, undefined, { signal }),
  'client.historyEvents': (client, id, signal) => listed(client.historyEvents(id, 1, { signal })),
  'client.exportHistory': (client, id, signal) => client.exportHistory(id, 1, { signal }),
  'client.tree': (client, id, signal) => client.tree(id, { signal }),
  'client.prune': (client, _, signal) => client.prune({ name: 'nothing has this name', signal }),
  'client.pruneExecutions': (client, _, signal) => client.pruneExecutions({ name: 'none', keep: 1, signal }),
  'client.deleteInstance': (client, id, signal) => client.deleteInstance(id, { descendants: true, signal }),
};

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it.each(Object.entries(WAITS))('%s rejects at once with the reason, and leaves no listener', async (_, wait) => {
    const id = await waiting(store);
    const controller = new AbortController();
    const { signal } = controller;
    const first = rejection(wait(store.client, id, signal));
    const second = rejection(wait(store.client, id, signal));
    await nextTick();
    expect(listeners(signal), 'the waits share a listener').toBe(1);
    const reason = new Error('the caller has gone');
    const { stack } = reason;
    controller.abort(reason);
    expect([await first, await second]).toEqual([reason, reason]);
    expect(await first).toBe(reason);
    expect(reason.stack).toBe(stack);
    expect(listeners(signal)).toBe(0);
    expect((await store.client.getStatus(id))?.status).toBe('Running');
  });

  it.each(Object.entries(WAITS))('%s resolves as it does without a signal, and leaves no listener', async (_, wait) => {
    const id = await waiting(store);
    const { signal } = new AbortController();
    const waits = wait(store.client, id, signal);
    await nextTick();
    expect(listeners(signal)).toBe(1);
    await store.client.raiseEvent(id, 'go');
    expect(await waits).toBeDefined();
    expect(listeners(signal)).toBe(0);
  });

  it.each(Object.entries({ ...WAITS, ...READINGS }))(
    '%s does not ask the store when its signal is aborted already',
    async (_, call) => {
      const provider = await store.open();
      const client = new Client(provider);
      await provider.close();
      const reason = { why: 'no error at all' };
      expect(await rejection(call(client, 'order-1', AbortSignal.abort(reason)))).toBe(reason);
      const error = await rejection(call(client, 'order-1', AbortSignal.abort()));
      expect(error).toMatchObject({ name: 'AbortError' });
      expect(await rejection(call(client, 'order-1', new AbortController().signal))).toMatchObject({
        code: 'RUNTIME_STATE',
      });
    },
  );

  it.each(Object.entries(READINGS))('%s rejects at once, and leaves no listener', async (_, read) => {
    const id = await waiting(store);
    const controller = new AbortController();
    const read1 = rejection(read(store.client, id, controller.signal));
    controller.abort();
    expect(await read1).toBe(controller.signal.reason);
    await nextTick();
    expect(listeners(controller.signal)).toBe(0);
    const { signal } = new AbortController();
    await read(store.client, id, signal).catch((error) => expect(error).toMatchObject({ code: 'RUNTIME_STATE' }));
    expect(listeners(signal)).toBe(0);
  });

  it('an iteration throws the reason where it is, and what was read before stays read', async () => {
    const name = store.id('never registered');
    for (let n = 0; n < 3; n += 1) await store.client.startOrchestration(store.id(), name);
    const controller = new AbortController();
    const seen: string[] = [];
    const loop = async (): Promise<void> => {
      for await (const { id } of store.client.listInstances({ name, signal: controller.signal })) seen.push(id);
    };
    await loop();
    expect(seen).toHaveLength(3);
    controller.abort();
    expect(await rejection(loop())).toBe(controller.signal.reason);
    expect(seen).toHaveLength(3);
  });

  it('a timeout and a signal work together: the first one ends the wait', async () => {
    const id = await waiting(store);
    const handle = store.client.handle(id);
    const { signal } = new AbortController();
    expect(await rejection(handle.result({ timeout: 1, signal }))).toBeInstanceOf(TimeoutError);
    expect(await rejection(store.client.waitForOrchestration(id, { timeout: 1, signal }))).toBeInstanceOf(TimeoutError);
    expect(await store.client.waitForStatusChange(id, 0, { timeout: 1, signal })).toBeNull();
    expect(listeners(signal)).toBe(0);
    const timedOut = await rejection(handle.result({ timeout: SOON, signal: AbortSignal.timeout(1) }));
    expect(timedOut).toMatchObject({ name: 'TimeoutError' });
    expect(timedOut).not.toBeInstanceOf(TimeoutError);
    const controller = new AbortController();
    const either = AbortSignal.any([controller.signal, AbortSignal.timeout(60_000)]);
    const waits = rejection(handle.result({ signal: either }));
    controller.abort('enough');
    expect(await waits).toBe('enough');
    expect(listeners(either)).toBe(0);
  });

  it('names the option that is no signal', async () => {
    const { client } = store;
    const wrong = { signal: 5 } as unknown as { signal: AbortSignal };
    const calls: Record<string, () => unknown> = {
      'client.waitForOrchestration': () => client.waitForOrchestration('id', wrong),
      'client.waitForStatusChange': () => client.waitForStatusChange('id', 0, wrong),
      'handle.waitForStatusChange': () => client.handle('id').waitForStatusChange(0, wrong),
      'client.statusChanges': () => client.statusChanges('id', wrong),
      'handle.statusChanges': () => client.handle('id').statusChanges(wrong),
      'handle.result': () => client.handle('id').result(wrong),
      'client.listInstances': () => client.listInstances(wrong),
      'client.executions': () => client.executions('id', wrong),
      'client.getHistory': () => client.getHistory('id', 1, wrong),
      'client.historyEvents': () => client.historyEvents('id', 1, wrong),
      'client.exportHistory': () => client.exportHistory('id', 1, wrong),
      'client.tree': () => client.tree('id', wrong),
      'client.deleteInstance': () => client.deleteInstance('id', wrong),
      'client.prune': () => client.prune(wrong),
      'client.pruneExecutions': () => client.pruneExecutions({ keep: 1, ...wrong }),
      'client.recode': () => client.recode(wrong),
    };
    for (const [where, call] of Object.entries(calls)) {
      const error = await rejection((async () => call())());
      expect(error, where).toBeInstanceOf(TypeError);
      expect((error as Error).message).toBe(`${where}: signal must be an AbortSignal, got 5`);
    }
  });
});

describe.each(SHARED_STORES)('on $name, in another process', (kind) => {
  const store = useStore(kind);

  it('the process ends by itself after its waits were aborted', async () => {
    const id = await waiting(store);
    const code = `
      import { Client, PostgresProvider, SqliteProvider } from 'perdure';
      const { kind, path, url, schema } = ${JSON.stringify(store.address)};
      const opened = kind === 'sqlite' ? SqliteProvider.open(path) : PostgresProvider.connect(url, { schema });
      const provider = await opened;
      const client = new Client(provider);
      const controller = new AbortController();
      const { signal } = controller;
      const id = ${JSON.stringify(id)};
      const waits = [
        client.waitForOrchestration(id, { signal }),
        client.handle(id).result({ signal, timeout: '1d' }),
        client.waitForStatusChange(id, 0, { signal, timeout: '1d' }),
        client.statusChanges(id, { signal }).next(),
      ];
      setImmediate(() => controller.abort('over'));
      const ends = await Promise.allSettled(waits);
      console.log(ends.map(({ reason }) => reason).join());
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
      timeout: 20_000,
    });
    expect(stdout).toBe('over,over,over,over\n');
  });
});

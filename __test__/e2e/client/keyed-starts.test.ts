// Starts that depend on the start before them: singletons, throttled starts and debounced ones, on each store.

import { Client, type CodecContext, defineOrchestration, InstanceExistsError, Runtime, SqliteProvider } from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Time that no test waits for. */
const LONG = '1h';

const waiter = defineOrchestration('waiter', function* (ctx, word: string) {
  try {
    yield* ctx.waitForEvent('go');
    return word;
  } finally {
    yield* ctx.run('clean up', () => word);
  }
});

const echo = defineOrchestration('echo', function* (_ctx, word: string) {
  return word;
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('a singleton stands for the starts that come while it runs', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const options = { singleton: 'skip', key: 'a' } as const;
    const first = await store.client.start(waiter, 'first', { ...options, id: store.id() });
    const second = await store.client.start(waiter, 'second', options);
    expect(second.id).toBe(first.id);
    const other = await store.client.start(waiter, 'other', { singleton: 'skip', key: 'b' });
    expect(other.id).not.toBe(first.id);
    expect((await store.client.start(waiter, 'all', { singleton: 'skip' })).id).not.toBe(first.id);
    await first.raiseEvent('go');
    expect(await second.result({ timeout: SOON })).toBe('first');
    const third = await store.client.start(waiter, 'third', options);
    expect(third.id).not.toBe(first.id);
    expect(await store.client.startOrchestration(store.id(), 'waiter', 'fourth', options)).toBe(third.id);
  });

  it('a singleton is cancelled by the next one', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const options = { singleton: 'cancel', key: 'a' } as const;
    const first = await store.client.start(waiter, 'first', options);
    await eventually(20_000, 'it runs', async () => (await first.status())?.status === 'Running');
    const second = await store.client.start(waiter, 'second', options);
    expect(second.id).not.toBe(first.id);
    expect((await store.client.waitForOrchestration(first.id, SOON)).status).toBe('Cancelled');
    await second.raiseEvent('go');
    expect(await second.result({ timeout: SOON })).toBe('second');
  });

  it('a throttled start is skipped within the time', async () => {
    await store.start((runtime) => runtime.register(echo));
    const throttle = { key: 'a', per: LONG } as const;
    const first = await store.client.start(echo, 'first', { throttle });
    expect(await first.result({ timeout: SOON })).toBe('first');
    const second = await store.client.start(echo, 'second', { throttle });
    expect([second.id, await second.result()]).toEqual([first.id, 'first']);
    await eventually(20_000, 'the time is over', async () => {
      const again = await store.client.start(echo, 'again', { throttle: { key: 'a', per: 50 } });
      return again.id !== first.id;
    });
  });

  it('a debounced start runs once, with the last input', async () => {
    await store.start((runtime) => runtime.register(echo));
    const id = store.id();
    const typed = (word: string, delay: `${number}s` | number) =>
      store.client.start(echo, word, { id: store.id(), debounce: { key: id, delay } });
    const first = await typed('h', '600s');
    const others = await Promise.all(['he', 'hel', 'hell'].map((word) => typed(word, '600s')));
    expect(others.map((handle) => handle.id)).toEqual([first.id, first.id, first.id]);
    expect((await first.status())?.status).toBe('Pending');
    // The last delay counts, and it may be shorter.
    const last = await typed('hello', 50);
    expect([last.id, await first.result({ timeout: SOON })]).toEqual([first.id, 'hello']);
    const next = await typed('bye', 50);
    expect(next.id).not.toBe(first.id);
    expect(await next.result({ timeout: SOON })).toBe('bye');
  });

  it('a debounced start runs at the longest delay at the latest', async () => {
    await store.start((runtime) => runtime.register(echo));
    const debounce = { key: store.id(), delay: '2s', maxDelay: '2100ms' } as const;
    const first = await store.client.start(echo, 'first', { debounce });
    await eventually(20_000, 'it has begun', async () => {
      const again = await store.client.start(echo, 'again', { debounce });
      return again.id !== first.id;
    });
    expect(await first.result({ timeout: SOON })).toBe('again');
  });

  it('a start in a queue keeps its place, and its key there', async () => {
    await store.start((runtime) => runtime.register(echo));
    await store.client.queues.set('line', { concurrency: 1 });
    const options = { queue: 'line', key: 'a', debounce: { delay: '600s' } } as const;
    const first = await store.client.start(echo, 'first', options);
    await store.client.start(echo, 'second', options);
    expect((await store.client.describe(first.id))?.queue).toMatchObject({ name: 'line', key: 'a' });
    await store.client.start(echo, 'third', { ...options, debounce: { delay: 1 } });
    expect(await first.result({ timeout: SOON })).toBe('third');
  });

  it('a start of many tells which instance stands for it', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const starts = ['a', 'b', 'c'].map((id) => ({
      definition: waiter,
      input: id,
      id: `${id} ${store.id()}`,
      singleton: 'skip' as const,
      key: 'many',
    }));
    const outcomes = await store.client.startMany(starts);
    expect(outcomes.map(({ error }) => error)).toEqual([undefined, undefined, undefined]);
    expect(new Set(outcomes.map(({ id }) => id)).size).toBe(1);
  });

  it('a start that is refused leaves the key alone', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const used = await store.client.start(waiter, 'used', { id: store.id() });
    const again = store.client.start(waiter, 'again', { id: used.id, singleton: 'skip', key: 'new' });
    await expect(again).rejects.toThrow(InstanceExistsError);
    const first = await store.client.start(waiter, 'first', { singleton: 'skip', key: 'new' });
    expect((await store.client.start(waiter, 'second', { singleton: 'skip', key: 'new' })).id).toBe(first.id);
  });

  it('one of many starts at once starts an instance', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const clients = [store.client, new Client(store.provider)];
    const handles = await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        (clients[n % 2] as Client).start(waiter, `${n}`, { singleton: 'skip', key: 'one' }),
      ),
    );
    expect(new Set(handles.map(({ id }) => id)).size).toBe(1);
  });
});

it('options that do not fit together are refused', async () => {
  await using provider = await SqliteProvider.inMemory();
  const client = new Client(provider);
  const start = (options: object) => client.startOrchestration('a', 'echo', 'word', options);
  const second = { per: '1s' };
  await expect(start({ singleton: 'skip', throttle: second })).rejects.toThrow(
    "orchestration 'echo': takes one of the options singleton and throttle, not both",
  );
  await expect(start({ debounce: { delay: '1s' }, delay: '1s' })).rejects.toThrow(
    "orchestration 'echo': takes one of the options debounce and delay, not both",
  );
  await expect(start({ debounce: { delay: '2s', maxDelay: '1s' } })).rejects.toThrow(
    "orchestration 'echo': debounce.maxDelay must not be shorter than debounce.delay",
  );
  await expect(start({ throttle: { key: 'a' } })).rejects.toThrow("orchestration 'echo': throttle.per");
  await expect(start({ singleton: 'wait' })).rejects.toThrow(
    "client.startOrchestration: singleton must be one of 'skip', 'cancel', got 'wait'",
  );
  await expect(start({ debounce: { key: 'k'.repeat(257), delay: 1 } })).rejects.toThrow('debounce.key');
  expect(await client.getStatus('a')).toBeNull();
});

describe.each(['at once', 'later'])('with a codec that answers %s', (when) => {
  const wrong = (instance: string, text: string) => {
    if (!text.startsWith(`${instance}|`)) throw new Error(`the text is not one of ${instance}`);
    return text.slice(instance.length + 1);
  };
  const codec =
    when === 'at once'
      ? {
          encode: (text: string, { instance }: CodecContext) => `${instance}|${text}`,
          decode: (text: string, { instance }: CodecContext) => wrong(instance, text),
        }
      : {
          async: true as const,
          encode: async (text: string, { instance }: CodecContext) => `${instance}|${text}`,
          decode: async (text: string, { instance }: CodecContext) => wrong(instance, text),
        };

  it('a debounced start is encoded for the instance that takes it', async () => {
    await using provider = await SqliteProvider.inMemory({ codec });
    const runtime = new Runtime(provider).register(echo);
    await runtime.start();
    const client = new Client(provider);
    const first = await client.start(echo, 'first', { debounce: { delay: '600s' } });
    const last = await client.start(echo, 'last', { debounce: { delay: 1 } });
    expect([last.id, await first.result({ timeout: SOON })]).toEqual([first.id, 'last']);
    await runtime.shutdown();
  });
});

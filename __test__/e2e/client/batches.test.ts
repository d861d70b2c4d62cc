// Batches: many starts, one instance with all their inputs, on each store.

import { Client, type CodecContext, defineOrchestration, Runtime, SqliteProvider } from 'perdure';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** Time that no test waits for. */
const LONG = '1h';

/** Returns an orchestration whose batches are full with three inputs. Each test has one of its own. */
const collecting = (name: string) =>
  defineOrchestration(
    name,
    function* (_ctx, words: string[]) {
      return words.join(' ');
    },
    { batch: { max: 3, within: LONG } },
  );

const bySize = defineOrchestration(
  'by size',
  function* (_ctx, words: string[]) {
    return words;
  },
  { batch: { max: 2, within: LONG, key: (word) => `${word.length}` } },
);

const soon = defineOrchestration(
  'soon',
  function* (ctx, words: string[]) {
    const once = yield* ctx.run('count', () => words.length);
    return [once, ...words];
  },
  { batch: { max: 1_000, within: '100ms' } },
);

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('the starts of a batch are the inputs of one instance, in their order', async () => {
    const collect = collecting('in order');
    await store.start((runtime) => runtime.register(collect));
    const first = await store.client.start(collect, 'a');
    const second = await store.client.start(collect, 'b');
    expect(second.id).toBe(first.id);
    expect((await first.status())?.status).toBe('Pending');
    // The last input of a full batch makes it run, and the next one is of another batch.
    const third = await store.client.start(collect, 'c');
    expect(await third.result({ timeout: SOON })).toBe('a b c');
    const next = await store.client.start(collect, 'd');
    expect(next.id).not.toBe(first.id);
  });

  it('a batch runs when its time has come, with the inputs that it has', async () => {
    await store.start((runtime) => runtime.register(soon));
    const [first, second] = await Promise.all([store.client.start(soon, 'a'), store.client.start(soon, 'b')]);
    expect(second.id).toBe(first.id);
    const [count, ...words] = (await first.result({ timeout: SOON })) as [number, ...string[]];
    expect([count, words.sort()]).toEqual([2, ['a', 'b']]);
  });

  it('inputs of one key share a batch', async () => {
    await store.start((runtime) => runtime.register(bySize));
    const [one, two] = [await store.client.start(bySize, 'a'), await store.client.start(bySize, 'aa')];
    expect(two.id).not.toBe(one.id);
    await store.client.start(bySize, 'b');
    await store.client.start(bySize, 'bb');
    expect(await one.result({ timeout: SOON })).toEqual(['a', 'b']);
    expect(await two.result({ timeout: SOON })).toEqual(['aa', 'bb']);
  });

  it('another version of the code has batches of its own', async () => {
    const collect = collecting('versions');
    const newer = defineOrchestration(
      collect.name,
      function* (_ctx, words: string[]) {
        return words.length;
      },
      { version: '2.0.0', batch: { max: 2, within: LONG } },
    );
    await store.start((runtime) => runtime.register(collect, newer));
    const old = await store.client.start(collect, 'a');
    const first = await store.client.start(newer, 'b');
    expect(first.id).not.toBe(old.id);
    await store.client.start(newer, 'c');
    expect(await first.result({ timeout: SOON })).toBe(2);
  });

  it('each of many starts at once is an input of one batch', async () => {
    await store.start((runtime) => runtime.register(soon));
    const words = Array.from({ length: 500 }, (_, n) => `${n}`);
    const other = new Client(store.provider);
    const [half, rest] = await Promise.all([
      store.client.startMany(words.slice(0, 250).map((input) => ({ definition: soon, input }))),
      Promise.all(words.slice(250).map((input) => other.start(soon, input))),
    ]);
    expect(half.filter(({ error }) => error !== undefined)).toEqual([]);
    const ids = new Set([...half, ...rest].map(({ id }) => id));
    const results = await Promise.all(
      [...ids].map((id) => store.client.handle<[number, ...string[]]>(id).result({ timeout: SOON })),
    );
    expect(results.flatMap(([, ...inputs]) => inputs).sort()).toEqual(words.sort());
  });

  it('inputs outlive the worker, and wait in the queue of the batch', async () => {
    const collect = collecting('queued');
    await store.client.queues.set('line', { concurrency: 1 });
    const first = await store.client.start(collect, 'a', { queue: 'line', tags: { of: 'first' } });
    await store.client.start(collect, 'b', { queue: 'line' });
    expect((await store.client.describe(first.id))?.queue).toMatchObject({ name: 'line' });
    await store.client.start(collect, 'c');
    await store.start((runtime) => runtime.register(collect));
    expect(await first.result({ timeout: SOON })).toBe('a b c');
    expect((await first.status())?.tags).toEqual({ of: 'first' });
  });

  it('an instance that was started in another way has one input', async () => {
    const collect = collecting('alone');
    const parent = defineOrchestration('parent', function* (ctx) {
      return yield* ctx.callOrchestration(collect, 'child');
    });
    await store.start((runtime) => runtime.register(collect, parent));
    expect(await (await store.client.start(parent)).result({ timeout: SOON })).toBe('child');
    const id = await store.client.startOrchestration(store.id(), 'alone', 'by name');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('by name');
  });

  it('a schema checks each input', async () => {
    const sum = defineOrchestration(
      'sum',
      function* (_ctx, numbers) {
        return numbers.reduce((all, n) => all + n, 0);
      },
      { input: z.string().transform(Number), batch: { max: 2, within: LONG } },
    );
    await store.start((runtime) => runtime.register(sum));
    const first = await store.client.start(sum, '1');
    await expect(store.client.start(sum, 2 as never)).rejects.toThrow(
      'input does not fit its schema: input: Invalid input: expected string, received number',
    );
    await store.client.start(sum, '2');
    expect(await first.result({ timeout: SOON })).toBe(3);
  });

  it('a batch that is cancelled, suspended or deleted takes no more inputs', async () => {
    const collect = collecting('ended');
    const first = await store.client.start(collect, 'a');
    await store.client.cancelInstance(first.id);
    expect((await first.status())?.status).toBe('Cancelled');
    const second = await store.client.start(collect, 'b');
    expect(second.id).not.toBe(first.id);
    await store.client.suspend(second.id, 'for a look');
    const third = await store.client.start(collect, 'c');
    expect(third.id).not.toBe(second.id);
    await store.client.resume(second.id);
    await store.client.terminateInstance(third.id);
    await store.client.deleteInstance(third.id);
    expect((await store.client.start(collect, 'd')).id).not.toBe(second.id);
  });
});

it('options that do not fit to a batch are refused', async () => {
  const collect = collecting('collect');
  await using provider = await SqliteProvider.inMemory();
  const client = new Client(provider);
  const code = function* (_ctx: unknown, _inputs: string[]) {};
  const define = (batch: object) => () => defineOrchestration('b', code as never, { batch } as never);
  expect(define({ max: 2 })).toThrow("orchestration 'b': batch must have 'max' and 'within', got an object");
  expect(define({ max: 0, within: 1 })).toThrow(
    "orchestration 'b': batch.max must be a whole number from 1 to 1000, got 0",
  );
  expect(define({ max: 1_001, within: 1 })).toThrow('batch.max must be a whole number from 1 to 1000, got 1001');
  expect(define({ max: 1, within: 0 })).toThrow("orchestration 'b': batch.within must be at least 1 ms, got 0");
  expect(define({ max: 1, within: 'soon' })).toThrow("orchestration 'b': batch.within");
  expect(define({ max: 1, within: 1, key: 'a' })).toThrow("orchestration 'b': batch.key must be a function, got 'a'");
  expect(define({ max: 1, within: 1, size: 1 })).toThrow('unknown option `size`');
  for (const [name, value] of Object.entries({
    singleton: 'skip',
    throttle: { per: 1 },
    debounce: { delay: 1 },
    delay: 1,
    startAt: new Date(),
  })) {
    await expect(client.start(collect, 'a', { [name]: value })).rejects.toThrow(
      `orchestration 'collect': its starts are inputs of batches, and take no option ${name}`,
    );
  }
  for (const [key, says] of [
    [7, "the key that batch.key of orchestration 'k' returns must be a string, got 7"],
    ['k'.repeat(257), "the key that batch.key of orchestration 'k' returns must have at most 256 characters, got 257"],
  ]) {
    const keyed = defineOrchestration('k', code as never, { batch: { max: 2, within: 1, key: () => key as string } });
    await expect(client.start(keyed, 'a' as never)).rejects.toThrow(says as string);
  }
  expect((await client.listInstances().page()).items).toEqual([]);
});

describe.each(['at once', 'later'])('with a codec that answers %s', (when) => {
  const owner = ({ instance, place }: CodecContext) => (place.startsWith('batch:') ? `${place} ${instance}` : place);
  const encode = (text: string, context: CodecContext) => `${owner(context)}|${text}`;
  const decode = (text: string, context: CodecContext) => {
    const own = `${owner(context)}|`;
    if (!text.startsWith(own)) throw new Error(`the text is not one of ${own}`);
    return text.slice(own.length);
  };
  const codec =
    when === 'at once'
      ? { encode, decode }
      : {
          async: true as const,
          encode: async (text: string, context: CodecContext) => encode(text, context),
          decode: async (text: string, context: CodecContext) => decode(text, context),
        };

  it('an input is encoded for its batch, with the longest names', async () => {
    await using provider = await SqliteProvider.inMemory({ codec });
    const long = defineOrchestration(
      '"'.repeat(256),
      function* (_ctx, words: string[]) {
        return words;
      },
      { batch: { max: 2, within: LONG, key: () => '\u{1f600}'.repeat(128) } },
    );
    const runtime = new Runtime(provider).register(long);
    await runtime.start();
    const client = new Client(provider);
    const first = await client.start(long, 'a');
    await client.start(long, 'b');
    expect(await first.result({ timeout: SOON })).toEqual(['a', 'b']);
    const events = await client.getHistory(first.id);
    expect(events.filter(({ kind }) => kind === 'QueueReceived').map(({ payload }) => payload)).toEqual(['a', 'b']);
    await runtime.shutdown();
  });
});

// The limit of one value, where instances ask, answer, publish and stream: the error names the value, nothing that was
// there is lost, and the instance goes on.

import {
  Client,
  defineActivity,
  defineEntity,
  defineOrchestration,
  defineQuery,
  defineUpdate,
  PayloadError,
  type Runtime,
  type Token,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** The limit of the runtimes here, bytes. Errors with their stacks fit into it. */
const MAX = 16_384;
const LARGE = 'x'.repeat(MAX);

const add = defineUpdate<string, string | number>('add');
const answer = defineQuery<number, string>('answer');

const fills = defineActivity('fills', async (ctx) => {
  const stream = ctx.stream('of the activity');
  stream.write('before');
  let message = '';
  try {
    stream.write(LARGE);
  } catch (error) {
    if (error instanceof PayloadError) message = error.message;
  }
  stream.write('after');
  return message;
});

/** The message of the `PayloadError` that a function throws. */
function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof PayloadError) return error.message;
    throw error;
  }
  throw new Error('it was not refused');
}

/** Meets the limit in each way, and writes the messages into a stream. */
const meets = defineOrchestration('meets', function* (ctx) {
  ctx.state.set('value', 'small');
  ctx.stream('s').write('before');
  const refused = [
    refusal(() => ctx.state.set('value', LARGE)),
    refusal(() => ctx.stream('s').write(LARGE)),
    refusal(() => ctx.update('none', add, LARGE)),
    refusal(() => ctx.token({ data: LARGE })),
    yield* ctx.call(fills),
  ];
  ctx.stream('s').write('after');
  for (const message of refused) ctx.stream('refused').write(message);
});

/** Answers updates and queries until the event `end`. */
const serves = defineOrchestration('serves', function* (ctx) {
  const texts: string[] = [];
  ctx.onUpdate(add, function* (text) {
    texts.push(text);
    return text === 'answer much' ? LARGE : texts.length;
  });
  ctx.onQuery(answer, (length) => 'y'.repeat(length));
  yield* ctx.waitForEvent('end');
  return texts;
});

/** Waits for a token, whose id it publishes. */
const tokens = defineOrchestration('tokens', function* (ctx) {
  const token: Token<string> = ctx.token<string>();
  ctx.state.set('id', token.id);
  return yield* token;
});

const notes = defineEntity('notes', {
  initial: () => '',
  handlers: {
    *write(ctx, length: number) {
      ctx.state = 'n'.repeat(length);
      return length;
    },
  },
  reads: { length: (state) => state.length },
});

function register(runtime: Runtime): void {
  runtime.register(meets, fills, serves, tokens, notes);
}

/** The begin of the message for a value that is too large. */
function tooLarge(path: string): unknown {
  const rule = `cannot be stored: it takes \\d+ bytes, over the limit of ${MAX} bytes \\(limits.payloadBytes\\)`;
  return expect.stringMatching(new RegExp(`^${path} ${rule}`));
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const start = () => store.start(register, { limits: { payloadBytes: MAX } });

  async function refused(call: Promise<unknown>, path: string): Promise<void> {
    const error = await rejection(call);
    expect(error).toBeInstanceOf(PayloadError);
    expect(error).toMatchObject({ code: 'PAYLOAD', message: tooLarge(path) });
  }

  async function values(id: string, stream: string): Promise<unknown[]> {
    const read: unknown[] = [];
    for await (const { value } of store.client.readStream(id, stream, { live: false })) read.push(value);
    return read;
  }

  it('published values, stream entries, updates and data of tokens that are too large are refused', async () => {
    await start();
    const { id } = await store.client.start(meets, undefined, { id: store.id() });
    const { status } = await store.client.waitForOrchestration(id, SOON);
    expect(status).toBe('Completed');
    expect(await values(id, 'refused')).toEqual([
      tooLarge("state 'value'"),
      tooLarge("entry of stream 's'"),
      tooLarge('update'),
      tooLarge('data'),
      tooLarge("entry of stream 'of the activity'"),
    ]);
    expect(await values(id, 's')).toEqual(['before', 'after']);
    expect(await values(id, 'of the activity')).toEqual(['before', 'after']);
    expect(await store.client.getState(id, 'value')).toMatchObject({ value: 'small' });
    for await (const token of store.client.listTokens({ instanceId: id })) expect(token).toBeUndefined();
  });

  it('an update and an answer that are too large are refused, and the next ones are not', async () => {
    await start();
    const { id } = await store.client.start(serves, undefined, { id: store.id() });
    expect(await store.client.update(id, add, 'first')).toBe(1);
    const before = await store.client.getHistory(id);
    await refused(store.client.update(id, add, LARGE), 'update');
    expect(await store.client.getHistory(id)).toEqual(before);
    // The handler has run. Its answer is the error, now and later.
    for (let n = 0; n < 2; n += 1)
      await refused(store.client.update(id, add, 'answer much', { updateId: 'much' }), 'answer');
    expect(await store.client.update(id, add, 'last')).toBe(3);
    await store.client.raiseEvent(id, 'end');
    expect(await store.client.handle(serves, id).result({ timeout: SOON })).toEqual(['first', 'answer much', 'last']);
  });

  it('a query and its answer are held to the limit as well', async () => {
    await start();
    const { id } = await store.client.start(serves, undefined, { id: store.id() });
    expect(await store.client.update(id, add, 'first')).toBe(1);
    await refused(store.client.query(id, answer, LARGE.length), 'answer');
    await refused(store.client.query(id, 'answer', LARGE), 'query');
    expect(await store.client.query(id, answer, 3)).toBe('yyy');
    expect(await store.client.update(id, add, 'second')).toBe(2);
  });

  it.runIf(SHARED_STORES.includes(kind))('a query that a worker answers is held to the limit as well', async () => {
    await start();
    const { id } = await store.client.start(serves, undefined, { id: store.id() });
    const client = new Client(await store.open());
    await refused(client.query(id, answer, LARGE.length), 'answer');
    // The answer fits, and not with what the worker puts around it.
    await refused(client.query(id, answer, MAX - 2), 'output');
    expect(await store.client.query(id, answer, MAX - 2)).toHaveLength(MAX - 2);
    expect(await client.query(id, answer, 3)).toBe('yyy');
  });

  it('a token stays open when its value is too large', async () => {
    await start();
    const handle = await store.client.start(tokens, undefined, { id: store.id() });
    const found = (await store.client.watchState<string>(handle.id, 'id').next()).value;
    const id = found?.value as string;
    await refused(store.client.resolveToken(id, LARGE), 'update');
    await store.client.resolveToken(id, 'small');
    expect(await handle.result({ timeout: SOON })).toBe('small');
  });

  it('a token stays open when its value is too large for the worker alone', async () => {
    await start();
    const handle = await store.client.start(tokens, undefined, { id: store.id() });
    const found = (await store.client.watchState<string>(handle.id, 'id').next()).value;
    const id = found?.value as string;
    const generous = new Client(store.provider, { limits: { payloadBytes: 10 * MAX } });
    await refused(generous.resolveToken(id, LARGE), 'value of the token');
    await store.client.resolveToken(id, 'small');
    expect(await handle.result({ timeout: SOON })).toBe('small');
  });

  it('an entity keeps its state when the next one is too large', async () => {
    await start();
    const mine = store.client.entity(notes, store.id('key'));
    expect(await mine.write(10)).toBe(10);
    await refused(mine.write(LARGE.length), "state 'state'");
    expect(await mine.length()).toBe(10);
    expect(await mine.write(11)).toBe(11);
    expect(await mine.length()).toBe(11);
  });
});

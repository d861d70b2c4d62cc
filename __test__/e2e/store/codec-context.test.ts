// The context of a codec: the place of each text, and the key that it named. A text in a wrong place is detected, and
// so is plain text.

import {
  Client,
  type Codec,
  type CodecContext,
  type DecodeContext,
  defineActivity,
  defineOrchestration,
  PayloadError,
  type Provider,
  Runtime,
} from 'perdure';
import { crashEverywhere, replay, TestRuntime } from 'perdure/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { AsyncCodecTexts } from '../../../js/values/async-codec.ts';
import { Place } from '../../../js/values/codec-context.ts';
import { StoredTexts, UNSTORABLE } from '../../../js/values/stored-text.ts';
import { rejection } from '../../support/async.ts';
import { type KeyRing, keyRing } from '../../support/keys.mjs';
import { SHARED_STORES, type StoreAddress, type StoreSite } from '../../support/providers.ts';
import { change, query } from '../../support/rows.ts';
import { SOON } from '../../support/store.ts';

const echo = defineActivity('echo', async (_, value: string) => `${value} back`);
const fail = defineActivity('fail', async (_, value: string) => Promise.reject(new RangeError(value)), {
  retry: { maxAttempts: 2, initialInterval: 1 },
});

const waiting = defineOrchestration('waiting', function* (ctx, input: string) {
  ctx.setCustomStatus(input);
  return [input, yield* ctx.call(echo, yield* ctx.waitForEvent<string>('go'))];
});
const child = defineOrchestration('child', function* (ctx, input: string) {
  if (input === 'stays') yield* ctx.waitForEvent('never');
  if (input === 'again') return yield* ctx.continueAsNew('ends');
  const answer = yield* ctx.waitForEvent<string>('answer');
  if (input === 'fails') throw new RangeError(answer);
  return `${input} ${answer}`;
});
/** Hands a value over in every possible way. */
const parent = defineOrchestration('parent', function* (ctx, round: number) {
  if (round === 1) {
    ctx.setCustomStatus('status');
    ctx.state.set('a/"b"', 'published');
    return yield* ctx.continueAsNew(2);
  }
  if (ctx.patched('one')) yield* ctx.call(echo, 'patched');
  yield* ctx.startOrchestration('child', 'detached', 'detached');
  const children = ['again', 'fails', 'stays'].map((input) => ctx.callOrchestration(child, input, { id: input }));
  for (const id of ['again', 'fails', 'detached']) yield* ctx.raiseEvent(id, 'answer', `answer to ${id}`);
  const errors: string[] = [];
  try {
    yield* ctx.call(fail, 'no');
  } catch (error) {
    errors.push((error as { cause: Error }).cause.message);
  }
  const beaten = yield* ctx.run(
    'beat',
    async ({ heartbeat, lastHeartbeat, attempt }) => {
      if (attempt === 2) return lastHeartbeat;
      heartbeat('beat');
      throw new Error('again');
    },
    { retry: { maxAttempts: 2, initialInterval: 1 } },
  );
  const message = yield* ctx.dequeueEvent<string>('queue');
  const read = yield* ctx.readState(ctx.instanceId, 'a/"b"');
  const settled = yield* ctx.allSettled(children);
  const ends = settled.map((end) =>
    end.status === 'fulfilled' ? end.value : (end.reason.cause ?? end.reason).message,
  );
  return { errors, beaten, message, ends, read, status: ctx.getCustomStatus(), published: ctx.state.get('a/"b"') };
});

/** Exchanges the payloads of two rows. */
function exchange(address: StoreAddress, table: string, which: string): void {
  const rows = query(address, `SELECT instance_key, payload FROM ${table} WHERE ${which} ORDER BY instance_key`);
  expect(rows).toHaveLength(2);
  change(
    address,
    rows.map(
      (row, i) =>
        `UPDATE ${table} SET payload = '${rows[1 - i]?.payload}' WHERE instance_key = ${row.instance_key} AND ${which}`,
    ),
  );
}

describe.each(SHARED_STORES)('a codec on $name', (kind) => {
  let site: StoreSite;
  let open: (() => Promise<void>)[];

  beforeEach(() => {
    site = kind.create();
    open = [];
  });

  afterEach(async () => {
    for (const close of open.reverse()) await close();
    await site.remove();
  });

  async function provide(codec: Codec): Promise<{ provider: Provider; client: Client }> {
    const provider = await site.open({ codec });
    open.push(() => provider.close());
    return { provider, client: new Client(provider) };
  }

  async function deploy(codec: Codec): Promise<{ client: Client; stop(): Promise<void> }> {
    const { provider, client } = await provide(codec);
    const runtime = new Runtime(provider, { logLevel: 'silent', cachedInstancesMax: 0 });
    runtime.register(parent, child, waiting, echo, fail);
    open.push(() => runtime.shutdown(0));
    await runtime.start();
    return { client, stop: () => runtime.shutdown() };
  }

  const suspended = (client: Client, id: string) =>
    expect.poll(async () => (await client.getStatus(id))?.status).toBe('Suspended');

  it('gets the same context from every writer and reader of a value', async () => {
    const codec: Codec = { ...keyRing('key'), required: true };
    const { client, stop } = await deploy(codec);
    const handle = await client.start(parent, 1, { id: 'parent' });
    await expect.poll(async () => (await client.getStatus('stays'))?.status).toBe('Running');
    await client.enqueueEvent('parent', 'queue', 'message');
    await client.suspend('stays', 'for a moment');
    expect((await client.getStatus('stays'))?.error?.message).toBe('held by client.suspend: for a moment');
    await client.terminateInstance('stays', 'long enough');
    const output = {
      errors: ['no'],
      beaten: 'beat',
      message: 'message',
      ends: ['ends answer to again', 'answer to fails', 'cancelled: terminated: long enough'],
      read: 'published',
      status: 'status',
      published: 'published',
    };
    expect(await handle.result({ timeout: SOON })).toEqual(output);
    expect(await client.getState(handle.id, 'a/"b"')).toMatchObject({ value: 'published' });
    expect(await client.waitForOrchestration('detached', SOON)).toMatchObject({
      output: 'detached answer to detached',
    });
    const cancelled = await client.start(waiting, 'input', { id: 'cancelled' });
    await cancelled.waitForStatusChange(0, undefined, SOON);
    await cancelled.cancel('no more');
    expect((await client.waitForOrchestration('cancelled', SOON)).error?.message).toContain('no more');
    await stop();

    const { client: reader } = await provide(codec);
    const history = await reader.getHistory('parent');
    for (const from of history.map(({ eventId }) => eventId)) {
      expect((await reader.historyPage('parent', { from, limit: 2 })).events).toEqual(
        history.slice(from - 1, from + 1),
      );
    }
    expect((await reader.listInstances().page()).items).toHaveLength(6);
    const exported = await Promise.all([1, 2].map((execution) => reader.exportHistory('parent', execution)));
    expect(exported[1]?.events[0]?.meta?.customStatus).toBe('"status"');
    expect(replay(exported, parent, { codec }).executions.map(({ outcome }) => outcome)).toEqual([
      'continuedAsNew',
      'completed',
    ]);
  });

  it('finds texts that were moved, and nothing is lost', async () => {
    const codec = keyRing('key');
    const first = await deploy(codec);
    for (const id of ['a', 'b'])
      await (await first.client.start(waiting, `input of ${id}`, { id })).waitForStatusChange(0, undefined, SOON);
    await first.stop();
    const swap = () => exchange(site.address, 'history', 'event_id = 1');
    swap();
    const { client: sender } = await provide(codec);
    for (const id of ['a', 'b']) await sender.raiseEvent(id, 'go', `event of ${id}`);

    const second = await deploy(codec);
    for (const id of ['a', 'b']) {
      await suspended(second.client, id);
      expect((await second.client.getStatus(id))?.error).toMatchObject({
        code: 'PAYLOAD',
        path: 'input',
        message: expect.stringContaining("the codec's decode threw"),
      });
      expect(await rejection(second.client.getHistory(id))).toBeInstanceOf(PayloadError);
    }
    await second.stop();
    swap();
    const third = await deploy(codec);
    for (const id of ['a', 'b']) {
      await third.client.resume(id);
      expect((await third.client.waitForOrchestration(id, SOON)).output).toEqual([
        `input of ${id}`,
        `event of ${id} back`,
      ]);
    }
  });

  it.each([
    ['a message of another instance', (address: StoreAddress) => exchange(address, 'messages', 'true')],
    [
      'a value of another kind',
      (address: StoreAddress) =>
        change(address, [
          'UPDATE messages SET payload = (SELECT h.payload FROM history h ' +
            'WHERE h.event_id = 1 AND h.instance_key = messages.instance_key)',
        ]),
    ],
    ['plain text', (address: StoreAddress) => change(address, [`UPDATE messages SET payload = '"forged"'`])],
  ])('finds %s in the place of an event', async (_, forge) => {
    const codec: Codec = { ...keyRing('key'), required: true };
    const first = await deploy(codec);
    for (const id of ['a', 'b'])
      await (await first.client.start(waiting, `input of ${id}`, { id })).waitForStatusChange(0, undefined, SOON);
    await first.stop();
    const { client: sender } = await provide(codec);
    for (const id of ['a', 'b']) await sender.raiseEvent(id, 'go', `event of ${id}`);
    forge(site.address);
    const second = await deploy(codec);
    for (const id of ['a', 'b']) {
      await suspended(second.client, id);
      expect((await second.client.getStatus(id))?.error).toMatchObject({ code: 'PAYLOAD', path: 'value' });
    }
  });

  it('reads plain text, unless the codec requires encoded values', async () => {
    const { client } = await provide(keyRing('key'));
    await client.startOrchestration('a', 'nobody', 'secret');
    change(site.address, [`UPDATE history SET payload = '"forged"'`]);
    expect((await client.getHistory('a'))[0]?.payload).toBe('forged');
    const { client: strict } = await provide({ ...keyRing('key'), required: true });
    const error = await rejection(strict.getHistory('a'));
    expect(error).toBeInstanceOf(PayloadError);
    expect((error as Error).message).toBe(
      'payload of event 1 cannot be read: it is stored as plain text, but the codec requires encoded values',
    );
    change(site.address, [`UPDATE history SET payload = '${UNSTORABLE.replaceAll("'", "''")}'`]);
    expect(await rejection(strict.getHistory('a'))).toMatchObject({
      code: 'PAYLOAD',
      message: expect.stringContaining('it is stored as plain text'),
    });
  });

  it('names a key, which is stored beside the text and handed back', async () => {
    const { client } = await provide(keyRing('old'));
    await client.startOrchestration('a', 'nobody', 'one');
    const { client: later } = await provide(keyRing('new', 'old'));
    await later.startOrchestration('b', 'nobody', 'two');
    expect(
      query(site.address, 'SELECT payload FROM history ORDER BY instance_key').map(
        ({ payload }) => String(payload).split(' ')[0],
      ),
    ).toEqual(['##old', '##new']);
    for (const [id, value] of [
      ['a', 'one'],
      ['b', 'two'],
    ] as const)
      expect((await later.getHistory(id))[0]?.payload).toBe(value);
    expect(await rejection(client.getHistory('b'))).toMatchObject({
      code: 'PAYLOAD',
      cause: new Error("there is no key 'new'"),
    });
  });
});

it('a codec gets the same context after a crash at any event', async () => {
  const sub = defineOrchestration('sub', function* (ctx, input: string) {
    return yield* ctx.call(echo, input);
  });
  const order = defineOrchestration('order', function* (ctx, input: { round: number }) {
    ctx.setCustomStatus(input);
    if (input.round === 1) return yield* ctx.continueAsNew({ round: 2 });
    const [echoed, ended] = yield* ctx.all([ctx.call(echo, 'a'), ctx.callOrchestration(sub, 'b', { id: 'sub' })]);
    return [echoed, ended, yield* ctx.waitForEvent<string>('go'), ctx.getCustomStatus()];
  });
  const { result, crashes } = await crashEverywhere(
    async (test) => {
      test.register(order, sub, echo);
      const handle = await test.start(order, { round: 1 }, { id: 'i' });
      await handle.raiseEvent('go', 'event');
      return handle.result();
    },
    { codec: { ...keyRing('key'), required: true } },
  );
  expect(result).toEqual(['a back', 'b back', 'event', { round: 2 }]);
  expect(crashes).toBeGreaterThan(10);
});

it('a wait of a test runtime rejects if the store refuses plain text', async () => {
  await using test = await TestRuntime.create({ codec: { ...keyRing('key'), required: true }, patience: '10ms' });
  test.register(waiting, echo);
  const handle = await test.start(waiting, 'input', { id: 'i' });
  expect((await rejection<Error>(handle.result())).message).toContain("event 'go'");
  expect(await test.client.recode()).toMatchObject({ keyId: 'key', recoded: 0 });
});

describe('the texts of a codec', () => {
  const context = { instance: 'i', execution: 2, place: 'input', aad: '["i",2,"input"]' };
  const place = (keyId: string | null = null) =>
    ({ ...context, keyId, withKey: (id: string | null) => place(id) }) as never;

  it('are in the format of a codec that names no key, as ever', () => {
    const seen: (CodecContext | DecodeContext)[] = [];
    const codec: Codec = {
      encode: (text, about) => (seen.push(about), `<${text}>`),
      decode: (text, about) => (seen.push(about), text.slice(1, -1)),
    };
    const texts = new StoredTexts(codec);
    expect(texts.write('1', 'input', place())).toBe('#<1>');
    expect(texts.read('#<1>', 'input', place())).toBe('1');
    expect(seen).toMatchObject([context, { ...context, keyId: null }]);
  });

  it('name keys that are readable', () => {
    const write = (keyId: unknown) =>
      new StoredTexts({ encode: (text) => ({ text, keyId: keyId as string }), decode: (text) => text }).write(
        '1',
        'input',
        place(),
      );
    expect(write('arn:aws:kms:eu-1:1:key/a')).toBe('##arn:aws:kms:eu-1:1:key/a 1');
    for (const keyId of ['', 'a b', 'é', 'a\n', 'a'.repeat(257), 1, undefined]) {
      expect(() => write(keyId)).toThrow(
        "input cannot be stored: the keyId that the codec's encode returned is not " +
          '1 to 256 printable ASCII characters without spaces',
      );
    }
  });

  it('are read unchanged if they only look like texts with a key', () => {
    const texts = new StoredTexts({ encode: (text) => text, decode: (text) => text });
    for (const text of ['#', '#key', '#é 1', '# 1']) expect(texts.read(`#${text}`, 'input', place())).toBe(text);
  });

  it('keep an error that could not be encoded readable where plain text is refused', () => {
    const codec: KeyRing = {
      ...keyRing('key'),
      required: true,
      encode: () => {
        throw new Error('no');
      },
    };
    const texts = new StoredTexts(codec);
    const text = texts.writeError('{"name":"Error","message":"secret"}', Place.end('i', 'error'));
    expect(text).not.toContain('secret');
    for (const at of [Place.end('i', 'error'), Place.activity('i', 1, 2, 'error')]) {
      expect(texts.read(text, 'error', at)).toBe(text);
      expect(() => texts.read(text.replace('failed', 'faked'), 'error', at)).toThrow('plain text');
    }
  });

  // The text of this error is the same everywhere, so any party that can write to the store knows it. If it were
  // accepted in other places, it could be given to an orchestration as its input.
  it.each([
    Place.input('i', 1),
    Place.end('i', 'output'),
    Place.end('i', 'termination'),
    Place.ofInstance('i', 'status'),
    Place.ofState('i', 'error'),
    Place.mail('i', { kind: 'event', name: 'error' }),
    Place.mail('i', { kind: 'queue', name: 'activity:1:error' }),
    Place.activity('i', 1, 2, 'output'),
  ])('do not take the text of such an error where none is to be: $place', async (at) => {
    const codec: Codec = { ...keyRing('key'), required: true };
    expect(() => new StoredTexts(codec).read(UNSTORABLE, 'value', at)).toThrow(
      'value cannot be read: it is stored as plain text',
    );
    const error = await rejection<Error>(
      new AsyncCodecTexts({ ...codec, async: true }).decoded(UNSTORABLE, 'value', at),
    );
    expect(error.message).toContain('value cannot be read: it is stored as plain text');
    const ofError = Place.end('i', 'error');
    expect(await new AsyncCodecTexts({ ...codec, async: true }).decoded(UNSTORABLE, 'error', ofError)).toBe(UNSTORABLE);
  });
});

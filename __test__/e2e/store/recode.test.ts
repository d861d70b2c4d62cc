// A store is encoded anew with another key, while workers run and although the process that does it is killed.

import { fileURLToPath } from 'node:url';
import {
  Client,
  type Codec,
  defineActivity,
  defineOrchestration,
  type OrchestrationDefinition,
  type Provider,
  Runtime,
  SqliteProvider,
} from 'perdure';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { WAYS } from '../../support/delayed-codec.ts';
import { keyRing } from '../../support/keys.mjs';
import { Process } from '../../support/process.ts';
import { SHARED_STORES, type StoreAddress, type StoreSite } from '../../support/providers.ts';
import { change, queryAll } from '../../support/rows.ts';
import { SOON } from '../../support/store.ts';

/** Every column that holds texts of values. */
const COLUMNS = [
  'payload FROM history',
  'meta FROM history',
  'payload FROM messages',
  'custom_status FROM instances',
  'report FROM instances',
  'value FROM state',
  'answer FROM asks',
  'details FROM heartbeats',
];

/** Returns the number of texts with a key, by column. */
function textsOf(address: StoreAddress, key: string): Record<string, number> {
  const answers = queryAll(
    address,
    COLUMNS.map((column) => `SELECT ${column}`),
  );
  const counts = answers.map(
    (rows) =>
      rows
        .map((row) => String(Object.values(row)[0]))
        .join()
        .split(`##${key} `).length - 1,
  );
  const found = COLUMNS.map((column, i) => [column, counts[i] ?? 0] as const);
  return Object.fromEntries(found.filter(([, count]) => count > 0));
}

const echo = defineActivity('echo', async (_, value: string) => `${value} back`);
const once = defineActivity(
  'once',
  async () => {
    throw new Error('not yet');
  },
  { retry: { maxAttempts: 2, initialInterval: '1h' } },
);
const child = defineOrchestration('child', function* (_, input: string) {
  if (input === 'fails') throw new Error(input);
  return `${input} ends`;
});
const waiting = defineOrchestration('waiting', function* (ctx, input: string) {
  ctx.setCustomStatus(`status of ${input}`);
  const first = yield* ctx.call(echo, input);
  return [first, yield* ctx.waitForEvent<string>('go')];
});
/** Passes a value through everything that is stored, and then waits. */
const everywhere = defineOrchestration('everywhere', function* (ctx, round: number) {
  ctx.setCustomStatus(`round ${round}`);
  ctx.state.set('round', round);
  ctx.state.set(`of ${round}`, 'published');
  if (round === 1) return yield* ctx.continueAsNew(2);
  const ended = yield* ctx.allSettled([
    ctx.callOrchestration(child, 'child', { id: 'child' }),
    ctx.callOrchestration(child, 'fails', { id: 'fails' }),
  ]);
  ctx.spawn(function* () {
    yield* ctx.call(once);
  });
  yield* ctx.run(
    'beat',
    async ({ heartbeat, signal }) => {
      heartbeat('beat');
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      throw new Error('aborted');
    },
    { retry: { maxAttempts: 2, initialInterval: '1h' } },
  );
  return ended;
});

const asked = defineOrchestration('asked', function* (ctx) {
  ctx.onUpdate('greet', function* (name: string) {
    if (name === '') throw new RangeError('nobody');
    return `hello ${yield* ctx.call(echo, name)}`;
  });
  yield* ctx.waitForEvent('end');
});

const SITES = SHARED_STORES.flatMap((kind) => WAYS.map((way) => ({ ...way, name: kind.name, kind })));

describe.each(SITES)('the texts of $name behind a codec that answers $way', ({ kind, of }) => {
  let site: StoreSite;
  let open: (() => Promise<void>)[];

  beforeEach(() => {
    site = kind.create();
    open = [];
  });

  afterEach(async () => {
    await Promise.all([...Process.running].map((process) => process.kill()));
    for (const close of open.reverse()) await close();
    await site.remove();
  });

  async function provide(codec?: Codec): Promise<{ provider: Provider; client: Client }> {
    const provider = await site.open(codec === undefined ? {} : { codec: of(codec) });
    open.push(() => provider.close());
    return { provider, client: new Client(provider) };
  }

  async function deploy(
    codec: Codec,
    ...definitions: readonly OrchestrationDefinition<any, any>[]
  ): Promise<{ client: Client; stop(): Promise<void> }> {
    const { provider, client } = await provide(codec);
    const runtime = new Runtime(provider, { logLevel: 'silent' });
    runtime.register(echo, once, ...definitions);
    open.push(() => runtime.shutdown(0));
    await runtime.start();
    return { client, stop: () => runtime.shutdown(0) };
  }

  function recoder(
    ...keys: string[]
  ): Process<{ type: 'progress'; rows: number } | { type: 'done'; recoded: number; unreadable: number }, object> {
    return new Process('recoder', [
      process.execPath,
      fileURLToPath(new URL('../../support/recoder.mjs', import.meta.url)),
      JSON.stringify({ store: site.address, keys }),
    ]);
  }

  it('are those of updates and their answers, too', async () => {
    const codec = { ...keyRing('old'), required: true };
    const first = await deploy(codec, asked);
    const { id } = await first.client.start(asked, undefined, { id: 'asked' });
    const call = async (client: Client, name: string, updateId: string): Promise<unknown> =>
      client.update(id, 'greet', name, { updateId }).catch((error: Error) => error);
    const greeted = 'hello ann back';
    expect(await call(first.client, 'ann', 'a')).toBe(greeted);
    expect(await call(first.client, '', 'b')).toMatchObject({ name: 'RangeError', message: 'nobody' });
    await first.stop();
    const waits = call((await provide(codec)).client, 'bob', 'c');
    await expect.poll(() => textsOf(site.address, 'old')['payload FROM messages']).toBe(1);
    expect(textsOf(site.address, 'old')).toMatchObject({ 'answer FROM asks': 2 });

    const both = { ...keyRing('new', 'old'), required: true };
    const { client } = await provide(both);
    expect(await client.recode()).toMatchObject({ unreadable: 0 });
    expect(textsOf(site.address, 'old')).toEqual({});
    expect(textsOf(site.address, 'new')).toMatchObject({ 'answer FROM asks': 2, 'payload FROM messages': 1 });
    const second = await deploy(both, asked);
    expect(await call(second.client, 'bob', 'c')).toBe('hello bob back');
    expect(await call(second.client, 'nobody', 'a')).toBe(greeted);
    expect(await call(second.client, 'nobody', 'b')).toMatchObject({ name: 'RangeError', message: 'nobody' });
    // The other client lacks the new key.
    expect(await waits).toMatchObject({ code: 'PAYLOAD' });
  });

  it('are encoded anew in every column, once', async () => {
    const first = await deploy(keyRing('old'), everywhere, child, waiting, asked);
    await first.client.start(everywhere, 1, { id: 'e' });
    await (await first.client.start(asked, undefined, { id: 'asked' })).update('greet', 'ann');
    for (const id of ['w', 'held', 'over'])
      await (await first.client.start(waiting, id, { id })).waitForStatusChange(0, undefined, SOON);
    await first.client.raiseEvent('over', 'go', 'event');
    await first.client.waitForOrchestration('over', SOON);
    await first.client.suspend('held', 'for a reason');
    await expect.poll(() => textsOf(site.address, 'old')['details FROM heartbeats']).toBe(1);
    await first.stop();
    await first.client.raiseEvent('w', 'go', 'unread');
    await first.client.deleteInstance('over');

    const { client } = await provide(keyRing('new', 'old'));
    const before = textsOf(site.address, 'old');
    expect(Object.keys(before)).toEqual(COLUMNS);
    const all = Object.values(before).reduce((sum, count) => sum + count);
    expect(await client.recode({ dryRun: true })).toEqual({
      keyId: 'new',
      recoded: 0,
      found: { old: all },
      unreadable: 0,
      failures: [],
    });
    expect(textsOf(site.address, 'new')).toEqual({});
    expect(await client.recode()).toEqual({ keyId: 'new', recoded: all, found: {}, unreadable: 0, failures: [] });
    expect(textsOf(site.address, 'old')).toEqual({});
    expect(textsOf(site.address, 'new')).toEqual(before);
    expect(await client.recode()).toMatchObject({ recoded: 0 });

    const second = await deploy({ ...keyRing('new'), required: true }, everywhere, child, waiting, asked);
    expect((await second.client.waitForOrchestration('w', SOON)).output).toEqual(['w back', 'unread']);
    expect((await second.client.getStatus('held'))?.error?.message).toBe('held by client.suspend: for a reason');
    await second.client.resume('held');
    await second.client.raiseEvent('held', 'go', 'event');
    expect((await second.client.waitForOrchestration('held', SOON)).output).toEqual(['held back', 'event']);
    expect((await second.client.getHistory('e', 1))[0]?.payload).toBe(1);
    expect((await second.client.getHistory('e')).map(({ kind: event }) => event)).toContain('ChildCompleted');
    expect(await second.client.getStatus('e')).toMatchObject({ customStatus: 'round 2' });
  });

  it('are encoded if they are plain, unless the codec requires encoded values', async () => {
    const { client } = await provide();
    await client.startOrchestration('a', 'nobody', 'secret');
    const { client: strict } = await provide({ ...keyRing('new'), required: true });
    const refused = await strict.recode();
    expect(refused).toMatchObject({
      recoded: 0,
      found: { plain: 1 },
      unreadable: 1,
      failures: [{ instance: 'a', execution: 1, place: 'input' }],
    });
    expect(refused.failures[0]?.error.message).toContain('plain text');
    const { client: coded } = await provide(keyRing('new'));
    expect(await coded.recode()).toMatchObject({ recoded: 1, unreadable: 0 });
    expect((await strict.getHistory('a'))[0]?.payload).toBe('secret');
  });

  it('stay and are named if they are misplaced', async () => {
    const { client: old } = await provide(keyRing('old'));
    for (const id of ['a', 'b', 'c']) await old.startOrchestration(id, 'nobody', id);
    change(site.address, [
      `UPDATE history SET payload = (SELECT h.payload FROM history h
         JOIN instances i ON i.key = h.instance_key WHERE i.id = 'a')
       WHERE instance_key = (SELECT key FROM instances WHERE id = 'b')`,
    ]);
    const { client } = await provide(keyRing('new', 'old'));
    expect(await client.recode()).toMatchObject({
      recoded: 2,
      found: { old: 1 },
      unreadable: 1,
      failures: [{ instance: 'b', execution: 1, place: 'input', error: { code: 'PAYLOAD' } }],
    });
    expect(textsOf(site.address, 'old')).toEqual({ 'payload FROM history': 1 });
  });

  it('are encoded anew while workers run, also when the recoding process is killed', async () => {
    const INSTANCES = 150;
    const first = await deploy(keyRing('old'), waiting);
    const ids = Array.from({ length: INSTANCES }, (_, i) => `i${i}`);
    await Promise.all(ids.map((id) => first.client.start(waiting, id, { id })));
    await Promise.all(ids.map((id) => expect.poll(async () => (await first.client.getHistory(id)).length).toBe(3)));
    await first.stop();

    const second = await deploy(keyRing('new', 'old'), waiting);
    const killed = recoder('new', 'old');
    // By then statuses have the new key, and some histories do not.
    await killed.said('progress', 3);
    const half = ids.slice(0, INSTANCES / 2);
    const raised = Promise.all(half.map((id) => second.client.raiseEvent(id, 'go', 'event')));
    await killed.kill();
    await raised;
    const again = recoder('new', 'old');
    await Promise.all(ids.slice(INSTANCES / 2).map((id) => second.client.raiseEvent(id, 'go', 'event')));
    await again.said('done');
    expect(again.all('done')).toMatchObject([{ unreadable: 0 }]);
    for (const id of ids)
      expect((await second.client.waitForOrchestration(id, SOON)).output).toEqual([`${id} back`, 'event']);
    await second.stop();

    // Workers may have stored values from memory with the old key after that.
    await recoder('new', 'old').said('done');
    expect(textsOf(site.address, 'old')).toEqual({});
    const { client } = await provide({ ...keyRing('new'), required: true });
    for (const id of ids) expect((await client.getHistory(id)).at(-1)?.payload).toEqual([`${id} back`, 'event']);
  });

  it('keep values that another writer has changed meanwhile', async () => {
    const { client: old } = await provide(keyRing('old'));
    await old.startOrchestration('a', 'nobody', 'first');
    let walks = 0;
    const ring = keyRing('new', 'old');
    const codec: Codec = {
      ...ring,
      encode(text, context) {
        // Changes the row between its read and its write.
        if (context.place === 'input' && (walks += 1) === 1)
          change(site.address, [`UPDATE history SET payload = '"second"'`]);
        return ring.encode(text, context);
      },
    };
    const { client } = await provide(codec);
    expect(await client.recode()).toMatchObject({ recoded: 1, found: {} });
    expect((await client.getHistory('a'))[0]?.payload).toBe('second');
  });
});

describe('client.recode', () => {
  const failing = async (codec: Codec | undefined, options?: object): Promise<unknown> => {
    await using provider = await SqliteProvider.inMemory(codec === undefined ? {} : { codec });
    const client = new Client(provider);
    await client.startOrchestration('a', 'nobody', 1);
    return await rejection(client.recode(options));
  };

  it('wants a codec that names its key, one and the same', async () => {
    const plain = { encode: (text: string) => text, decode: (text: string) => text };
    for (const codec of [undefined, plain])
      expect(String(await failing(codec))).toContain(
        "TypeError: client.recode: the provider's codec must name its key",
      );
    let n = 0;
    const changing: Codec = { encode: (text) => ({ text, keyId: `k${(n += 1)}` }), decode: (text) => text };
    expect(String(await failing(changing))).toContain('it must write with one key');
  });

  it('is ended by a signal', async () => {
    const reason = new Error('enough');
    expect(await failing(keyRing('key'), { signal: AbortSignal.abort(reason) })).toBe(reason);
    expect(String(await failing(keyRing('key'), { dryrun: true }))).toContain('did you mean `dryRun`?');
  });
});

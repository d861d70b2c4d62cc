// A codec that answers later, and the failures on the way to it.

import { webcrypto } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import {
  type AsyncCodec,
  Client,
  type Codec,
  defineActivity,
  defineOrchestration,
  type OrchestrationDefinition,
  PayloadError,
  type Provider,
  RetryAfterError,
  Runtime,
} from 'perdure';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { delayed } from '../../support/delayed-codec.ts';
import { keyRing } from '../../support/keys.mjs';
import { SHARED_STORES, type StoreSite } from '../../support/providers.ts';
import { change } from '../../support/rows.ts';
import { SOON } from '../../support/store.ts';

const { subtle } = webcrypto;

/** AES-256-GCM as in browsers, where every call is asynchronous. */
async function webCodec(): Promise<AsyncCodec> {
  const key = await subtle.generateKey({ name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']);
  const algorithm = (iv: Buffer, aad: string): webcrypto.AesGcmParams => ({
    name: 'AES-GCM',
    iv,
    additionalData: Buffer.from(aad),
  });
  return {
    async: true,
    required: true,
    async encode(text, { aad }) {
      const iv = Buffer.from(webcrypto.getRandomValues(new Uint8Array(12)));
      const sealed = await subtle.encrypt(algorithm(iv, aad), key, Buffer.from(text));
      return { keyId: 'web', text: Buffer.concat([iv, Buffer.from(sealed)]).toString('base64') };
    },
    async decode(text, { aad }) {
      const bytes = Buffer.from(text, 'base64');
      return Buffer.from(
        await subtle.decrypt(algorithm(bytes.subarray(0, 12), aad), key, bytes.subarray(12)),
      ).toString();
    },
  };
}

const echo = defineActivity('echo', async (_, value: string) => `${value} back`);
const child = defineOrchestration('child', function* (ctx, input: string) {
  return `${input} and ${yield* ctx.waitForEvent<string>('to child')}`;
});
const family = defineOrchestration('family', function* (ctx, input: { round: number; text: string }) {
  ctx.setCustomStatus(input);
  if (input.round < 3)
    return yield* ctx.continueAsNew({ round: input.round + 1, text: yield* ctx.call(echo, input.text) });
  const id = `child of ${ctx.instanceId}`;
  const born = ctx.callOrchestration(child, input.text, { id });
  yield* ctx.raiseEvent(id, 'to child', 'an event');
  return [yield* born, yield* ctx.waitForEvent<string>('go')];
});
const waiting = defineOrchestration('waiting', function* (ctx, input: string) {
  ctx.setCustomStatus(input);
  return yield* ctx.call(echo, yield* ctx.waitForEvent<string>('go'));
});

describe.each(SHARED_STORES)('a codec that answers later, in front of $name', (kind) => {
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

  async function provide(codec: AsyncCodec | Codec): Promise<{ provider: Provider; client: Client }> {
    const provider = await site.open({ codec });
    open.push(() => provider.close());
    return { provider, client: new Client(provider) };
  }

  async function deploy(
    codec: AsyncCodec | Codec,
    ...definitions: readonly OrchestrationDefinition<any, any>[]
  ): Promise<{ client: Client; stop(): Promise<void> }> {
    const { provider, client } = await provide(codec);
    const runtime = new Runtime(provider, { logLevel: 'silent', cachedInstancesMax: 0 });
    runtime.register(echo, ...definitions);
    open.push(() => runtime.shutdown(0));
    await runtime.start();
    return { client, stop: () => runtime.shutdown(0) };
  }

  const suspended = (client: Client, id: string): Promise<void> =>
    expect.poll(async () => (await client.getStatus(id).catch(() => null))?.status).toBe('Suspended');

  it('is WebCrypto, and knows whose each value is', async () => {
    const codec = await webCodec();
    const first = await deploy(codec, family, child);
    const ids = Array.from({ length: 40 }, (_, i) => `i${i}`);
    await Promise.all(ids.map((id) => first.client.start(family, { round: 1, text: id }, { id })));
    await first.stop();
    const second = await deploy(codec, family, child);
    await Promise.all(ids.map((id) => second.client.raiseEvent(id, 'go', `go ${id}`)));
    for (const id of ids) {
      const { output, customStatus } = await second.client.waitForOrchestration(id, SOON);
      expect(output).toEqual([`${id} back back and an event`, `go ${id}`]);
      expect(customStatus).toEqual({ round: 3, text: `${id} back back` });
    }
    const events = await second.client.getHistory('i7');
    expect(events.find(({ kind: event }) => event === 'ChildCompleted')?.payload).toBe('i7 back back and an event');
    const { items } = await second.client.listInstances({ name: 'family', limit: 100 }).page();
    expect(items.map(({ output }) => output)).toContainEqual(['i3 back back and an event', 'go i3']);
  });

  it('reads values of a synchronous codec, and the reverse', async () => {
    const ring = { ...keyRing('key'), required: true };
    const first = await deploy(ring, waiting);
    await first.client.start(waiting, 'input', { id: 'i' });
    await first.client.waitForStatusChange('i', 0, undefined, SOON);
    await first.stop();
    const second = await deploy(delayed(ring), waiting);
    await second.client.raiseEvent('i', 'go', 'event');
    expect((await second.client.waitForOrchestration('i', SOON)).output).toBe('event back');
    await second.stop();
    const { client } = await provide(ring);
    expect(await client.getStatus('i')).toMatchObject({ output: 'event back', customStatus: 'input' });
    expect((await client.getHistory('i')).map(({ payload }) => payload)).toEqual([
      'input',
      'event',
      'event',
      'event back',
      'event back',
    ]);
  });

  it('is asked again while it says that its failure may pass', async () => {
    const ring = keyRing('key');
    let failures = 0;
    const away = [
      () => Object.assign(new Error('reset'), { code: 'ECONNRESET' }),
      () => new RetryAfterError('1s'),
      () => new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'UND_ERR_SOCKET' }) }),
      () => Object.assign(new Error(), { status: 503 }),
    ];
    const flaky = <A extends unknown[], R>(call: (...args: A) => R) => {
      let calls = 0;
      return async (...args: A): Promise<R> => {
        calls += 1;
        if (calls % 2 === 1) throw away[(failures += 1) % away.length]!();
        return call(...args);
      };
    };
    const codec: AsyncCodec = { async: true, encode: flaky(ring.encode), decode: flaky(ring.decode) };
    const { client } = await deploy(codec, waiting);
    await client.start(waiting, 'input', { id: 'i' });
    await client.raiseEvent('i', 'go', 'event');
    expect((await client.waitForOrchestration('i', SOON)).output).toBe('event back');
    expect(failures).toBeGreaterThan(4);
  });

  it('tells a client that a value cannot be encoded, and nothing is stored', async () => {
    const refusing: AsyncCodec = {
      ...delayed(keyRing('key')),
      encode: async () => {
        throw new Error('no key');
      },
    };
    const { client } = await provide(refusing);
    const error = await rejection(client.startOrchestration('i', 'waiting', 'input'));
    expect(error).toBeInstanceOf(PayloadError);
    expect(error).toMatchObject({ message: "input cannot be stored: the codec's encode threw", path: 'input' });
    expect(await client.getStatus('i')).toBeNull();
    const wrong: AsyncCodec = { ...delayed(keyRing('key')), encode: async () => 'a\0' };
    await expect((await provide(wrong)).client.startOrchestration('i', 'waiting', 'input')).rejects.toThrow(
      'did not return',
    );
  });

  it('suspends the instance whose value it cannot encode, and no other', async () => {
    const ring = keyRing('key');
    let isBroken = true;
    const codec = delayed({
      ...ring,
      encode(text, context) {
        if (isBroken && context.place.endsWith(':output') && text.includes('bad')) throw new Error('cannot');
        return ring.encode(text, context);
      },
    });
    const { client } = await deploy(codec, waiting);
    const ids = ['bad', 'good 1', 'good 2', 'good 3'];
    await Promise.all(ids.map((id) => client.start(waiting, id, { id })));
    await Promise.all(ids.map((id) => client.raiseEvent(id, 'go', id)));
    for (const id of ids.slice(1)) expect((await client.waitForOrchestration(id, SOON)).output).toBe(`${id} back`);
    await suspended(client, 'bad');
    isBroken = false;
    await client.resume('bad');
    expect((await client.waitForOrchestration('bad', SOON)).output).toBe('bad back');
  });

  it('suspends an instance that contains a text of another place, and loses nothing', async () => {
    const codec = await webCodec();
    const first = await deploy(codec, waiting);
    for (const id of ['a', 'b'])
      await (await first.client.start(waiting, id, { id })).waitForStatusChange(0, undefined, SOON);
    await first.stop();
    const { client } = await provide(codec);
    await client.raiseEvent('a', 'go', 'for a');
    await client.raiseEvent('b', 'go', 'for b');
    const ofInstance = (id: string): string => `instance_key = (SELECT key FROM instances WHERE id = '${id}')`;
    change(site.address, [
      `UPDATE messages SET payload = (SELECT payload FROM messages WHERE ${ofInstance('a')}) WHERE ${ofInstance('b')}`,
    ]);
    const second = await deploy(codec, waiting);
    expect((await second.client.waitForOrchestration('a', SOON)).output).toBe('for a back');
    await suspended(client, 'b');
    const { error } = (await client.getStatus('b')) ?? {};
    expect(error).toMatchObject({
      code: 'PAYLOAD',
      message: expect.stringContaining("cannot be read: the codec's decode threw"),
    });
    // The instance can be resumed any number of times. The stored text is unchanged.
    await client.resume('b');
    await suspended(client, 'b');
    expect((await client.getHistory('b')).map(({ kind: event }) => event)).toEqual(['ExecutionStarted']);
  });

  it('refuses plain text where it requires another, and leaves it as it is', async () => {
    const { client: plain } = await provide({ encode: (text) => text, decode: (text) => text });
    const ring = keyRing('key');
    const { client: old } = await (async () => {
      const provider = await site.open();
      open.push(() => provider.close());
      return { client: new Client(provider) };
    })();
    await old.start(waiting, 'plain', { id: 'i' });
    const strict = await deploy(delayed({ ...ring, required: true }), waiting);
    await suspended(old, 'i');
    const error = await rejection(strict.client.getHistory('i'));
    expect(error).toMatchObject({ code: 'PAYLOAD', message: expect.stringContaining('it is stored as plain text') });
    await strict.stop();
    expect((await old.getHistory('i'))[0]?.payload).toBe('plain');
    expect((await plain.getHistory('i'))[0]?.payload).toBe('plain');
    const lax = await deploy(delayed(ring), waiting);
    await lax.client.resume('i');
    await lax.client.raiseEvent('i', 'go', 'event');
    expect((await lax.client.waitForOrchestration('i', SOON)).output).toBe('event back');
  });

  it('serves worker threads, which need none of their own', async () => {
    const { provider, client } = await provide(delayed({ ...keyRing('key'), required: true }));
    const modules = [fileURLToPath(new URL('../../support/uppercase.mjs', import.meta.url))];
    const runtime = new Runtime(provider, { threads: 2, modules, logLevel: 'silent', cachedInstancesMax: 0 });
    open.push(() => runtime.shutdown(0));
    await runtime.start();
    const ids = Array.from({ length: 20 }, (_, i) => `t${i}`);
    await Promise.all(ids.map((id) => client.startOrchestration(id, 'shout', id)));
    for (const id of ids) expect((await client.waitForOrchestration(id, SOON)).output).toBe(id.toUpperCase());
  });
});

describe('a codec that answers later', () => {
  it('is not taken where nothing can wait for it', async () => {
    const { TestRuntime } = await import('perdure/testing');
    const codec = delayed(keyRing('key')) as never;
    await expect(TestRuntime.create({ codec })).rejects.toThrow(/codec must be synchronous/);
  });
});

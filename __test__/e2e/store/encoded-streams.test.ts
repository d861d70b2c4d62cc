// Streams behind a codec, which encodes each entry by itself.

import { Client, type Codec, defineActivity, defineOrchestration, type Provider, Runtime } from 'perdure';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { WAYS } from '../../support/delayed-codec.ts';
import { keyRing } from '../../support/keys.mjs';
import { SHARED_STORES, type StoreSite } from '../../support/providers.ts';
import { query } from '../../support/rows.ts';
import { SOON } from '../../support/store.ts';

const SITES = SHARED_STORES.flatMap((kind) => WAYS.map((way) => ({ ...way, name: kind.name, kind })));

const writes = defineActivity('writes', async (ctx) => {
  for (const n of [1, 2, 3]) ctx.stream('s').write({ secret: `activity ${n}` });
  ctx.stream('s').write(undefined);
});
const agent = defineOrchestration('agent', function* (ctx) {
  ctx.stream('s').write(undefined);
  ctx.stream('s').write('secret of the orchestration');
  yield* ctx.call(writes);
  return 'done';
});
const VALUES = [
  undefined,
  'secret of the orchestration',
  ...[1, 2, 3].map((n) => ({ secret: `activity ${n}` })),
  undefined,
];

describe.each(SITES)('the streams of $name behind a codec that answers $way', ({ kind, of }) => {
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
    const provider = await site.open({ codec: of(codec) as Codec });
    open.push(() => provider.close());
    return { provider, client: new Client(provider) };
  }

  async function run(codec: Codec): Promise<{ client: Client; error: any }> {
    const { provider, client } = await provide(codec);
    const runtime = new Runtime(provider, { logLevel: 'silent' });
    runtime.on('error', () => undefined);
    runtime.register(writes, agent);
    open.push(() => runtime.shutdown(0));
    await runtime.start();
    // The start fails with its first turn, if that cannot be stored.
    const started = client.start(agent, undefined, { id: 'a' });
    const error = await started
      .then(() => client.waitForOrchestration('a', SOON))
      .then(
        (end) => end.error,
        (error) => error,
      );
    return { client, error };
  }

  const read = async (client: Client) => {
    const values: unknown[] = [];
    for await (const { value } of client.readStream('a', 's', { live: false })) values.push(value);
    return values;
  };
  const stored = () => query(site.address, 'SELECT entries FROM stream_chunks').map(({ entries }) => String(entries));

  it('are read by those who have the key, and encoded anew with another one', async () => {
    const old: Codec = { ...keyRing('old'), required: true };
    const { client } = await run(old);
    expect(await read(client)).toEqual(VALUES);
    const entries = stored().flatMap((text) => text.split('\n'));
    expect(entries.filter((text) => text !== '')).toHaveLength(4);
    for (const text of entries) expect(text).toMatch(/^(##old [A-Za-z0-9+/=]+)?$/);
    const other = await provide({ ...keyRing('another'), required: true });
    expect((await rejection(read(other.client))).message).toContain("entry of stream 's'");
    const anew = await provide({ ...keyRing('new', 'old'), required: true });
    await anew.client.recode();
    expect(stored().join('\n')).not.toContain('##old');
    expect(await read(anew.client)).toEqual(VALUES);
    expect(await read((await provide(keyRing('new'))).client)).toEqual(VALUES);
  });

  it('refuse a text of the codec that has a line feed', async () => {
    const plain: Codec = { encode: (text) => text, decode: (text) => text };
    const broken: Codec = { ...plain, encode: (text, { place }) => (place.startsWith('stream:') ? `${text}\n` : text) };
    const { error } = await run(broken);
    expect(`${error} ${error.cause ?? ''}`).toContain('line feed');
    expect(stored()).toEqual([]);
  });
});

// Streams behind a codec, which encodes each entry by itself.

import { Client, type Codec, defineActivity, defineOrchestration } from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { WAYS } from '../../support/delayed-codec.ts';
import { keyRing } from '../../support/keys.mjs';
import { SHARED_STORES } from '../../support/providers.ts';
import { query } from '../../support/rows.ts';
import { SOON, useStore } from '../../support/store.ts';

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
  const store = useStore(kind);

  const clientWith = async (codec: Codec): Promise<Client> =>
    new Client(await store.open({ codec: of(codec) as Codec }));

  /** Runs an agent behind a codec. */
  async function run(codec: Codec): Promise<{ id: string; client: Client; error: any }> {
    const provider = await store.open({ codec: of(codec) as Codec });
    const client = new Client(provider);
    await store.start((runtime) => runtime.register(writes, agent), {}, provider);
    const id = store.id();
    // The start fails with its first turn, or the instance is suspended, if that turn cannot be stored.
    const ended = client.start(agent, undefined, { id }).then((handle) => handle.result({ timeout: SOON }));
    const error = await ended.then(
      () => undefined,
      (error) => error,
    );
    return { id, client, error };
  }

  const read = async (client: Client, id: string) => {
    const values: unknown[] = [];
    for await (const { value } of client.readStream(id, 's', { live: false })) values.push(value);
    return values;
  };
  const stored = (id: string) =>
    query(
      store.address,
      `SELECT entries FROM stream_chunks WHERE instance_key IN (SELECT key FROM instances WHERE id = '${id}')`,
    ).map(({ entries }) => String(entries));

  it('are read by those who have the key, and encoded anew with another one', async () => {
    const old: Codec = { ...keyRing('old'), required: true };
    const { id, client } = await run(old);
    expect(await read(client, id)).toEqual(VALUES);
    const entries = stored(id).flatMap((text) => text.split('\n'));
    expect(entries.filter((text) => text !== '')).toHaveLength(4);
    for (const text of entries) expect(text).toMatch(/^(##old [A-Za-z0-9+/=]+)?$/);
    const other = await clientWith({ ...keyRing('another'), required: true });
    expect((await rejection(read(other, id))).message).toContain("entry of stream 's'");
    const anew = await clientWith({ ...keyRing('new', 'old'), required: true });
    await anew.recode();
    expect(stored(id).join('\n')).not.toContain('##old');
    expect(await read(anew, id)).toEqual(VALUES);
    expect(await read(await clientWith(keyRing('new')), id)).toEqual(VALUES);
  });

  it('refuse a text of the codec that has a line feed', async () => {
    const plain: Codec = { encode: (text) => text, decode: (text) => text };
    const broken: Codec = { ...plain, encode: (text, { place }) => (place.startsWith('stream:') ? `${text}\n` : text) };
    const { id, error } = await run(broken);
    if (error.code === 'SUSPENDED') await store.suspended(id);
    store.errors.splice(0);
    expect(`${error} ${error.cause ?? ''}`).toContain('line feed');
    expect(stored(id)).toEqual([]);
  });
});

// A process that encodes a store anew. It reports its progress and its result.

import { Client, PostgresProvider, SqliteProvider } from 'perdure';

import { keyRing } from './keys.mjs';

const { store, keys } = JSON.parse(process.argv[2]);
const codec = keyRing(...keys);
const provider =
  store.kind === 'sqlite'
    ? await SqliteProvider.open(store.path, { codec })
    : await PostgresProvider.connect(store.url, { schema: store.schema, codec });
const { keyId, recoded, unreadable } = await new Client(provider).recode({
  onProgress: (progress) => process.send({ type: 'progress', ...progress }),
});
process.send({ type: 'done', keyId, recoded, unreadable });
await provider.close();
process.disconnect();

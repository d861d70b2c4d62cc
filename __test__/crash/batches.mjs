// A sender of inputs of batches: see batches.test.ts. It starts inputs, runs batches, and dies now and then.

import { Client, defineOrchestration, PostgresProvider, Runtime, SqliteProvider } from 'perdure';

import { seeded } from '../support/worker-parts.mjs';

const { address, from, to, seed } = JSON.parse(process.argv[2]);
const random = seeded(seed);

const collect = defineOrchestration(
  'collect',
  function* (ctx, numbers) {
    return yield* ctx.run('pass on', () => numbers);
  },
  { batch: { max: 7, within: '50ms', key: (number) => `${number % 3}` } },
);

const provider =
  address.kind === 'sqlite'
    ? await SqliteProvider.open(address.path)
    : await PostgresProvider.connect(address.url, { schema: address.schema, poolSize: 3 });
const runtime = new Runtime(provider, { logLevel: 'silent' });
runtime.register(collect);
await runtime.start();
const client = new Client(provider);
const tell = (message) => new Promise((resolve) => process.send(message, resolve));

for (let number = from; number < to; ) {
  const end = Math.min(to, number + 1 + Math.floor(random() * 40));
  await tell({ type: 'at', number: end });
  // The kill comes before, while or after these starts are written.
  if (random() < 0.05) setTimeout(() => process.kill(process.pid, 'SIGKILL'), random() * 10);
  const numbers = Array.from({ length: end - number }, (_, n) => number + n);
  const outcomes = await client.startMany(numbers.map((input) => ({ definition: collect, input })));
  const failed = outcomes.find(({ error }) => error !== undefined);
  if (failed !== undefined) throw failed.error;
  await tell({ type: 'started', numbers });
  number = end;
}
await runtime.shutdown();
await provider.close();
await tell({ type: 'done' });
process.disconnect();

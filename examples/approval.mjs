// An order that needs the approval of a person, and expires without it.
//
//   node examples/approval.mjs [--symbol IBM] [--shares 500] [--within 10m] [--folder .perdure/approval]
//
// The order buys shares at the last price in the data. A large order waits for an answer: type yes or no. Kill the
// program while it waits, and start it again in an hour: it asks again, or reports that the order has expired.

import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { Client, defineActivity, defineOrchestration, NonRetryableError, Runtime, SqliteProvider } from 'perdure';
import { Ledger } from './demo/ledger.mjs';

/** The limit of an order without approval, in dollars. */
const WITHOUT_APPROVAL = 10_000;

const { values: options } = parseArgs({
  options: {
    symbol: { type: 'string', default: 'IBM' },
    shares: { type: 'string', default: '500' },
    within: { type: 'string', default: '10m' },
    folder: { type: 'string', default: '.perdure/approval' },
  },
});
mkdirSync(options.folder, { recursive: true });
const ledger = await Ledger.open(join(options.folder, 'ledger.jsonl'));

const quote = defineActivity('quote', async (ctx, symbol) => {
  // The package exports functions that fetch the files from the network. The files are also in the package.
  const csv = await readFile(new URL('../data/stocks.csv', import.meta.resolve('vega-datasets')), 'utf8');
  const rows = csv
    .trim()
    .split('\n')
    .map((line) => line.split(','));
  const last = rows.findLast((row) => row[0] === symbol);
  if (last === undefined) throw new NonRetryableError(`there is no price of ${symbol}`);
  return Number(last[2]);
});

const book = defineActivity('book', async (ctx, entry) => {
  // After a crash this may run again. The ledger knows the key, and does not book twice.
  await ledger.write(ctx.idempotencyKey, entry);
});

const buy = defineOrchestration('buy', function* (ctx, { symbol, shares, within }) {
  const price = yield* ctx.call(quote, symbol);
  const total = Math.round(price * shares);

  if (total > WITHOUT_APPROVAL) {
    ctx.setCustomStatus({ stage: 'awaiting approval', total });
    const first = yield* ctx.race(ctx.waitForEvent('answer'), ctx.sleep(within), { cancelLosers: true });
    if (first.index === 1) return { outcome: 'expired' };
    if (!first.value.approved) return { outcome: 'refused', by: first.value.by };
  }

  ctx.setCustomStatus({ stage: 'booking', total });
  yield* ctx.call(book, { order: ctx.instanceId, symbol, shares, price, total });
  return { outcome: 'bought', total };
});

const provider = await SqliteProvider.open(join(options.folder, 'approval.db'));
const runtime = new Runtime(provider);
runtime.register(quote, book, buy);
await runtime.start();

const client = new Client(provider);
const { symbol, shares, within } = options;
const order = await client.start(
  buy,
  { symbol, shares: Number(shares), within },
  { id: `${shares}-${symbol}`, onConflict: 'return' },
);
/** The terminal, from the first question on. */
let terminal;
ask(order).catch((error) => console.error(error));

try {
  console.log(await order.result());
} catch (error) {
  console.error(`The order has failed: ${error.cause?.message ?? error.message}`);
  process.exitCode = 1;
}
terminal?.close();
await runtime.shutdown();
await provider.close();
await ledger.close();

/** Asks the person at the terminal, when the order waits for approval. */
async function ask(order) {
  let change = { customStatusVersion: 0 };
  do {
    change = await order.waitForStatusChange(change.customStatusVersion);
  } while (change !== null && change.customStatus.stage !== 'awaiting approval');
  if (change === null) return;
  console.log(`Buy ${shares} ${symbol} for $${change.customStatus.total}? (yes or no)`);
  terminal = createInterface({ input: process.stdin });
  for await (const line of terminal) {
    if (line === 'yes' || line === 'no')
      return order.raiseEvent('answer', { approved: line === 'yes', by: process.env.USER ?? 'you' });
  }
}

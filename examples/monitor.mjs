// Watches a web address for any length of time, and records each change between down and up.
//
//   node examples/monitor.mjs <url> [--every 10s] [--folder .perdure/monitor]
//
// Stop the program with Ctrl-C, or kill it. After a restart it still knows the last state. It reports an address that
// came up meanwhile, and nothing if the state is unchanged. The record is outages.jsonl in the folder.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Client, defineActivity, defineOrchestration, Runtime, SqliteProvider } from 'perdure';
import { Ledger } from './demo/ledger.mjs';

/** The number of failed polls in a row after which an address counts as down. */
const FAILURES_MAX = 3;
/** The number of polls after which the monitor continues as new. */
const POLLS_MAX = 100;

const {
  values: options,
  positionals: [url],
} = parseArgs({
  allowPositionals: true,
  options: { every: { type: 'string', default: '10s' }, folder: { type: 'string', default: '.perdure/monitor' } },
});
if (!URL.canParse(url)) {
  console.error('Usage: node examples/monitor.mjs <url> [--every 10s] [--folder .perdure/monitor]');
  process.exit(2);
}
mkdirSync(options.folder, { recursive: true });
const ledger = await Ledger.open(join(options.folder, 'outages.jsonl'));

const poll = defineActivity('poll', async (ctx, url) => {
  const late = AbortSignal.timeout(5_000);
  try {
    const response = await fetch(url, { signal: AbortSignal.any([ctx.signal, late]) });
    await response.body?.cancel();
    return { isGood: response.status < 500, why: `status ${response.status}` };
  } catch (error) {
    // An unreachable address is a result of the poll, not a failure.
    ctx.signal.throwIfAborted();
    return { isGood: false, why: late.aborted ? 'no answer within 5 s' : (error.cause?.code ?? error.name) };
  }
});

const record = defineActivity('record', async (ctx, entry) => {
  if (await ledger.write(ctx.idempotencyKey, entry))
    console.log(`${entry.at} ${entry.url} is ${entry.state} (${entry.why})`);
});

const monitor = defineOrchestration('monitor', function* (ctx, { url, every, state, failures }) {
  for (let polls = 0; polls < POLLS_MAX; polls += 1) {
    const { isGood, why } = yield* ctx.call(poll, url);
    failures = isGood ? 0 : failures + 1;
    const now = isGood ? 'up' : failures >= FAILURES_MAX ? 'down' : state;
    if (now !== state) {
      state = now;
      yield* ctx.call(record, { url, state, why, at: new Date(ctx.now()).toISOString() });
    }
    ctx.setCustomStatus({ state, failures });
    yield* ctx.sleep(every);
  }
  // The history would grow for years, so the monitor continues with an empty one and its current state.
  return yield* ctx.continueAsNew({ url, every, state, failures });
});

const provider = await SqliteProvider.open(join(options.folder, 'monitor.db'));
const runtime = new Runtime(provider);
runtime.register(poll, record, monitor);
await runtime.start();

const client = new Client(provider);
await client.start(
  monitor,
  { url, every: options.every, state: 'unknown', failures: 0 },
  { id: url, onConflict: 'return' },
);

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, stop);

async function stop() {
  await runtime.shutdown();
  await provider.close();
  await ledger.close();
}

// A process of locked-bank.test.ts: it runs the bank, and starts transfers. Runs in plain Node with the built package.

import { Client, defineActivity, defineEntity, defineOrchestration, Runtime } from 'perdure';

import { openStore, pause, say, seeded } from '../support/worker-parts.mjs';

const { store, name, accounts, transfers, seed } = JSON.parse(process.argv[2]);

/** Transfers of a process that are open at once. */
const LANES = 4;

const look = defineActivity('look', async (_ctx, balance) => {
  await pause(1);
  return balance;
});

const account = defineEntity('account', {
  initial: () => ({ balance: 100, transfers: [] }),
  handlers: {
    *set(ctx, { balance, transfer }) {
      ctx.state = { balance, transfers: [...ctx.state.transfers, transfer] };
    },
  },
  reads: { balance: ({ balance }) => balance },
});

/** Reads both balances, and writes both: without the locks, another transfer would come between. */
const transfer = defineOrchestration('transfer', function* (ctx, { from, to, amount }) {
  return yield* ctx.lock([account.at(from), account.at(to)], function* () {
    const [source, target] = [ctx.entity(account, from), ctx.entity(account, to)];
    const [had, has] = yield* ctx.all([source.balance(), target.balance()]);
    if ((yield* ctx.call(look, had)) < amount) return false;
    yield* source.set({ balance: had - amount, transfer: `${ctx.instanceId} from` });
    yield* target.set({ balance: has + amount, transfer: `${ctx.instanceId} to` });
    return true;
  });
});

const provider = await openStore(store);
const client = new Client(provider);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: name, lease: '2s' });
runtime.register(look, account, transfer);
runtime.on('error', () => undefined);
await runtime.start();
say({ type: 'ready' });

// A process that is started again starts the same transfers.
const random = seeded(seed);
const below = (max) => Math.floor(random() * max);
const inputs = Array.from({ length: transfers }, (_, n) => {
  const from = below(accounts);
  const to = (from + 1 + below(accounts - 1)) % accounts;
  return { id: `transfer ${seed} ${n}`, from: `${from}`, to: `${to}`, amount: 1 + below(60) };
}).values();
const lane = async () => {
  for (const { id, ...input } of inputs) {
    const handle = await client.start(transfer, input, { id, onConflict: 'return' });
    const moved = await handle.result({ timeout: '120s' });
    say({ type: 'done', id, ...input, moved });
  }
};
await Promise.all(Array.from({ length: LANES }, lane));
say({ type: 'all' });

// The process that is killed: a runtime on the database file, and nothing else. It keeps nothing that matters in memory,
// and needs no word about what the one before it did.
//
//   node worker.mjs <folder>

import { join } from 'node:path';
import { Runtime, SqliteProvider } from 'perdure';
import { createActivities } from './activities.mjs';
import { EffectLog } from './effects.mjs';
import { Ledger } from './ledger.mjs';
import { settleDays, settleFlight } from './orchestrations.mjs';

const folder = process.argv[2];
const ledger = await Ledger.open(join(folder, 'ledger.jsonl'));
const effects = new EffectLog(join(folder, 'effects.jsonl'));

const provider = await SqliteProvider.open(join(folder, 'demo.db'));
const runtime = new Runtime(provider);
runtime.register(settleDays, settleFlight, ...await createActivities({ ledger, effects }));
await runtime.start();
process.send?.('ready');

// Ctrl-C in a terminal reaches both processes; main.mjs is the one that decides. When it lets go of this process, or is
// killed itself, the channel between the two closes.
process.on('SIGINT', () => {});
process.once('disconnect', async () => {
  await runtime.shutdown('5s');
  await provider.close();
  await ledger.close();
});

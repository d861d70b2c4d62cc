// The process that is killed: a runtime on the database file, and nothing else. It keeps nothing that matters in
// memory, and needs no word about what the one before it did.
//
// main.mjs starts it: node:child_process fork, with the folder of the run as argument.

import { join } from 'node:path';
import { Runtime, SqliteProvider } from 'perdure';
import { createActivities } from './activities.mjs';
import { EffectLog } from './effects.mjs';
import { Ledger } from './ledger.mjs';
import { settleDays, settleFlight } from './orchestrations.mjs';

// Ctrl-C in a terminal reaches both processes; main.mjs is the one that decides.
process.on('SIGINT', () => {});

const folder = process.argv[2];
const ledger = await Ledger.open(join(folder, 'ledger.jsonl'));
const effects = new EffectLog(join(folder, 'effects.jsonl'));

const provider = await SqliteProvider.open(join(folder, 'demo.db'));
const runtime = new Runtime(provider);
runtime.register(settleDays, settleFlight, ...(await createActivities({ ledger, effects })));
await runtime.start();

// When main.mjs lets go of this process, or is killed itself, the channel between the two closes.
process.once('disconnect', stop);
if (process.connected) process.send('ready');
else await stop();

async function stop() {
  await runtime.shutdown('5s');
  await provider.close();
  await ledger.close();
}

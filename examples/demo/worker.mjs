// The process that is killed: a runtime on the database file, and nothing else. All its important state is in the
// database, so a new worker needs no information about the last one.
//
// main.mjs starts this process with fork of node:child_process. The argument is the folder of the run.

import { join } from 'node:path';
import { Runtime, SqliteProvider } from 'perdure';
import { createActivities } from './activities.mjs';
import { EffectLog } from './effects.mjs';
import { Ledger } from './ledger.mjs';
import { settleDays, settleFlight } from './orchestrations.mjs';

// Ctrl-C in a terminal reaches both processes, and main.mjs handles it.
process.on('SIGINT', () => {});

const folder = process.argv[2];
const ledger = await Ledger.open(join(folder, 'ledger.jsonl'));
const effects = new EffectLog(join(folder, 'effects.jsonl'));

const provider = await SqliteProvider.open(join(folder, 'demo.db'));
const runtime = new Runtime(provider);
runtime.register(settleDays, settleFlight, ...(await createActivities({ ledger, effects })));
await runtime.start();

// The channel to main.mjs closes when main.mjs disconnects, or is killed itself.
process.once('disconnect', stop);
if (process.connected) process.send('ready');
else await stop();

async function stop() {
  await runtime.shutdown('5s');
  await provider.close();
  await ledger.close();
}

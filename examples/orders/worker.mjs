// One worker process: a runtime on the store, and nothing else. On a server this is the program that you run several times.
//
// main.mjs starts it: node:child_process fork, with its name, the schema and the folder as arguments.

import { PostgresProvider, Runtime } from 'perdure';
import { createActivities, order } from './orders.mjs';

// Ctrl-C in a terminal reaches all processes; main.mjs is the one that decides.
process.on('SIGINT', () => {});

const [name, schema, folder] = process.argv.slice(2);
const url = process.env.PERDURE_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';

const provider = await PostgresProvider.connect(url, { schema, poolSize: 3 });
const runtime = new Runtime(provider, { workerName: name });
runtime.register(order, ...createActivities(folder, name));
await runtime.start();

// When main.mjs lets go of this process, or is killed itself, the channel between the two closes.
process.once('disconnect', stop);
if (process.connected) process.send('ready');
else await stop();

async function stop() {
  await runtime.shutdown('5s');
  await provider.close();
}

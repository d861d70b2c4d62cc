// One worker process: a runtime on the store, and nothing else. On a server, run this program several times.
//
// main.mjs starts this process with fork of node:child_process. The arguments are its name, the schema and the folder.

import { PostgresProvider, Runtime } from 'perdure';
import { createActivities, order } from './orders.mjs';

// Ctrl-C in a terminal reaches all processes, and main.mjs handles it.
process.on('SIGINT', () => {});

const [name, schema, folder] = process.argv.slice(2);
const url = process.env.PERDURE_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';

const provider = await PostgresProvider.connect(url, { schema, poolSize: 3 });
const runtime = new Runtime(provider, { workerName: name });
runtime.register(order, ...createActivities(folder, name));
await runtime.start();

// The channel to main.mjs closes when main.mjs disconnects, or is killed itself.
process.once('disconnect', stop);
if (process.connected) process.send('ready');
else await stop();

async function stop() {
  await runtime.shutdown('5s');
  await provider.close();
}

// A worker process of a soak. It runs code.mjs on several threads, and reports its gauges on request.

import { Client, Runtime } from 'perdure';

import { keyedMapSizes, runtimeSizes } from '../../dist/runtime/internal.js';
import { openStore, say } from '../support/worker-parts.mjs';
import { fillPool, gaugesOfProcess } from './gauges.mjs';

const { store, name, runtime: options } = JSON.parse(process.argv[2]);

const provider = await openStore(store);
const runtime = new Runtime(provider, {
  logLevel: 'silent',
  workerName: name,
  modules: [new URL('./code.mjs', import.meta.url)],
  ...options,
});
for (const event of ['error', 'warning']) runtime.on(event, ({ message }) => say({ type: 'reported', what: message }));

function gauges() {
  const { ownedInstances, cachedInstances, openActivities, queuedJobs } = runtime.metrics();
  const { native, activities } = runtimeSizes(runtime);
  const { customStatus, trace } = keyedMapSizes();
  return {
    ...gaugesOfProcess(),
    'instances loaded': native.instances,
    'instances owned': ownedInstances,
    generators: cachedInstances,
    'turns in progress': native.turns,
    'activities open': openActivities,
    'attempts on the first thread': activities,
    'custom statuses': customStatus,
    'trace contexts': trace,
    'jobs queued': queuedJobs,
  };
}

process.on('message', async (told) => {
  if (told.do === 'tell') return say({ type: 'gauges', gauges: gauges() });
  await runtime.shutdown('20s');
  await provider.close();
  process.disconnect();
});
// The parent process is gone, so no further commands can come.
process.on('disconnect', () => process.exit());

await runtime.start();
await fillPool(new Client(provider));
say({ type: 'ready' });

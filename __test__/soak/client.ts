// The client process of a soak. It puts load on a store on command, and reports its gauges on request.

import { Client } from 'perdure';

import { GATE } from '../chaos/gate.ts';
import { openStore, say } from '../support/worker-parts.mjs';
import type { Gauges } from './gauge.ts';
import { fillPool, gaugesOfProcess } from './gauges.mjs';
import { Load } from './load.ts';
import type { ClientOptions, Told } from './talk.ts';

const options = JSON.parse(process.argv[2] ?? '') as ClientOptions;

const provider = await openStore(options.store);
const client = new Client(provider);
let load: Load | undefined;
let loads = 0;

async function gauges(): Promise<Gauges> {
  const { instances, messages, tasks } = await client.stats();
  return {
    ...gaugesOfProcess(),
    'programs under way': load?.programs.underWay ?? 0,
    'instances stored': Object.values(instances).reduce((sum, count) => sum + count, 0),
    'messages stored': messages,
    'tasks stored': tasks.waiting + tasks.running,
  };
}

process.on('message', async (told: Told) => {
  switch (told.do) {
    case 'tell':
      return say({ type: 'gauges', gauges: await gauges() });
    case 'begin':
      loads += 1;
      load = new Load(client, options, String(loads), load?.programs.next ?? 0, told.beside);
      return;
    case 'rest':
      return say({ type: 'rested', figures: await load?.rest() });
    case 'shutdown':
      await provider.close();
      process.disconnect();
  }
});
// The parent process is gone, so no further commands can come.
process.on('disconnect', () => process.exit());

// Half of the programs pass through it. It is wide enough for the rate of their starts.
await client.queues.set(GATE, { concurrency: 20, perKey: { concurrency: 10 }, fairness: 'key' });
await fillPool(client);
say({ type: 'ready' });

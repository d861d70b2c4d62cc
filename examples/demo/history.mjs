// Prints what is recorded of one instance of a demo that has run, event by event.
//
//   node examples/demo/history.mjs <folder> [instance]

import { join } from 'node:path';
import { Client, SqliteProvider } from 'perdure';
import { readLedger } from './ledger.mjs';

const [folder, id = await anInterestingFlight()] = process.argv.slice(2);

const provider = await SqliteProvider.open(join(folder, 'demo.db'));
const client = new Client(provider);
const { name, status, customStatus, createdAt } = await client.getStatus(id);
console.log(`${id}: ${name}, ${status}, custom status ${JSON.stringify(customStatus)}\n`);
for (const { eventId, time, kind, name, refId, payload } of await client.getHistory(id)) {
  const after = `+${time - createdAt} ms`;
  const about = [name, refId && `of ${refId}`, payload !== undefined && JSON.stringify(payload)].filter(Boolean).join(' ');
  console.log(`${String(eventId).padStart(3)} ${after.padStart(9)}  ${kind.padEnd(21)} ${about}`.slice(0, process.stdout.columns));
}
await provider.close();

/** One with a refund: it has been through most of what there is. */
async function anInterestingFlight() {
  const entries = await readLedger(join(process.argv[2], 'ledger.jsonl'));
  return entries.reduce((a, b) => (b.refund > a.refund ? b : a)).flight;
}

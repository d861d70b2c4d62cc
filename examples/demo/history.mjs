// Prints the history of one instance of a demo run, event by event.
//
//   node examples/demo/history.mjs <folder> [instance]

import { join } from 'node:path';
import { Client, SqliteProvider } from 'perdure';
import { readLedger } from './ledger.mjs';

if (process.argv[2] === undefined) {
  console.error('Usage: node examples/demo/history.mjs <folder> [instance]');
  process.exit(2);
}
const [folder, id = await anInterestingFlight()] = process.argv.slice(2);

const provider = await SqliteProvider.open(join(folder, 'demo.db'));
const client = new Client(provider);
const { name, status, customStatus, createdAt } = await statusOf(id);
console.log(`${id}: ${name}, ${status}, custom status ${JSON.stringify(customStatus)}\n`);
for (const { eventId, time, kind, name, refId, payload } of await client.getHistory(id)) {
  const after = `+${time - createdAt} ms`;
  const about = [name, refId && `of ${refId}`, payload !== undefined && JSON.stringify(payload)];
  const columns = [String(eventId).padStart(4), after.padStart(9), '', kind.padEnd(21), ...about.filter(Boolean)];
  const line = columns.join(' ');
  console.log(line.slice(0, process.stdout.columns || 160));
}
await provider.close();

async function statusOf(id) {
  const found = await client.getStatus(id);
  if (found !== null) return found;
  console.error(`There is no instance '${id}' in ${folder}`);
  process.exit(1);
}

/** Returns the flight with the largest refund: its history has most kinds of events. */
async function anInterestingFlight() {
  const entries = await readLedger(join(process.argv[2], 'ledger.jsonl'));
  return entries.reduce((a, b) => (b.refund > a.refund ? b : a)).flight;
}

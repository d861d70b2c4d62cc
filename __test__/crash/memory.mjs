// A worker process whose memory is watched or capped (see memory.test.ts). Runs in plain Node with the built package.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Client, Runtime } from 'perdure';

import { openStore, say } from '../support/worker-parts.mjs';

const { store, part, ids, values = 0, larger = [], capMiB } = JSON.parse(process.argv[2]);

const MIB = 1024 * 1024;
const bytesOf = (name) =>
  Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))[1]) * 1024;

/**
 * Replaces the results of the steps of an instance by texts of `bytes` bytes. They are written directly into the store,
 * which is quick.
 */
async function enlarge(id, bytes) {
  const which = `WHERE kind = 'ActivityCompleted' AND instance_key = (SELECT key FROM instances WHERE id = '${id}')`;
  // 'pg' is loaded only here: it loads Node's fetch, whose WebAssembly memory is more than a process with a cap may
  // map, at a time that is not predictable.
  if (store.kind === 'sqlite') {
    const { default: Database } = await import('better-sqlite3');
    const database = new Database(store.path);
    database.exec(`UPDATE history SET payload = '"' || replace(hex(zeroblob(${bytes / 2})), '0', 'x') || '"' ${which}`);
    database.close();
    return;
  }
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: store.url });
  await client.connect();
  await client.query(`SET search_path TO "${store.schema}"`);
  await client.query(`UPDATE history SET payload = '"' || repeat('x', ${bytes}) || '"' ${which}`);
  await client.end();
}

const provider = await openStore(store);
const runtime = new Runtime(provider, { lease: '5s' });
runtime.on('instance', ({ instanceId, status }) => {
  if (status === 'Suspended') say({ type: 'suspended', id: instanceId });
});
runtime.registerActivity('step', async () => 'x');
runtime.registerOrchestration('large', function* (ctx, count) {
  for (let n = 0; n < count; n += 1) yield ctx.scheduleActivity('step', n);
  ctx.setCustomStatus('full');
  yield ctx.waitForEvent('go');
  return count;
});

if (part === 'fill') {
  await runtime.start();
  const client = new Client(provider);
  for (const id of ids) await client.startOrchestration(id, 'large', values);
  for (const id of ids) await client.waitForStatusChange(id, 0);
  await runtime.shutdown();
  for (const [id, mib] of larger) await enlarge(id, mib * MIB);
  for (const id of ids) await client.raiseEvent(id, 'go');
  await provider.close();
} else {
  const before = bytesOf('VmRSS');
  if (capMiB !== undefined)
    execFileSync('prlimit', ['--pid', `${process.pid}`, `--as=${bytesOf('VmSize') + capMiB * MIB}`]);
  await runtime.start();
  say({ type: 'ready' });
  const client = new Client(provider);
  for (const id of ids) await client.waitForOrchestration(id, '2m');
  say({ type: 'done', mib: (bytesOf('VmHWM') - before) / MIB });
  await runtime.shutdown();
  await provider.close();
}
process.disconnect();

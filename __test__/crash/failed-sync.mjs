// Starts an instance on an SQLite file whose syncs fail from then on, reports the answer to that call, and is killed
// (see failed-sync.test.ts). Runs in plain Node with the built package.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Client, SqliteProvider } from 'perdure';

const client = new Client(await SqliteProvider.open(process.argv[2]));
await client.startOrchestration('before', 'nobody registers this');
const calls = 'fsync,fdatasync';
const tracer = spawn(
  'strace',
  ['-f', '-p', String(process.pid), '-e', `trace=${calls}`, '-e', `inject=${calls}:error=EIO`, '-o', '/dev/null'],
  {
    stdio: ['ignore', 'ignore', 'pipe'],
  },
);
await once(tracer.stderr, 'data');
try {
  await client.startOrchestration('during', 'nobody registers this');
  process.send({ type: 'told', told: 'started' });
} catch (error) {
  const { name, retryable, outcome, message } = error;
  process.send({ type: 'told', told: { name, retryable, outcome, message } });
}

// What the scripts that run a command of the tests have in common.

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';

/** Runs a command to its end with this terminal; its exit code, 1 when it could not be run or was killed. Interrupts go to it. */
export function run(command, args, env) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: 'inherit', env, shell: process.platform === 'win32' });
    child.on('error', (error) => {
      console.error(`${command} does not run: ${error.message}`);
      resolve(1);
    });
    child.on('exit', (code, signal) => resolve(signal ? 1 : (code ?? 1)));
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  });
}

/** Whether a Postgres server, or a pooler before one, lets its URL in. */
export async function answers(url) {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}

/** A port of 127.0.0.1 that nobody listened on just now. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer().on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

// Helpers of the scripts that run a command of the tests.

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';

/**
 * Runs a command to its end with this terminal. Interrupts go to the command. Returns its exit code, or 1 if it could
 * not be run or was killed.
 */
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

/** True if a Postgres server, or a pooler before one, accepts a connection by its URL. */
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

/** Returns a port of 127.0.0.1 that was free just now. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer().on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
